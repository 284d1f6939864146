// What Apache Kafka's sticky assignor of streams groups makes of cases: one a line on stdin, the assignment of each on stdout.
// observe_assignor.py runs it.
//
//   case        standby count|subtopology:tasks:stateful,...|member,member,...      stateful: 1 or 0
//   member      id;process;active tasks;standby tasks                               what it shall have at the moment
//   tasks       subtopology:partition.partition/...
//   assignment  member=active tasks;standby tasks member=...
// Ids of members and processes are small letters without gaps, so that Kafka's hash tables take them in the order of the line.

import java.util.*;
import java.util.stream.*;
import org.apache.kafka.coordinator.group.streams.assignor.*;

public class StickyAssignor {
    static List<String> parts(String text, String separator) {
        return text.isEmpty() ? List.of() : List.of(text.split(separator));
    }

    static Map<String, Set<Integer>> tasks(String text) {
        Map<String, Set<Integer>> found = new LinkedHashMap<>();
        for (String each : parts(text, "/")) {
            String[] pair = each.split(":");
            found.put(pair[0], parts(pair[1], "\\.").stream().map(Integer::valueOf).collect(Collectors.toCollection(TreeSet::new)));
        }
        return found;
    }

    static String told(Map<String, Set<Integer>> tasks) {
        return new TreeMap<>(tasks).entrySet().stream().filter(each -> !each.getValue().isEmpty())
            .map(each -> each.getKey() + ":" + each.getValue().stream().sorted().map(String::valueOf).collect(Collectors.joining(".")))
            .collect(Collectors.joining("/"));
    }

    static String answer(String line) {
        String[] fields = line.split("\\|", -1);
        SortedMap<String, String[]> subtopologies = new TreeMap<>();
        for (String each : parts(fields[1], ",")) subtopologies.put(each.split(":")[0], each.split(":"));
        Map<String, AssignmentMemberSpec> members = new LinkedHashMap<>();
        for (String each : parts(fields[2], ",")) {
            String[] member = each.split(";", -1);
            members.put(member[0], new AssignmentMemberSpec(Optional.empty(), Optional.empty(), tasks(member[2]), tasks(member[3]),
                Map.of(), member[1], Map.of(), Map.of(), Map.of()));
        }
        TopologyDescriber describer = new TopologyDescriber() {
            public List<String> subtopologies() { return List.copyOf(subtopologies.keySet()); }
            public int maxNumInputPartitions(String id) { return Integer.parseInt(subtopologies.get(id)[1]); }
            public boolean isStateful(String id) { return subtopologies.get(id)[2].equals("1"); }
        };
        GroupAssignment found = new StickyTaskAssignor().assign(new GroupSpecImpl(members, Map.of("num.standby.replicas", fields[0])), describer);
        return members.keySet().stream()
            .map(id -> id + "=" + told(found.members().get(id).activeTasks()) + ";" + told(found.members().get(id).standbyTasks()))
            .collect(Collectors.joining(" "));
    }

    public static void main(String[] arguments) {
        new Scanner(System.in).useDelimiter("\n").forEachRemaining(line -> System.out.println(answer(line)));
    }
}
