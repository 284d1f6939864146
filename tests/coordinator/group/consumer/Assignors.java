// What Apache Kafka's assignors make of cases: one a line on stdin, the assignment of each on stdout. observe_assignors.py runs it.
//
//   case        assignor|homogeneous|topic:count,...|member,member,...      homogeneous: 1 or 0
//   member      id;instance or -;topic.topic;topic:partition.partition/...  the last is what it shall have at the moment
//   assignment  member=topic:partition.partition/... member=...
// A topic is a small number: so Kafka's hash tables take them in ascending order, as members come in the order of the line.

import java.util.*;
import java.util.stream.*;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.*;
import org.apache.kafka.coordinator.group.assignor.*;
import org.apache.kafka.coordinator.group.modern.*;

public class Assignors {
    static Uuid topic(String number) {
        return new Uuid(0, Long.parseLong(number));
    }

    static List<String> parts(String text, String separator) {
        return text.isEmpty() ? List.of() : List.of(text.split(separator));
    }

    static String answer(String line) {
        String[] fields = line.split("\\|", -1);
        Map<Uuid, Integer> counts = new LinkedHashMap<>();
        for (String each : parts(fields[2], ",")) counts.put(topic(each.split(":")[0]), Integer.parseInt(each.split(":")[1]));
        Map<String, MemberSubscriptionAndAssignmentImpl> members = new LinkedHashMap<>();
        Map<Uuid, Map<Integer, String>> owners = new HashMap<>();
        for (String each : parts(fields[3], ",")) {
            String[] member = each.split(";", -1);
            Set<Uuid> topics = parts(member[2], "\\.").stream().map(Assignors::topic).collect(Collectors.toCollection(LinkedHashSet::new));
            Map<Uuid, Set<Integer>> owned = new LinkedHashMap<>();
            for (String some : parts(member[3], "/")) {
                String[] pair = some.split(":");
                Set<Integer> partitions = new TreeSet<>();
                for (String partition : pair[1].split("\\.")) partitions.add(Integer.parseInt(partition));
                owned.put(topic(pair[0]), partitions);
                for (int partition : partitions) owners.computeIfAbsent(topic(pair[0]), t -> new HashMap<>()).put(partition, member[0]);
            }
            Optional<String> instance = member[1].equals("-") ? Optional.empty() : Optional.of(member[1]);
            members.put(member[0], new MemberSubscriptionAndAssignmentImpl(Optional.empty(), instance, topics, new Assignment(Collections.unmodifiableMap(owned))));
        }
        SubscriptionType type = fields[1].equals("1") ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS;
        SubscribedTopicDescriber describer = new SubscribedTopicDescriber() {
            public int numPartitions(Uuid id) { return counts.getOrDefault(id, -1); }
            public Set<String> racksForPartition(Uuid id, int partition) { return Set.of(); }
        };
        ConsumerGroupPartitionAssignor assignor = fields[0].equals("range") ? new RangeAssignor() : new UniformAssignor();
        GroupAssignment found = assignor.assign(new GroupSpecImpl(members, type, owners), describer);
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
