import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.function.BooleanSupplier;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.MemberToRemove;
import org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.FencedInstanceIdException;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * Members of groups, for tests/golden/captures/groups.py: BOOTSTRAP SCENE TOPIC.
 *
 * The topic has two partitions with records; its name and the scene make the group's. Each scene is one JVM with all members, polled in turn.
 */
public class GroupMembers {
    private static final Duration TURN = Duration.ofMillis(100);
    private static final long PATIENCE_MS = 60_000;
    private final String bootstrap;
    private final String scene;
    private final String topic;

    private GroupMembers(String[] arguments) {
        bootstrap = arguments[0];
        scene = arguments[1];
        topic = arguments[2];
    }

    public static void main(String[] arguments) throws Exception {
        GroupMembers all = new GroupMembers(arguments);
        switch (arguments[1]) {
            case "eager" -> all.together(Map.of("partition.assignment.strategy", "org.apache.kafka.clients.consumer.RangeAssignor"));
            case "cooperative" -> all.together(
                Map.of("partition.assignment.strategy", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"));
            case "consumer" -> all.together(Map.of("group.protocol", "consumer"));
            case "static" -> all.staticMembers(Map.of());
            case "consumer_static" -> all.staticMembers(Map.of("group.protocol", "consumer"));
            case "crash" -> all.crash();
            case "regex" -> all.regex();
            case "migration" -> all.migration();
            case "share" -> all.share();
            case "share_explicit" -> all.shareExplicit();
            default -> throw new IllegalArgumentException(arguments[1]);
        }
        System.exit(0);
    }

    /** What all members of this scene have in common. */
    private Properties properties(String name, Map<String, String> more) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("group.id", scene + "-of-" + topic);
        properties.put("client.id", name);
        properties.put("enable.metrics.push", "false");
        if (!scene.startsWith("share")) {
            properties.put("enable.auto.commit", "false");
            properties.put("auto.offset.reset", "earliest");
        }
        if (!scene.startsWith("share") && !"consumer".equals(more.get("group.protocol"))) {
            properties.put("heartbeat.interval.ms", "1000");
            properties.put("session.timeout.ms", "6000");
        }
        properties.putAll(more);
        return properties;
    }

    private Member member(String name, Map<String, String> more) {
        Member member = new Member(name, new KafkaConsumer<>(properties(name, more), new StringDeserializer(), new StringDeserializer()));
        return member;
    }

    /** One of the group, who says what it is given and what is taken from it. */
    private final class Member implements ConsumerRebalanceListener {
        final String name;
        final KafkaConsumer<String, String> consumer;

        Member(String name, KafkaConsumer<String, String> consumer) {
            this.name = name;
            this.consumer = consumer;
        }

        Member subscribe() {
            consumer.subscribe(List.of(topic), this);
            return this;
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            System.out.println(scene + ": " + name + " is given " + partitions);
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            System.out.println(scene + ": from " + name + " are taken " + partitions);
        }

        @Override
        public void onPartitionsLost(Collection<TopicPartition> partitions) {
            System.out.println(scene + ": " + name + " lost " + partitions);
        }

        int owned() {
            return consumer.assignment().size();
        }
    }

    /** Let all take their turns until it is so. */
    private void until(BooleanSupplier done, Member... members) {
        long end = System.currentTimeMillis() + PATIENCE_MS;
        while (!done.getAsBoolean()) {
            if (System.currentTimeMillis() > end) {
                throw new AssertionError(scene + ": waited in vain");
            }
            for (Member member : members) {
                member.consumer.poll(TURN);
            }
        }
    }

    /** The same for some time, so that heartbeats pass. */
    private void stay(long ms, Member... members) {
        long end = System.currentTimeMillis() + ms;
        until(() -> System.currentTimeMillis() > end, members);
    }

    /** One has all, a second one comes, both commit, the second one goes, the first one has all again and goes. */
    private void together(Map<String, String> more) {
        Member first = member("first", more).subscribe();
        until(() -> first.owned() == 2, first);
        first.consumer.commitSync();
        Member second = member("second", more).subscribe();
        until(() -> first.owned() == 1 && second.owned() == 1, first, second);
        stay(2500, first, second);
        first.consumer.commitSync();
        second.consumer.commitSync();
        second.consumer.committed(Set.of(new TopicPartition(topic, 0)));
        second.consumer.close();
        until(() -> first.owned() == 2, first);
        first.consumer.unsubscribe();
        first.subscribe();
        until(() -> first.owned() == 2, first);
        first.consumer.close();
    }

    /** Two with instance ids; each goes and comes back within its session; one is fenced by its double; an operator removes them. */
    private void staticMembers(Map<String, String> more) throws Exception {
        boolean isClassic = more.isEmpty();
        Map<String, String> one = with(more, "group.instance.id", "one");
        Map<String, String> two = with(more, "group.instance.id", "two");
        Member first = member("first", one).subscribe();
        until(() -> first.owned() == 2, first);
        Member second = member("second", two).subscribe();
        until(() -> first.owned() == 1 && second.owned() == 1, first, second);
        second.consumer.close();
        Member again = member("second again", two).subscribe();
        until(() -> again.owned() == 1, first, again);
        first.consumer.close();
        Member leader = member("first again", one).subscribe();
        until(() -> leader.owned() == 1, leader, again);
        stay(1500, leader, again);
        Member twin = member("double", two).subscribe();
        try {
            until(() -> isClassic && twin.owned() == 1, twin, leader);
            stay(3000, again, leader);
            System.out.println("the double fenced nobody");
        } catch (FencedInstanceIdException e) {
            System.out.println(scene + ": " + e.getMessage());
        } catch (RuntimeException e) {
            System.out.println(scene + ": " + e);
        }
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap, "client.id", "operator", "enable.metrics.push", "false"))) {
            admin.describeConsumerGroups(List.of(scene + "-of-" + topic)).all().get();
            admin.removeMembersFromConsumerGroup(
                    scene + "-of-" + topic, new RemoveMembersFromConsumerGroupOptions(List.of(new MemberToRemove("one"), new MemberToRemove("three"))))
                .memberResult(new MemberToRemove("one"))
                .get();
        } catch (Exception e) {
            System.out.println(scene + ": " + e);
        }
    }

    private static Map<String, String> with(Map<String, String> more, String key, String value) {
        Map<String, String> all = new java.util.HashMap<>(more);
        all.put(key, value);
        return all;
    }

    /** The whole JVM dies without a word while both are members; who comes then waits their sessions out: the scene is played twice. */
    private void crash() {
        Member first = member("first", Map.of()).subscribe();
        until(() -> first.owned() == 2, first);
        Member second = member("second", Map.of()).subscribe();
        until(() -> first.owned() == 1 && second.owned() == 1, first, second);
        Runtime.getRuntime().halt(0);
    }

    /** A pattern that the broker resolves, and a topic that comes to match it. */
    private void regex() throws Exception {
        Member first = member("first", Map.of("group.protocol", "consumer", "metadata.max.age.ms", "1000"));
        first.consumer.subscribe(new SubscriptionPattern(topic + ".*"), first);
        until(() -> first.owned() == 2, first);
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap, "client.id", "operator", "enable.metrics.push", "false"))) {
            admin.createTopics(List.of(new org.apache.kafka.clients.admin.NewTopic(topic + "-another", 1, (short) 1))).all().get();
        }
        until(() -> first.owned() == 3, first);
        first.consumer.subscribe(new SubscriptionPattern("absent.*"), first);
        until(() -> first.owned() == 0, first);
        first.consumer.close();
        Member wrong = member("wrong", Map.of("group.protocol", "consumer"));
        wrong.consumer.subscribe(new SubscriptionPattern("a["), wrong);
        try {
            until(() -> wrong.owned() == 1, wrong);
        } catch (RuntimeException e) {
            System.out.println(scene + ": " + e);
        }
        wrong.consumer.close();
    }

    /** A classic member alone, then a new one beside it, then the new one alone, then a classic one beside that: up and down again (KIP-848). */
    private void migration() {
        Map<String, String> classic = Map.of("partition.assignment.strategy", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor");
        Map<String, String> next = Map.of("group.protocol", "consumer");
        Member first = member("classic", classic).subscribe();
        until(() -> first.owned() == 2, first);
        first.consumer.commitSync();
        Member second = member("next", next).subscribe();
        until(() -> first.owned() == 1 && second.owned() == 1, first, second);
        stay(2500, first, second);
        first.consumer.commitSync();
        first.consumer.close();
        until(() -> second.owned() == 2, second);
        Member third = member("classic again", classic).subscribe();
        until(() -> second.owned() == 1 && third.owned() == 1, second, third);
        second.consumer.close();
        until(() -> third.owned() == 2, third);
        stay(1500, third);
        third.consumer.close();
    }

    private KafkaShareConsumer<String, String> sharing(String name, Map<String, String> more) {
        return new KafkaShareConsumer<>(properties(name, more), new StringDeserializer(), new StringDeserializer());
    }

    /** Two who share what there is; each poll accepts what the last one brought. */
    private void share() {
        try (KafkaShareConsumer<String, String> first = sharing("first", Map.of());
                KafkaShareConsumer<String, String> second = sharing("second", Map.of("max.poll.records", "1"))) {
            first.subscribe(List.of(topic));
            second.subscribe(List.of(topic));
            long end = System.currentTimeMillis() + 8000;
            int count = 0;
            while (System.currentTimeMillis() < end) {
                count += second.poll(TURN).count();
                count += first.poll(TURN).count();
            }
            first.commitSync();
            System.out.println(scene + ": " + count + " records");
            second.commitSync();
        }
    }

    /** Each record is accepted, released, rejected or kept longer; the released ones come again. */
    private void shareExplicit() {
        Map<String, String> more = Map.of("share.acknowledgement.mode", "explicit", "share.acquire.mode", "record_limit", "max.poll.records", "3");
        try (KafkaShareConsumer<String, String> consumer = sharing("first", more)) {
            consumer.subscribe(List.of(topic));
            AcknowledgeType[] types = AcknowledgeType.values();
            long end = System.currentTimeMillis() + 10_000;
            int at = 0;
            Set<String> renewed = new java.util.HashSet<>();
            while (System.currentTimeMillis() < end) {
                for (ConsumerRecord<String, String> record : consumer.poll(TURN)) {
                    String place = record.partition() + "-" + record.offset();
                    boolean known = renewed.contains(place) || record.deliveryCount().orElse((short) 1) > 1;
                    AcknowledgeType type = known ? AcknowledgeType.ACCEPT : types[at++ % types.length];
                    System.out.println(scene + ": " + place + " " + record.deliveryCount() + " " + type);
                    consumer.acknowledge(record, type);
                    if (type == AcknowledgeType.RENEW) {
                        renewed.add(place);
                    }
                }
                consumer.commitSync();
            }
        }
    }
}
