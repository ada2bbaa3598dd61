import com.mysql.cj.MysqlConnection;
import com.mysql.cj.Query;
import com.mysql.cj.interceptors.QueryInterceptor;
import com.mysql.cj.log.Log;
import com.mysql.cj.protocol.Resultset;
import com.mysql.cj.protocol.ServerSession;
import java.sql.Connection;
import java.sql.SQLException;
import java.util.Map;
import java.util.Properties;
import java.util.function.Supplier;

/** Replaces the names of statements and variables that MySQL renamed after the release of Maxwell. */
public class Renamed implements QueryInterceptor {
    private static final Map<String, String> NEW_NAMES = Map.of(
        "SHOW MASTER STATUS", "SHOW BINARY LOG STATUS",
        "SHOW VARIABLES LIKE 'log_slave_updates'", "SHOW VARIABLES LIKE 'log_replica_updates'");

    private Connection connection;

    @Override
    public QueryInterceptor init(MysqlConnection connection, Properties properties, Log log) {
        this.connection = (Connection) connection;
        return this;
    }

    @Override
    @SuppressWarnings("unchecked")
    public <T extends Resultset> T preProcess(Supplier<String> sql, Query query) {
        String text = sql.get();
        String renamed = text == null ? null : NEW_NAMES.get(text.trim());
        if (renamed == null) {
            return null;
        }
        try {
            return (T) connection.createStatement().executeQuery(renamed);
        } catch (SQLException error) {
            throw new IllegalStateException(error);
        }
    }

    @Override
    public boolean executeTopLevelOnly() {
        return false;
    }

    @Override
    public void destroy() {
    }

    @Override
    public <T extends Resultset> T postProcess(Supplier<String> sql, Query query, T result, ServerSession session) {
        return null;
    }
}
