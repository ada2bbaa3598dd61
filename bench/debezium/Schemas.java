import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.apicurio.registry.utils.converter.avro.AvroData;
import io.apicurio.registry.utils.converter.avro.AvroDataConfig;
import io.debezium.config.CommonConnectorConfig;
import io.debezium.config.Configuration;
import io.debezium.connector.mysql.MySqlConnectorConfig;
import io.debezium.connector.mysql.antlr.MySqlAntlrDdlParser;
import io.debezium.connector.mysql.charset.MySqlCharsetRegistry;
import io.debezium.connector.mysql.jdbc.MySqlDefaultValueConverter;
import io.debezium.connector.mysql.jdbc.MySqlValueConverters;
import io.debezium.jdbc.JdbcValueConverters;
import io.debezium.jdbc.TemporalPrecisionMode;
import io.debezium.relational.*;
import io.debezium.schema.*;
import java.nio.file.*;
import java.util.*;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.json.JsonConverter;

/** Writes the schemas of Debezium's records, as JSON of Kafka Connect and as Avro, for the tables that a file of statements defines. */
public class Schemas {
    public static void main(String[] arguments) throws Exception {
        var config = new MySqlConnectorConfig(Configuration.from(Map.of("topic.prefix", "bintide", "name", "judge")));
        var names = SchemaNameAdjuster.AVRO;
        var values = new MySqlValueConverters(
            JdbcValueConverters.DecimalMode.PRECISE, TemporalPrecisionMode.ADAPTIVE_TIME_MICROSECONDS,
            JdbcValueConverters.BigIntUnsignedMode.LONG, CommonConnectorConfig.BinaryHandlingMode.BYTES, time -> time,
            CommonConnectorConfig.EventConvertingFailureHandlingMode.FAIL, config.getServiceRegistry());
        var builder = new TableSchemaBuilder(values, new MySqlDefaultValueConverter(values), names,
            new CustomConverterRegistry(List.of()), config.getSourceInfoStructMaker().schema(),
            SchemaFactory.get().transactionBlockSchema(), FieldNameSelector.defaultSelector(SchemaNameAdjuster.AVRO_FIELD_NAMER), false,
            CommonConnectorConfig.EventConvertingFailureHandlingMode.FAIL);
        var tables = new Tables();
        var parser = new MySqlAntlrDdlParser(true, false, false, Tables.TableFilter.includeAll(), config.getServiceRegistry().tryGetService(io.debezium.connector.binlog.charset.BinlogCharsetRegistry.class));
        parser.setCurrentDatabase("d");
        parser.parse(Files.readString(Path.of(arguments[0])), tables);
        var topics = DefaultTopicNamingStrategy.create(config);
        var mapper = new ObjectMapper();
        var out = new StringBuilder();
        var json = new JsonConverter();
        json.configure(Map.of("schemas.enable", "true"), false);
        for (TableId id : new TreeSet<>(tables.tableIds())) {
            var schema = builder.create(topics, tables.forTable(id), null, null, null);
            out.append(line(id.toString(), schema.keySchema(), schema.getEnvelopeSchema().schema(), json, mapper));
        }
        var factory = SchemaFactory.get();
        out.append(line("transaction", factory.transactionKeySchema(names), factory.transactionValueSchema(names), json, mapper));
        out.append(line("heartbeat", factory.heartbeatKeySchema(names), factory.heartbeatValueSchema(names), json, mapper));
        var changes = new io.debezium.relational.history.ConnectTableChangeSerializer(names);
        out.append(line("definition", factory.schemaHistoryConnectorKeySchema(names, config), factory.schemaHistoryConnectorValueSchema(names, config, changes), json, mapper));
        Files.writeString(Path.of(arguments[1]), out);
    }

    /** Returns a line with the name of a table or of another kind of records, and the schemas of the keys and values. */
    static String line(String name, Schema key, Schema value, JsonConverter json, ObjectMapper mapper) throws Exception {
        ObjectNode out = mapper.createObjectNode().put("name", name);
        out.set("key", key == null ? null : json.asJsonSchema(key));
        out.set("value", json.asJsonSchema(value));
        out.set("avroKey", key == null ? null : avro(key, mapper));
        out.set("avroValue", avro(value, mapper));
        return mapper.writeValueAsString(out) + "\n";
    }

    static com.fasterxml.jackson.databind.JsonNode avro(Schema schema, ObjectMapper mapper) throws Exception {
        var data = new AvroData(new AvroDataConfig(Map.of("connect.meta.data", true)));
        return mapper.readTree(data.fromConnectSchema(schema).toString());
    }
}
