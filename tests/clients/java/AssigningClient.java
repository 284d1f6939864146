import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.common.TopicPartition;

/** Kafka 0.10.2 to 3.9: KafkaConsumer with an assigned partition and a sought offset; compiled against 0.10.2. */
public class AssigningClient extends Conversation {
    private static final long PATIENCE_MS = 20_000;

    private AssigningClient(String[] arguments) {
        super(arguments);
    }

    public static void main(String[] arguments) throws Exception {
        new AssigningClient(arguments).run();
    }

    private KafkaConsumer<byte[], byte[]> consumer() {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", host + ":" + port);
        properties.put("enable.auto.commit", "false");
        properties.put("auto.offset.reset", "none");
        properties.put("fetch.max.wait.ms", "200");
        properties.put("key.deserializer", "org.apache.kafka.common.serialization.ByteArrayDeserializer");
        properties.put("value.deserializer", "org.apache.kafka.common.serialization.ByteArrayDeserializer");
        return new KafkaConsumer<byte[], byte[]>(properties);
    }

    @Override
    protected List<String> consume(String topic, int partition, long offset, int count) throws Exception {
        List<String> found = new ArrayList<String>();
        long deadline = System.currentTimeMillis() + PATIENCE_MS;
        TopicPartition wanted = new TopicPartition(topic, partition);
        KafkaConsumer<byte[], byte[]> consumer = consumer();
        try {
            consumer.assign(Collections.singletonList(wanted));
            consumer.seek(wanted, offset);
            while (found.size() < count && System.currentTimeMillis() < deadline) {
                for (ConsumerRecord<byte[], byte[]> each : consumer.poll(200)) {
                    found.add(each.offset() + "\t" + each.timestamp() + "\t" + text(each.key()) + "\t" + text(each.value())
                        + "\t" + headers(each));
                }
            }
        } finally {
            consumer.close();
        }
        return found;
    }

    private static String headers(ConsumerRecord<byte[], byte[]> record) throws Exception {
        StringBuilder found = new StringBuilder();
        try {
            for (Object header : (Iterable<?>) ConsumerRecord.class.getMethod("headers").invoke(record)) {
                Class<?> type = Class.forName("org.apache.kafka.common.header.Header");
                String key = (String) type.getMethod("key").invoke(header);
                found.append(key).append('=').append(text((byte[]) type.getMethod("value").invoke(header)));
            }
        } catch (NoSuchMethodException e) {
            // before 0.11
        }
        return found.length() == 0 ? "-" : found.toString();
    }

    @Override
    protected List<String> offsets(String topic, int partition, long timestamp) throws Exception {
        TopicPartition wanted = new TopicPartition(topic, partition);
        KafkaConsumer<byte[], byte[]> consumer = consumer();
        try {
            if (timestamp >= 0) {
                OffsetAndTimestamp found = consumer.offsetsForTimes(Collections.singletonMap(wanted, timestamp)).get(wanted);
                return Collections.singletonList(found == null ? "-" : Long.toString(found.offset()));
            }
            List<TopicPartition> all = Collections.singletonList(wanted);
            return Collections.singletonList(
                (timestamp == -1 ? consumer.endOffsets(all) : consumer.beginningOffsets(all)).get(wanted).toString());
        } finally {
            consumer.close();
        }
    }
}
