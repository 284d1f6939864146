import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.FutureTask;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;

/**
 * Members of groups of Kafka 0.9 to 3.9 that do what standard input tells them: OldGroupMembers BOOTSTRAP; compiled against 0.9.
 *
 * The commands stand in tests/clients/group_members.py; they know one topic, the range assignor, and no commit before partitions go.
 */
public class OldGroupMembers {
    private static final long TICK_MS = 50;

    public static void main(String[] arguments) throws Exception {
        Map<String, Member> members = new HashMap<String, Member>();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split("\t", -1);
            String last = "ok";
            try {
                if (words[0].equals("join")) {
                    members.put(words[1], new Member(arguments[0], words));
                } else {
                    for (String each : members.get(words[1]).told(words[0])) {
                        System.out.println(each);
                    }
                }
            } catch (Throwable failure) {
                last = "failed " + failure.toString().replace('\n', ' ');
            }
            System.out.println(last);
            System.out.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    /** All happens in its thread, between two polls. */
    private static class Member extends Thread {
        private final LinkedBlockingQueue<FutureTask<List<String>>> tasks = new LinkedBlockingQueue<FutureTask<List<String>>>();
        private final KafkaConsumer<String, String> consumer;
        private List<String> lines = new ArrayList<String>();
        private boolean left;

        Member(String bootstrap, String[] words) throws Exception {
            Properties properties = new Properties();
            properties.put("bootstrap.servers", bootstrap);
            properties.put("group.id", words[2]);
            properties.put("client.id", "java");
            properties.put("auto.offset.reset", "earliest");
            properties.put("enable.auto.commit", "false");
            properties.put("heartbeat.interval.ms", "200");
            properties.put("fetch.max.wait.ms", "100");
            properties.put("key.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
            properties.put("value.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
            for (String each : words) {
                if (each.startsWith("session_ms=")) {
                    properties.put("session.timeout.ms", each.substring("session_ms=".length()));
                }
            }
            consumer = new KafkaConsumer<String, String>(properties);
            subscribe(words[3]);
            setDaemon(true);
            start();
        }

        /** It takes a List in 0.9, and a Collection since. */
        private void subscribe(String topic) throws Exception {
            for (Method each : KafkaConsumer.class.getMethods()) {
                Class<?>[] takes = each.getParameterTypes();
                if (each.getName().equals("subscribe") && takes.length == 1 && takes[0].isAssignableFrom(List.class)) {
                    each.invoke(consumer, Collections.singletonList(topic));
                    return;
                }
            }
        }

        @Override
        public void run() {
            try {
                while (!left) {
                    for (FutureTask<List<String>> each = tasks.poll(); each != null; each = tasks.poll()) {
                        each.run();
                    }
                    if (left) {
                        return;
                    }
                    for (ConsumerRecord<String, String> each : consumer.poll(TICK_MS)) {
                        lines.add("read\t" + each.topic() + "\t" + each.partition() + "\t" + each.offset() + "\t" + each.value());
                    }
                }
            } catch (Throwable failure) {
                failure.printStackTrace();
                Runtime.getRuntime().halt(1);
            }
        }

        List<String> told(final String command) throws Exception {
            FutureTask<List<String>> task = new FutureTask<List<String>>(new Callable<List<String>>() {
                @Override
                public List<String> call() {
                    return answer(command);
                }
            });
            tasks.add(task);
            return task.get(30, TimeUnit.SECONDS);
        }

        private List<String> answer(String command) {
            List<String> found = new ArrayList<String>();
            if (command.equals("commit")) {
                consumer.commitSync();
            } else if (command.equals("leave")) {
                consumer.close();
                left = true;
            } else {
                Set<TopicPartition> owned = new HashSet<TopicPartition>(consumer.assignment());
                for (TopicPartition each : owned) {
                    found.add("owns\t" + each.topic() + "\t" + each.partition());
                }
                found.addAll(lines);
                lines = new ArrayList<String>();
            }
            return found;
        }
    }
}
