import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Transactional producers, and consumers of both isolation levels, that do what standard input tells them: Transactions BOOTSTRAP.
 *
 * The commands stand in tests/clients/spoken_clients.py: one a line, words separated by tabs; each answer ends with "ok" or "failed WHY".
 */
public class Transactions {
    private static final Duration TICK = Duration.ofMillis(100);
    private static final long PATIENCE_MS = 30_000;

    private final String bootstrap;
    private final Map<String, KafkaProducer<String, String>> producers = new HashMap<>();
    private final Map<String, List<Future<RecordMetadata>>> sent = new HashMap<>();

    private Transactions(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    public static void main(String[] arguments) throws Exception {
        Transactions all = new Transactions(arguments[0]);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String last = "ok";
            try {
                all.answer(line.split("\t", -1)).forEach(System.out::println);
            } catch (Throwable failure) {
                last = "failed " + described(failure).replace('\n', ' ');
            }
            System.out.println(last);
            System.out.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    /** With its causes: "Cannot execute ..." tells of a fenced producer only there. */
    private static String described(Throwable failure) {
        return failure.getCause() == null ? failure.toString() : failure + ", caused by " + described(failure.getCause());
    }

    private List<String> answer(String[] words) throws Exception {
        List<String> rest = Arrays.asList(words).subList(1, words.length);
        switch (words[0]) {
            case "open": open(words[1], words[2], words[3], rest.subList(3, rest.size())); break;
            case "begin": producers.get(words[1]).beginTransaction(); break;
            case "send": send(words[1], words[2], Integer.parseInt(words[3]), rest.subList(3, rest.size())); break;
            case "flush": flush(words[1]); break;
            case "outcomes": return outcomes(words[1]);
            case "offsets": sendOffsets(words[1], words[2], place(words[3], words[4]), Long.parseLong(words[5])); break;
            case "commit": producers.get(words[1]).commitTransaction(); break;
            case "abort": producers.get(words[1]).abortTransaction(); break;
            case "close": producers.remove(words[1]).close(Duration.ZERO); break;
            case "read": return read(words[1], rest.subList(1, rest.size()));
            case "committed": return committed(words[1], words[2], place(words[3], words[4]));
            default: throw new IllegalArgumentException(words[0]);
        }
        return List.of();
    }

    /** Without a transactional id the producer is idempotent only; more settings are NAME=VALUE. */
    private void open(String handle, String transactionalId, String timeoutMs, List<String> settings) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        if (!transactionalId.isEmpty()) {
            properties.put("transactional.id", transactionalId);
            properties.put("transaction.timeout.ms", timeoutMs);
        }
        properties.put("linger.ms", "5");
        properties.put("reconnect.backoff.max.ms", "100");
        properties.put("retry.backoff.ms", "20");
        properties.put("retry.backoff.max.ms", "100");
        for (String setting : settings) {
            String[] parts = setting.split("=", 2);
            properties.put(parts[0], parts[1]);
        }
        KafkaProducer<String, String> producer = new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer());
        producers.put(handle, producer);
        sent.put(handle, new ArrayList<>());
        if (!transactionalId.isEmpty()) {
            producer.initTransactions();
        }
    }

    private void send(String handle, String topic, int partition, List<String> values) {
        for (String value : values) {
            sent.get(handle).add(producers.get(handle).send(new ProducerRecord<>(topic, partition, null, value)));
        }
    }

    private void flush(String handle) throws Exception {
        producers.get(handle).flush();
        List<Future<RecordMetadata>> futures = new ArrayList<>(sent.get(handle));
        sent.get(handle).clear();
        for (Future<RecordMetadata> each : futures) {
            each.get();
        }
    }

    /** Of each record since the last time: its offset, or what the client says instead. */
    private List<String> outcomes(String handle) throws Exception {
        producers.get(handle).flush();
        List<String> found = new ArrayList<>();
        for (Future<RecordMetadata> each : sent.get(handle)) {
            try {
                found.add(Long.toString(each.get().offset()));
            } catch (java.util.concurrent.ExecutionException failure) {
                found.add(described(failure.getCause()).replace('\n', ' '));
            }
        }
        sent.get(handle).clear();
        return found;
    }

    private void sendOffsets(String handle, String group, TopicPartition partition, long offset) {
        producers.get(handle).sendOffsetsToTransaction(Map.of(partition, new OffsetAndMetadata(offset)), new ConsumerGroupMetadata(group));
    }

    private KafkaConsumer<String, String> consumer(String isolation, String group) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("isolation.level", isolation);
        properties.put("enable.auto.commit", "false");
        if (group != null) {
            properties.put("group.id", group);
        }
        return new KafkaConsumer<>(properties, new StringDeserializer(), new StringDeserializer());
    }

    /** Everything up to the end of each partition as this isolation level sees it: TOPIC PARTITION OFFSET VALUE. */
    private List<String> read(String isolation, List<String> words) {
        List<String> found = new ArrayList<>();
        try (KafkaConsumer<String, String> consumer = consumer(isolation, null)) {
            Set<TopicPartition> wanted = new LinkedHashSet<>();
            for (int i = 0; i < words.size(); i += 3) {
                wanted.add(place(words.get(i), words.get(i + 1)));
            }
            consumer.assign(wanted);
            consumer.seekToBeginning(wanted);
            Map<TopicPartition, Long> ends = consumer.endOffsets(wanted);
            long deadline = System.currentTimeMillis() + PATIENCE_MS;
            while (wanted.stream().anyMatch(each -> consumer.position(each) < ends.get(each))) {
                for (ConsumerRecord<String, String> each : consumer.poll(TICK)) {
                    found.add(each.topic() + "\t" + each.partition() + "\t" + each.offset() + "\t" + each.value());
                }
                if (System.currentTimeMillis() > deadline) {
                    throw new IllegalStateException("the end is out of reach: " + ends);
                }
            }
        }
        return found;
    }

    private List<String> committed(String isolation, String group, TopicPartition partition) {
        try (KafkaConsumer<String, String> consumer = consumer(isolation, group)) {
            OffsetAndMetadata found = consumer.committed(Set.of(partition), Duration.ofMillis(PATIENCE_MS)).get(partition);
            return List.of(found == null ? "-1" : Long.toString(found.offset()));
        }
    }

    private static TopicPartition place(String topic, String partition) {
        return new TopicPartition(topic, Integer.parseInt(partition));
    }
}
