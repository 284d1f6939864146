import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/** Members of share groups that do what standard input tells them: ShareMembers BOOTSTRAP. The commands stand in tests/clients/share_members.py. */
public class ShareMembers {
    private static final Duration TICK = Duration.ofMillis(100);

    public static void main(String[] arguments) throws Exception {
        Map<String, Member> members = new HashMap<>();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split("\t", -1);
            String last = "ok";
            try {
                switch (words[0]) {
                    case "join": members.put(words[1], new Member(arguments[0], words)); break;
                    case "poll": members.get(words[1]).poll(Integer.parseInt(words[2]), Long.parseLong(words[3])); break;
                    case "say": members.get(words[1]).say(words); break;
                    case "commit": members.get(words[1]).commit(); break;
                    case "leave": members.remove(words[1]).consumer.close(); break;
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

    private static class Member {
        private final KafkaShareConsumer<String, String> consumer;
        private final Map<String, ConsumerRecord<String, String>> had = new HashMap<>();

        Member(String bootstrap, String[] words) {
            Properties properties = new Properties();
            properties.put("bootstrap.servers", bootstrap);
            properties.put("group.id", words[2]);
            properties.put("client.id", "java");
            properties.put("reconnect.backoff.max.ms", "200");
            for (int index = 4; index < words.length; index++) {
                String[] setting = words[index].split("=", 2);
                properties.put(setting[0], setting[1]);
            }
            consumer = new KafkaShareConsumer<>(properties, new StringDeserializer(), new StringDeserializer());
            consumer.subscribe(List.of(words[3]));
        }

        /** Until there are so many records, or the time is over. */
        void poll(int count, long milliseconds) {
            long end = System.currentTimeMillis() + milliseconds;
            int found = 0;
            while (found < count && System.currentTimeMillis() < end) {
                for (ConsumerRecord<String, String> record : consumer.poll(TICK)) {
                    had.put(record.partition() + "-" + record.offset(), record);
                    System.out.println("record\t" + record.partition() + "\t" + record.offset() + "\t" + record.value() + "\t"
                        + record.deliveryCount().map(String::valueOf).orElse(""));
                    found++;
                }
            }
        }

        void say(String[] words) {
            consumer.acknowledge(had.get(words[2] + "-" + words[3]), AcknowledgeType.valueOf(words[4]));
        }

        void commit() {
            for (Map.Entry<TopicIdPartition, Optional<KafkaException>> each : consumer.commitSync().entrySet()) {
                System.out.println("committed\t" + each.getKey().partition() + "\t" + each.getValue().map(Throwable::getMessage).orElse(""));
            }
        }
    }
}
