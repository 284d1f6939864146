import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Constructor;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;

/**
 * A Java client of some old version that does what standard input tells it, so that one JVM serves a whole test.
 *
 * Commands, one a line, words separated by tabs; each answer ends with a line "ok" or "failed WHY".
 *     produce TOPIC PARTITION CODEC then TIMESTAMP KEY VALUE HEADER for each record; answers the offset of each
 *     consume TOPIC PARTITION OFFSET COUNT; answers OFFSET TIMESTAMP KEY VALUE HEADERS for each record
 *     offsets TOPIC PARTITION TIMESTAMP; answers one offset, or several
 * "-" stands for null, for no header, and for what this version does not know. Timestamps are sent by producers that know them
 * (0.10), a header, named "h", by those that know headers (0.11).
 */
public abstract class Conversation {
    protected final String host;
    protected final int port;

    protected Conversation(String[] arguments) {
        host = arguments[0];
        port = Integer.parseInt(arguments[1]);
    }

    protected abstract List<String> consume(String topic, int partition, long offset, int count) throws Exception;

    protected abstract List<String> offsets(String topic, int partition, long timestamp) throws Exception;

    protected void run() throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            List<String> answer = new ArrayList<String>();
            String last = "ok";
            try {
                answer = answer(line.split("\t", -1));
            } catch (Throwable failure) {
                Throwable cause = failure;
                while (cause.getCause() != null) {
                    cause = cause.getCause();
                }
                last = "failed " + cause.toString().replace('\n', ' ');
            }
            for (String each : answer) {
                System.out.println(each);
            }
            System.out.println(last);
            System.out.flush();
        }
        System.exit(0);
    }

    private List<String> answer(String[] words) throws Exception {
        String topic = words[1];
        int partition = Integer.parseInt(words[2]);
        if (words[0].equals("produce")) {
            return produce(topic, partition, words[3], Arrays.asList(words).subList(4, words.length));
        }
        if (words[0].equals("consume")) {
            return consume(topic, partition, Long.parseLong(words[3]), Integer.parseInt(words[4]));
        }
        return offsets(topic, partition, Long.parseLong(words[3]));
    }

    private List<String> produce(String topic, int partition, String codec, List<String> records) throws Exception {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", host + ":" + port);
        properties.put("acks", "-1");
        properties.put("compression.type", codec);
        properties.put("linger.ms", "50");
        properties.put("key.serializer", "org.apache.kafka.common.serialization.ByteArraySerializer");
        properties.put("value.serializer", "org.apache.kafka.common.serialization.ByteArraySerializer");
        KafkaProducer<byte[], byte[]> producer = new KafkaProducer<byte[], byte[]>(properties);
        List<String> offsets = new ArrayList<String>();
        try {
            List<Future<RecordMetadata>> sent = new ArrayList<Future<RecordMetadata>>();
            for (int i = 0; i < records.size(); i += 4) {
                sent.add(producer.send(record(topic, partition, records.subList(i, i + 4))));
            }
            for (Future<RecordMetadata> each : sent) {
                offsets.add(Long.toString(each.get().offset()));
            }
        } finally {
            producer.close();
        }
        return offsets;
    }

    /** The fullest record that this version has a constructor for. */
    @SuppressWarnings("unchecked")
    private static ProducerRecord<byte[], byte[]> record(String topic, int partition, List<String> words) throws Exception {
        Long timestamp = words.get(0).equals("-") ? null : Long.valueOf(words.get(0));
        byte[] key = bytes(words.get(1)), value = bytes(words.get(2)), header = bytes(words.get(3));
        Constructor<?> fullest = null;
        for (Constructor<?> each : ProducerRecord.class.getConstructors()) {
            if (fullest == null || each.getParameterTypes().length > fullest.getParameterTypes().length) {
                fullest = each;
            }
        }
        int count = fullest.getParameterTypes().length;
        if (count == 4) {
            return (ProducerRecord<byte[], byte[]>) fullest.newInstance(topic, partition, key, value);
        }
        Object[] arguments = {topic, partition, timestamp, key, value, null};
        ProducerRecord<byte[], byte[]> record = (ProducerRecord<byte[], byte[]>) fullest.newInstance(Arrays.copyOf(arguments, count));
        if (count > 5 && header != null) {
            Object headers = ProducerRecord.class.getMethod("headers").invoke(record);
            headers.getClass().getMethod("add", String.class, byte[].class).invoke(headers, "h", header);
        }
        return record;
    }

    private static byte[] bytes(String word) throws Exception {
        return word.equals("-") ? null : word.getBytes("UTF-8");
    }

    protected static String text(byte[] data) throws Exception {
        return data == null ? "-" : new String(data, "UTF-8");
    }
}
