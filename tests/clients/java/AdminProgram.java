import java.lang.reflect.Method;
import java.util.Collection;
import java.util.Collections;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.config.ConfigResource;

/**
 * Kafka 0.11 to 3.9: AdminClient, compiled against 0.11. Arguments: HOST:PORT and the name of a topic, which it creates, describes and
 * deletes; what it was told goes to standard output, a line a fact.
 */
public class AdminProgram {
    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", arguments[0]);
        AdminClient admin = AdminClient.create(properties);
        String name = arguments[1];
        NewTopic topic = new NewTopic(name, 2, (short) 1).configs(Collections.singletonMap("retention.ms", "-1"));
        admin.createTopics(Collections.singletonList(topic)).all().get();
        say("listed", admin.listTopics().names().get().contains(name));
        TopicDescription described = admin.describeTopics(Collections.singletonList(name)).all().get().get(name);
        say("partitions", described.partitions().size());
        say("brokers", admin.describeCluster().nodes().get().size());

        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, name);
        sayConfigs(admin, resource);
        Config changed = new Config(Collections.singletonList(new ConfigEntry("segment.bytes", "1048576")));
        Map<ConfigResource, Config> changes = Collections.singletonMap(resource, changed);
        ((KafkaFuture<?>) call(call(admin, "alterConfigs", Map.class, changes), "all")).get();
        sayConfigs(admin, resource);

        if (has(admin, "describeLogDirs")) {
            Collection<Integer> brokers = Collections.singletonList(admin.describeCluster().nodes().get().iterator().next().id());
            Object logDirs = ((KafkaFuture<?>) call(call(admin, "describeLogDirs", Collection.class, brokers), "all")).get();
            say("log dirs", ((Map<?, ?>) ((Map<?, ?>) logDirs).values().iterator().next()).size());
        }
        admin.deleteTopics(Collections.singletonList(name)).all().get();
        say("listed", admin.listTopics().names().get().contains(name));
        admin.close();
    }

    private static void sayConfigs(AdminClient admin, ConfigResource resource) throws Exception {
        Map<String, String> found = new TreeMap<String, String>();
        for (ConfigEntry each : admin.describeConfigs(Collections.singletonList(resource)).all().get().get(resource).entries()) {
            if (each.name().equals("retention.ms") || each.name().equals("segment.bytes")) {
                found.put(each.name(), each.value() + (each.isDefault() ? " (default)" : ""));
            }
        }
        say("configs", found);
    }

    private static void say(String what, Object value) {
        System.out.println(what + ": " + value);
    }

    private static boolean has(Object target, String name) {
        for (Method each : AdminClient.class.getMethods()) {
            if (each.getName().equals(name)) {
                return true;
            }
        }
        return false;
    }

    /** A method that 0.11 lacks, or that moved to another class meanwhile. */
    private static Object call(Object target, String name, Object... typeAndArgument) throws Exception {
        Class<?>[] types = typeAndArgument.length == 0 ? new Class<?>[0] : new Class<?>[] {(Class<?>) typeAndArgument[0]};
        Method method = target.getClass().getMethod(name, types);
        method.setAccessible(true);
        return typeAndArgument.length == 0 ? method.invoke(target) : method.invoke(target, typeAndArgument[1]);
    }
}
