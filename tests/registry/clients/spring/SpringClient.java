import org.springframework.cloud.stream.schema.registry.SchemaReference;
import org.springframework.cloud.stream.schema.registry.client.ConfluentSchemaRegistryClient;

/** Spring Cloud Stream's client of Confluent's registry: prints a line for each step that did what it should. The argument is a URL. */
public class SpringClient {
    private static void check(boolean holds, String what) {
        if (!holds) {
            throw new AssertionError(what);
        }
    }

    private static String refusal(Runnable request) {
        try {
            request.run();
        } catch (RuntimeException error) {
            return error.getMessage();
        }
        throw new AssertionError("the request was served");
    }

    public static void main(String[] arguments) {
        var client = new ConfluentSchemaRegistryClient();
        client.setEndpoint(arguments[0]);
        String first = "{\"type\":\"record\",\"name\":\"P\",\"namespace\":\"s\",\"fields\":[{\"name\":\"name\",\"type\":\"string\"}]}";
        String second = first.replace("]}", ",{\"name\":\"age\",\"type\":\"int\",\"default\":7}]}");
        var one = client.register("spring", "avro", first);
        var two = client.register("spring", "avro", second);
        check(one.getSchemaReference().getVersion() == 1 && two.getSchemaReference().getVersion() == 2, "versions");
        check(one.getId() != two.getId() && client.register("spring", "avro", first).getId() == one.getId(), "ids");
        check(client.fetch(two.getId()).equals(second), "schema of an id");
        check(client.fetch(new SchemaReference("spring", 1, "avro")).equals(first), "schema of a version");
        System.out.println("evolves");
        String unfit = first.replace("\"string\"", "\"int\"");
        check(refusal(() -> client.register("spring", "avro", unfit)).endsWith("status 409"), "409");
        check(refusal(() -> client.fetch(9999)).equals("Could not find schema with id: 9999"), "404");
        System.out.println("meets errors");
    }
}
