// What Apache Kafka's assignor of share groups makes of cases: one a line on stdin, the assignment of each on stdout.
// observe_assignor.py runs it.
//
//   case        homogeneous|topic:partition.partition,...|member,member,...      homogeneous: 1 or 0; partitions that may be given away
//   member      id;topic.topic;topic:partition.partition/...                     the last is what it shall have at the moment
//   assignment  member=topic:partition.partition/... member=...
// A topic is a small number, and topic 0 the only one where all members want the same: so Kafka's hash tables take them in ascending order.

import java.util.*;
import java.util.stream.*;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.*;
import org.apache.kafka.coordinator.group.assignor.*;
import org.apache.kafka.coordinator.group.modern.*;

public class SimpleAssignments {
    static Uuid topic(String number) {
        return new Uuid(0, Long.parseLong(number));
    }

    static List<String> parts(String text, String separator) {
        return text.isEmpty() ? List.of() : List.of(text.split(separator));
    }

    static Map<Uuid, Set<Integer>> partitions(List<String> told) {
        Map<Uuid, Set<Integer>> found = new LinkedHashMap<>();
        for (String some : told) {
            String[] pair = some.split(":");
            Set<Integer> partitions = new TreeSet<>();
            for (String partition : pair[1].split("\\.")) partitions.add(Integer.parseInt(partition));
            found.put(topic(pair[0]), partitions);
        }
        return found;
    }

    static String answer(String line) {
        String[] fields = line.split("\\|", -1);
        Map<Uuid, Set<Integer>> assignable = partitions(parts(fields[1], ","));
        Map<String, MemberSubscriptionAndAssignmentImpl> members = new LinkedHashMap<>();
        for (String each : parts(fields[2], ",")) {
            String[] member = each.split(";", -1);
            Set<Uuid> topics = parts(member[1], "\\.").stream().map(SimpleAssignments::topic).collect(Collectors.toCollection(LinkedHashSet::new));
            Map<Uuid, Set<Integer>> owned = partitions(parts(member[2], "/"));
            members.put(member[0], new MemberSubscriptionAndAssignmentImpl(Optional.empty(), Optional.empty(), topics, new Assignment(Collections.unmodifiableMap(owned))));
        }
        SubscriptionType type = fields[0].equals("1") ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS;
        SubscribedTopicDescriber describer = new SubscribedTopicDescriber() {
            public int numPartitions(Uuid id) { return 16; }
            public Set<String> racksForPartition(Uuid id, int partition) { return Set.of(); }
        };
        GroupSpec group = new GroupSpecImpl(members, type, Map.of(), Optional.of(assignable));
        GroupAssignment found = new SimpleAssignor().assign(group, describer);
        return members.keySet().stream().map(id -> id + "=" + told(found.members().get(id))).collect(Collectors.joining(" "));
    }

    static String told(MemberAssignment assignment) {
        if (assignment == null) return "";
        return new TreeMap<>(assignment.partitions()).entrySet().stream().filter(each -> !each.getValue().isEmpty())
            .map(each -> each.getKey().getLeastSignificantBits() + ":" + each.getValue().stream().sorted().map(String::valueOf).collect(Collectors.joining(".")))
            .collect(Collectors.joining("/"));
    }

    public static void main(String[] arguments) {
        new Scanner(System.in).useDelimiter("\n").forEachRemaining(line -> System.out.println(answer(line)));
    }
}
