import com.google.protobuf.Timestamp;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.apicurio.registry.serde.avro.AvroKafkaDeserializer;
import io.apicurio.registry.serde.avro.AvroKafkaSerializer;
import io.apicurio.registry.serde.jsonschema.JsonSchemaKafkaDeserializer;
import io.apicurio.registry.serde.jsonschema.JsonSchemaKafkaSerializer;
import io.apicurio.registry.serde.protobuf.ProtobufKafkaDeserializer;
import io.apicurio.registry.serde.protobuf.ProtobufKafkaSerializer;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Map;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericData;
import org.apache.avro.generic.GenericRecord;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.Deserializer;
import org.apache.kafka.common.serialization.Serializer;

/** Apicurio's serializers: prints a line for each step that did what it should. The argument is the URL of the API. */
public class ApicurioClient {
    private static final String FIRST =
        "{\"type\":\"record\",\"name\":\"P\",\"namespace\":\"s\",\"fields\":[{\"name\":\"name\",\"type\":\"string\"}]}";
    private static final String SECOND = FIRST.replace("]}", ",{\"name\":\"age\",\"type\":\"int\",\"default\":7}]}");
    private static String url;

    private static void check(boolean holds, String what) {
        if (!holds) {
            throw new AssertionError(what);
        }
    }

    private static Map<String, Object> settings(String... pairs) {
        Map<String, Object> found = new HashMap<>(Map.of("apicurio.registry.url", url, "apicurio.registry.retry-count", "0"));
        // Release 2 puts the id into a header, in 8 bytes, unless these are set; release 3 ignores them.
        found.putAll(Map.of("apicurio.registry.headers.enabled", "false", "apicurio.registry.as-confluent", "true"));
        found.put("apicurio.registry.use-id", "contentId");
        for (int index = 0; index < pairs.length; index += 2) {
            found.put("apicurio.registry." + pairs[index], pairs[index + 1]);
        }
        return found;
    }

    private static <S extends Serializer<?>> S writer(S made, String... pairs) {
        made.configure(settings(pairs), false);
        return made;
    }

    private static <D extends Deserializer<?>> D reader(D made, String... pairs) {
        made.configure(settings(pairs), false);
        return made;
    }

    private static GenericRecord person(String schema) {
        GenericRecord found = new GenericData.Record(new Schema.Parser().parse(schema));
        found.put("name", "ann");
        if (found.hasField("age")) {
            found.put("age", 8);
        }
        return found;
    }

    private static int id(byte[] payload) {
        check(payload[0] == 0, "magic");
        return java.nio.ByteBuffer.wrap(payload).getInt(1);
    }

    private static String refusal(Runnable request) {
        try {
            request.run();
        } catch (RuntimeException error) {
            StringBuilder found = new StringBuilder();
            for (Throwable each = error; each != null; each = each.getCause()) {
                found.append(each).append(' ');
            }
            return found.toString();
        }
        throw new AssertionError("the request was served");
    }

    public static void main(String[] arguments) throws Exception {
        url = arguments[0];
        AvroKafkaSerializer<GenericRecord> registering = writer(new AvroKafkaSerializer<>(), "auto-register", "true");
        byte[] one = registering.serialize("orders", new RecordHeaders(), person(FIRST));
        byte[] two = registering.serialize("orders", new RecordHeaders(), person(SECOND));
        check(id(one) != id(two), "two schemas");
        AvroKafkaDeserializer<GenericRecord> avro = reader(new AvroKafkaDeserializer<>());
        check(avro.deserialize("orders", new RecordHeaders(), one).equals(person(FIRST)), "first");
        check(avro.deserialize("orders", new RecordHeaders(), two).equals(person(SECOND)), "second");
        System.out.println("avro " + HexFormat.of().formatHex(two));

        AvroKafkaSerializer<GenericRecord> looking = writer(new AvroKafkaSerializer<>());
        check(id(looking.serialize("orders", new RecordHeaders(), person(FIRST))) == id(one), "found by content");
        AvroKafkaSerializer<GenericRecord> latest = writer(new AvroKafkaSerializer<>(), "find-latest", "true");
        check(id(latest.serialize("orders", new RecordHeaders(), person(SECOND))) == id(two), "the latest");
        System.out.println("finds schemas");

        String unfit = FIRST.replace("\"string\"", "\"int\"");
        GenericRecord wrong = new GenericData.Record(new Schema.Parser().parse(unfit));
        wrong.put("name", 1);
        String refused = refusal(() -> registering.serialize("orders", new RecordHeaders(), wrong));
        check(refused.contains("RuleViolation") || refused.contains("incompatible"), refused);
        refusal(() -> writer(new AvroKafkaSerializer<GenericRecord>()).serialize("missing", new RecordHeaders(), person(FIRST)));
        refusal(() -> avro.deserialize("orders", new RecordHeaders(), new byte[] {0, 0, 0, 99, 99, 2, 65}));
        System.out.println("meets errors");

        JsonSchemaKafkaSerializer<JsonNode> json = writer(new JsonSchemaKafkaSerializer<>(), "find-latest", "true");
        JsonNode item = new ObjectMapper().readTree("{\"item\": \"apples\"}");
        byte[] written = json.serialize("items", new RecordHeaders(), item);
        JsonSchemaKafkaDeserializer<JsonNode> fromJson =
            reader(new JsonSchemaKafkaDeserializer<>(), "deserializer.value.return-class", JsonNode.class.getName());
        check(fromJson.deserialize("items", new RecordHeaders(), written).equals(item), "JSON");
        refusal(() -> {
            try {
                json.serialize("items", new RecordHeaders(), new ObjectMapper().readTree("{\"item\": 1}"));
            } catch (com.fasterxml.jackson.core.JsonProcessingException error) {
                throw new AssertionError(error);
            }
        });
        System.out.println("json " + id(written));

        ProtobufKafkaSerializer<Timestamp> protobuf = writer(new ProtobufKafkaSerializer<>(), "auto-register", "true");
        Timestamp time = Timestamp.newBuilder().setSeconds(7).build();
        byte[] encoded = protobuf.serialize("times", new RecordHeaders(), time);
        ProtobufKafkaDeserializer<Timestamp> fromProtobuf =
            reader(new ProtobufKafkaDeserializer<>(), "deserializer.value.return-class", Timestamp.class.getName());
        check(fromProtobuf.deserialize("times", new RecordHeaders(), encoded).equals(time), "Protobuf");
        System.out.println("protobuf " + id(encoded));
    }
}
