import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

/**
 * Writes messages with Kafka's own generated classes.
 *
 * Standard input: {"message": "TopicRecord", "version": 0, "value": {...}} in each line, the value as Kafka's JsonConverters
 * take it. Standard output: for each the API key or record id (-1 for a message without) and the bytes in hex.
 */
public class KafkaWrites {
    public static void main(String[] arguments) throws Exception {
        ObjectMapper mapper = new ObjectMapper();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        StringBuilder output = new StringBuilder();
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JsonNode task = mapper.readTree(line);
            short version = (short) task.get("version").asInt();
            Message message = (Message) converter(task.get("message").asText())
                .getMethod("read", JsonNode.class, short.class)
                .invoke(null, task.get("value"), version);
            int key = message instanceof ApiMessage ? ((ApiMessage) message).apiKey() : -1;
            output.append(key).append(' ').append(HexFormat.of().formatHex(bytes(message, version))).append('\n');
        }
        System.out.print(output);
    }

    private static byte[] bytes(Message message, short version) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer buffer = ByteBuffer.allocate(message.size(cache, version));
        message.write(new ByteBufferAccessor(buffer), cache, version);
        return buffer.array();
    }

    private static Class<?> converter(String name) throws ClassNotFoundException {
        String[] candidates = {"common.message." + name + "Data", "common.message." + name, "common.metadata." + name,
            "coordinator.transaction.generated." + name, "coordinator.group.generated." + name,
            "coordinator.share.generated." + name};
        for (String candidate : candidates) {
            try {
                return Class.forName("org.apache.kafka." + candidate + "JsonConverter");
            } catch (ClassNotFoundException e) {
                // the next one
            }
        }
        throw new ClassNotFoundException(name);
    }
}
