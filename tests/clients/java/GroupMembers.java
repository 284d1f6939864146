import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * Members of groups that do what standard input tells them: GroupMembers BOOTSTRAP. The commands stand in tests/clients/group_members.py.
 *
 * Each member polls in a thread of its own, and commits there what it has read: when it is told to, and before partitions go.
 */
public class GroupMembers {
    private static final Duration TICK = Duration.ofMillis(50);
    private static final Map<String, String> ASSIGNORS = Map.of(
        "range", "org.apache.kafka.clients.consumer.RangeAssignor",
        "roundrobin", "org.apache.kafka.clients.consumer.RoundRobinAssignor",
        "cooperative-sticky", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor");

    public static void main(String[] arguments) throws Exception {
        Map<String, Member> members = new HashMap<>();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split("\t", -1);
            String last = "ok";
            try {
                switch (words[0]) {
                    case "join": members.put(words[1], new Member(arguments[0], words)); break;
                    case "seen": members.get(words[1]).seen().forEach(System.out::println); break;
                    case "commit": members.get(words[1]).commit(); break;
                    case "leave": members.remove(words[1]).leave(); break;
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

    private static class Member extends Thread implements ConsumerRebalanceListener {
        private final ConcurrentLinkedQueue<CompletableFuture<Void>> commits = new ConcurrentLinkedQueue<>();
        private final KafkaConsumer<String, String> consumer;
        private volatile Set<TopicPartition> owned = Set.of();
        private volatile boolean leaving;
        private List<String> lines = new ArrayList<>();

        Member(String bootstrap, String[] words) {
            Map<String, String> settings = new HashMap<>();
            Arrays.stream(words, 4, words.length).map(each -> each.split("=", 2)).forEach(each -> settings.put(each[0], each[1]));
            consumer = new KafkaConsumer<>(properties(bootstrap, words[2], settings), new StringDeserializer(), new StringDeserializer());
            if (!words[3].startsWith("^")) {
                consumer.subscribe(List.of(words[3]), this);
            } else if (settings.get("protocol").equals("consumer")) {
                consumer.subscribe(new SubscriptionPattern(words[3]), this);
            } else {
                consumer.subscribe(Pattern.compile(words[3]), this);
            }
            setDaemon(true);
            start();
        }

        private static Properties properties(String bootstrap, String group, Map<String, String> settings) {
            Properties properties = new Properties();
            properties.put("bootstrap.servers", bootstrap);
            properties.put("group.id", group);
            properties.put("client.id", "java");
            properties.put("group.protocol", settings.get("protocol"));
            properties.put("auto.offset.reset", "earliest");
            properties.put("enable.auto.commit", "false");
            properties.put("metadata.max.age.ms", "300");
            properties.put("fetch.max.wait.ms", "100");
            properties.put("reconnect.backoff.max.ms", "200");
            String assignor = settings.get("assignor");
            if (settings.get("protocol").equals("classic")) {
                properties.put("heartbeat.interval.ms", "200");
                properties.put("session.timeout.ms", settings.get("session_ms"));
                properties.put("partition.assignment.strategy", ASSIGNORS.get(assignor));
            } else if (!assignor.isEmpty()) {
                properties.put("group.remote.assignor", assignor);
            }
            if (!settings.get("instance").isEmpty()) {
                properties.put("group.instance.id", settings.get("instance"));
            }
            return properties;
        }

        @Override
        public void run() {
            try (consumer) {
                while (!leaving) {
                    for (CompletableFuture<Void> each = commits.poll(); each != null; each = commits.poll()) {
                        commit(each);
                    }
                    poll();
                }
            } catch (Throwable failure) {
                trouble(failure);
            }
        }

        private void poll() {
            List<String> found = new ArrayList<>();
            for (ConsumerRecord<String, String> each : consumer.poll(TICK)) {
                found.add("read\t" + each.topic() + "\t" + each.partition() + "\t" + each.offset() + "\t" + each.value());
            }
            owned = Set.copyOf(consumer.assignment());
            add(found);
        }

        private void commit(CompletableFuture<Void> done) {
            try {
                consumer.commitSync();
                done.complete(null);
            } catch (Throwable failure) {
                done.completeExceptionally(failure);
            }
        }

        void commit() throws Exception {
            CompletableFuture<Void> done = new CompletableFuture<>();
            commits.add(done);
            done.get(30, TimeUnit.SECONDS);
        }

        void leave() throws Exception {
            leaving = true;
            join(30_000);
            if (isAlive()) {
                throw new IllegalStateException("it does not leave");
            }
        }

        synchronized List<String> seen() {
            List<String> all = new ArrayList<>();
            owned.forEach(each -> all.add("owns\t" + each.topic() + "\t" + each.partition()));
            all.addAll(lines);
            lines = new ArrayList<>();
            return all;
        }

        private synchronized void add(List<String> found) {
            lines.addAll(found);
        }

        private void trouble(Throwable failure) {
            add(List.of("trouble\t" + failure.toString().replace('\n', ' ')));
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            try {
                consumer.commitSync();
            } catch (Exception failure) {
                trouble(failure);
            }
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
        }

        @Override
        public void onPartitionsLost(Collection<TopicPartition> partitions) {
        }
    }
}
