import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import kafka.api.FetchRequestBuilder;
import kafka.api.PartitionOffsetRequestInfo;
import kafka.common.TopicAndPartition;
import kafka.javaapi.FetchResponse;
import kafka.javaapi.OffsetRequest;
import kafka.javaapi.OffsetResponse;
import kafka.javaapi.consumer.SimpleConsumer;
import kafka.message.Message;
import kafka.message.MessageAndOffset;

/** Kafka 0.8.2 to 0.10.0: the consumer that needs no group, of the broker's own jar. Its KafkaConsumer insists on a coordinator. */
public class SimpleClient extends Conversation {
    private static final int FETCH_SIZE = 1 << 20;
    private static final long PATIENCE_MS = 20_000;

    private SimpleClient(String[] arguments) {
        super(arguments);
    }

    public static void main(String[] arguments) throws Exception {
        new SimpleClient(arguments).run();
    }

    @Override
    protected List<String> consume(String topic, int partition, long offset, int count) throws Exception {
        SimpleConsumer consumer = new SimpleConsumer(host, port, 10_000, 64 * 1024, "simple");
        List<String> found = new ArrayList<String>();
        long deadline = System.currentTimeMillis() + PATIENCE_MS;
        try {
            while (found.size() < count && System.currentTimeMillis() < deadline) {
                FetchRequestBuilder wanted = new FetchRequestBuilder().clientId("simple").maxWait(200).minBytes(1);
                FetchResponse response = consumer.fetch(wanted.addFetch(topic, partition, offset, FETCH_SIZE).build());
                if (response.hasError()) {
                    throw new IllegalStateException("error " + response.errorCode(topic, partition));
                }
                for (MessageAndOffset each : response.messageSet(topic, partition)) {
                    if (each.offset() >= offset) {
                        found.add(described(each));
                        offset = each.offset() + 1;
                    }
                }
            }
        } finally {
            consumer.close();
        }
        return found;
    }

    private static String described(MessageAndOffset each) throws Exception {
        Message message = each.message();
        message.ensureValid();
        String timestamp = "-";
        try {
            timestamp = Message.class.getMethod("timestamp").invoke(message).toString();
        } catch (NoSuchMethodException e) {
            // before 0.10
        }
        return each.offset() + "\t" + timestamp + "\t" + text(copied(message.key())) + "\t" + text(copied(message.payload())) + "\t-";
    }

    private static byte[] copied(ByteBuffer buffer) {
        if (buffer == null) {
            return null;
        }
        byte[] data = new byte[buffer.remaining()];
        buffer.get(data);
        return data;
    }

    @Override
    protected List<String> offsets(String topic, int partition, long timestamp) throws Exception {
        SimpleConsumer consumer = new SimpleConsumer(host, port, 10_000, 64 * 1024, "simple");
        try {
            PartitionOffsetRequestInfo wanted = new PartitionOffsetRequestInfo(timestamp, 100);
            OffsetRequest request = new OffsetRequest(
                Collections.singletonMap(new TopicAndPartition(topic, partition), wanted), (short) 0, "simple");
            OffsetResponse response = consumer.getOffsetsBefore(request);
            if (response.hasError()) {
                throw new IllegalStateException("error " + response.errorCode(topic, partition));
            }
            List<String> found = new ArrayList<String>();
            for (long offset : response.offsets(topic, partition)) {
                found.add(Long.toString(offset));
            }
            return found;
        } finally {
            consumer.close();
        }
    }
}
