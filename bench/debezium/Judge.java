import io.debezium.engine.ChangeEvent;
import io.debezium.engine.DebeziumEngine;
import io.debezium.engine.format.Json;
import java.io.FileReader;
import java.io.PrintStream;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;

/** Runs Debezium's engine with a file of properties. Writes the values of its records, one a line, until a value contains a text. */
public class Judge {
    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        properties.load(new FileReader(arguments[0]));
        PrintStream out = new PrintStream(arguments[1], "UTF-8");
        String last = arguments[2];
        CountDownLatch done = new CountDownLatch(1);
        DebeziumEngine<ChangeEvent<String, String>> engine = DebeziumEngine.create(Json.class)
            .using(properties)
            .using((success, message, error) -> {
                System.err.println("ended: " + message);
                done.countDown();
            })
            .notifying((records, committer) -> {
                for (ChangeEvent<String, String> record : records) {
                    out.println(record.value());
                    committer.markProcessed(record);
                    if (record.value() != null && record.value().contains(last)) {
                        done.countDown();
                    }
                }
                out.flush();
                committer.markBatchFinished();
            })
            .build();
        Executors.newSingleThreadExecutor().execute(engine);
        boolean ended = done.await(180, TimeUnit.SECONDS);
        out.close();
        System.exit(ended ? 0 : 1);
    }
}
