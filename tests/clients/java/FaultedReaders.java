import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * Members of consumer groups and of share groups that read on whatever befalls them, each in a thread of its own.
 *
 * When one fails it is closed, and another one goes on. The commands stand in tests/support/faulted_java_readers.py.
 */
public class FaultedReaders {
    private static final Duration TICK = Duration.ofMillis(100);
    private static final Duration PATIENCE = Duration.ofSeconds(5);

    public static void main(String[] arguments) throws Exception {
        Map<String, Member> members = new HashMap<>();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split("\t", -1);
            String last = "ok";
            try {
                switch (words[0]) {
                    case "join": members.put(words[1], new Member(words)); break;
                    case "seen": members.get(words[1]).seen().forEach(System.out::println); break;
                    case "leave": members.get(words[1]).leave(); break;
                    default: throw new IllegalArgumentException(words[0]);
                }
            } catch (Throwable failure) {
                last = "failed " + failure.toString().replace('\n', ' ');
            }
            System.out.println(last);
            System.out.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    private static class Member extends Thread {
        private final boolean isShare;
        private final List<String> topics;
        private final Properties properties = new Properties();
        private volatile boolean leaving;
        private List<String> lines = new ArrayList<>();

        Member(String[] words) {
            isShare = words[2].equals("share");
            topics = Arrays.asList(words[3].split(","));
            Arrays.stream(words, 4, words.length).map(each -> each.split("=", 2)).forEach(each -> properties.put(each[0], each[1]));
            setDaemon(true);
            start();
        }

        @Override
        public void run() {
            while (!leaving) {
                try {
                    if (isShare) {
                        share();
                    } else {
                        consume();
                    }
                } catch (Throwable failure) {
                    add(List.of("trouble\t" + failure.toString().replace('\n', ' ')));
                }
            }
        }

        private void consume() {
            KafkaConsumer<String, String> consumer = new KafkaConsumer<>(properties, new StringDeserializer(), new StringDeserializer());
            try {
                consumer.subscribe(topics);
                while (!leaving) {
                    ConsumerRecords<String, String> records = consumer.poll(TICK);
                    if (records.isEmpty()) {
                        continue;
                    }
                    add(read(records));
                    Map<TopicPartition, OffsetAndMetadata> next = new HashMap<>();
                    for (ConsumerRecord<String, String> each : records) {
                        next.put(new TopicPartition(each.topic(), each.partition()), new OffsetAndMetadata(each.offset() + 1));
                    }
                    consumer.commitSync(next, PATIENCE);
                    List<String> kept = new ArrayList<>();
                    next.forEach((where, what) -> kept.add("kept\t" + where.topic() + "\t" + where.partition() + "\t" + what.offset()));
                    add(kept);
                }
            } finally {
                consumer.close(org.apache.kafka.clients.consumer.CloseOptions.timeout(Duration.ofMillis(500)));
            }
        }

        private void share() {
            KafkaShareConsumer<String, String> consumer =
                new KafkaShareConsumer<>(properties, new StringDeserializer(), new StringDeserializer());
            try {
                consumer.subscribe(topics);
                while (!leaving) {
                    ConsumerRecords<String, String> records = consumer.poll(TICK);
                    if (records.isEmpty()) {
                        continue;
                    }
                    add(read(records));
                    records.forEach(each -> consumer.acknowledge(each, AcknowledgeType.ACCEPT));
                    Map<TopicIdPartition, Optional<KafkaException>> done = consumer.commitSync(PATIENCE);
                    add(kept(records, done));
                }
            } finally {
                consumer.close(Duration.ofMillis(500));
            }
        }

        private List<String> read(ConsumerRecords<String, String> records) {
            List<String> found = new ArrayList<>();
            for (ConsumerRecord<String, String> each : records) {
                found.add("read\t" + each.topic() + "\t" + each.partition() + "\t" + each.offset() + "\t" + each.value());
            }
            return found;
        }

        /** Each record of the partitions of which the broker said so. */
        private List<String> kept(ConsumerRecords<String, String> records, Map<TopicIdPartition, Optional<KafkaException>> done) {
            List<String> found = new ArrayList<>();
            for (Map.Entry<TopicIdPartition, Optional<KafkaException>> each : done.entrySet()) {
                if (each.getValue().isPresent()) {
                    found.add("trouble\t" + each.getKey() + ": " + each.getValue().get().toString().replace('\n', ' '));
                    continue;
                }
                for (ConsumerRecord<String, String> record : records.records(each.getKey().topicPartition())) {
                    found.add("kept\t" + record.topic() + "\t" + record.partition() + "\t" + record.offset());
                }
            }
            return found;
        }

        void leave() throws Exception {
            leaving = true;
            join(30_000);
        }

        synchronized List<String> seen() {
            List<String> all = lines;
            lines = new ArrayList<>();
            return all;
        }

        private synchronized void add(List<String> found) {
            lines.addAll(found);
        }
    }
}
