import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.File;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import javax.security.auth.callback.Callback;
import javax.security.auth.login.AppConfigurationEntry;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.security.auth.AuthenticateCallbackHandler;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerToken;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerTokenCallback;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;

/**
 * Java's clients that log in, rightly and wrongly: Logins CASES FOLDER. The cases and the answers are described in tests/clients/logins.py.
 *
 * A case is played by a producer, a consumer with a group, an admin client and, over TLS by IPv4, by an application of Kafka Streams,
 * whose state goes to FOLDER. A refused one answers with the error of each of the first three, once if they are equal.
 */
public class Logins {
    private static final long PATIENCE_MS = 30_000;

    /** Passes on the token that is an option of the login module. */
    public static class GivenToken implements AuthenticateCallbackHandler {
        private String token;

        @Override
        public void configure(Map<String, ?> configs, String mechanism, List<AppConfigurationEntry> entries) {
            token = (String) entries.get(0).getOptions().get("token");
        }

        @Override
        public void handle(Callback[] callbacks) {
            for (Callback each : callbacks) {
                if (each instanceof OAuthBearerTokenCallback) {
                    ((OAuthBearerTokenCallback) each).token(new Token(token));
                }
            }
        }

        @Override
        public void close() { }
    }

    private static class Token implements OAuthBearerToken {
        private final String value;

        Token(String value) {
            this.value = value;
        }

        @Override
        public String value() {
            return value;
        }

        @Override
        public Set<String> scope() {
            return Set.of();
        }

        @Override
        public long lifetimeMs() {
            return System.currentTimeMillis() + 3_600_000;
        }

        @Override
        public String principalName() {
            return "of the token";
        }

        @Override
        public Long startTimeMs() {
            return null;
        }
    }

    private interface Part {
        void play() throws Exception;
    }

    public static void main(String[] arguments) throws Exception {
        List<Thread> threads = new ArrayList<>();
        for (JsonNode each : new ObjectMapper().readTree(new File(arguments[0]))) {
            Thread thread = new Thread(() -> tell(each, Path.of(arguments[1])));
            threads.add(thread);
            thread.start();
        }
        for (Thread each : threads) {
            each.join();
        }
        System.exit(0);
    }

    private static void tell(JsonNode each, Path folder) {
        String outcome;
        try {
            outcome = play(each, folder);
        } catch (Exception failure) {
            outcome = described(failure);
        }
        String line = text(each, "Name") + "\t" + outcome.replace('\n', ' ');
        synchronized (Logins.class) {
            System.out.println(line);
        }
    }

    private static String text(JsonNode each, String name) {
        return each.get(name).asText();
    }

    private static String play(JsonNode each, Path folder) throws Exception {
        Properties properties = properties(each);
        properties.put("bootstrap.servers", text(each, "Bootstrap"));
        properties.put("group.id", text(each, "Name"));
        properties.put("auto.offset.reset", "earliest");
        properties.put("max.block.ms", (int) PATIENCE_MS);
        properties.put("default.api.timeout.ms", (int) PATIENCE_MS);
        String topic = text(each, "Topic"), value = text(each, "Name");
        if (each.get("Refused").asBoolean()) {
            return refusals(
                () -> write(properties, topic, value), () -> read(properties, topic, value), () -> administer(properties, topic));
        }
        write(properties, topic, value);
        read(properties, topic, value);
        administer(properties, topic);
        if (text(each, "Protocol").endsWith("SSL") && !text(each, "Bootstrap").startsWith("[")) {
            process(properties, topic, value, folder);
        }
        return "ok";
    }

    private static Properties properties(JsonNode each) {
        Properties properties = new Properties();
        each.get("Java").fields().forEachRemaining(pair -> properties.put(pair.getKey(), pair.getValue().asText()));
        if (text(each, "Mechanism").equals("OAUTHBEARER")) {
            properties.put("sasl.login.callback.handler.class", GivenToken.class.getName());
            properties.put("sasl.jaas.config", OAuthBearerLoginModule.class.getName() + " required token=\"" + text(each, "Token") + "\";");
        }
        return properties;
    }

    private static String refusals(Part... parts) {
        Set<String> found = new LinkedHashSet<>();
        for (Part each : parts) {
            try {
                each.play();
                found.add("ok");
            } catch (Exception failure) {
                found.add(described(failure));
            }
        }
        return String.join(" | ", found);
    }

    private static String described(Throwable failure) {
        if (failure instanceof ExecutionException || failure.getClass().equals(org.apache.kafka.common.KafkaException.class)) {
            return described(failure.getCause() == null ? new RuntimeException(failure.getMessage()) : failure.getCause());
        }
        Throwable cause = failure;
        while (cause.getCause() != null) {
            cause = cause.getCause();
        }
        String why = cause == failure ? "" : " (" + cause.getMessage() + ")";
        return failure.getClass().getSimpleName() + ": " + failure.getMessage() + why;
    }

    private static void write(Properties properties, String topic, String value) throws Exception {
        try (var producer = new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer())) {
            producer.send(new ProducerRecord<>(topic, value)).get(PATIENCE_MS, TimeUnit.MILLISECONDS);
        }
    }

    private static void read(Properties properties, String topic, String value) {
        try (var consumer = new KafkaConsumer<>(properties, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(topic));
            long end = System.currentTimeMillis() + PATIENCE_MS;
            while (System.currentTimeMillis() < end) {
                for (ConsumerRecord<String, String> each : consumer.poll(Duration.ofMillis(500))) {
                    if (value.equals(each.value())) {
                        return;
                    }
                }
            }
            throw new IllegalStateException("the record did not come");
        }
    }

    private static void administer(Properties properties, String topic) throws Exception {
        try (Admin admin = Admin.create(properties)) {
            admin.describeTopics(List.of(topic)).allTopicNames().get(PATIENCE_MS, TimeUnit.MILLISECONDS);
        }
    }

    private static void process(Properties properties, String topic, String value, Path folder) throws InterruptedException {
        Properties own = new Properties();
        own.putAll(properties);
        own.remove("group.id");
        own.put("application.id", "streams-" + value);
        own.put("state.dir", folder.resolve("streams").toString());
        own.put("default.key.serde", Serdes.StringSerde.class);
        own.put("default.value.serde", Serdes.StringSerde.class);
        StreamsBuilder builder = new StreamsBuilder();
        CountDownLatch seen = new CountDownLatch(1);
        builder.<String, String>stream(topic).filter((key, each) -> value.equals(each)).peek((key, each) -> seen.countDown());
        try (KafkaStreams streams = new KafkaStreams(builder.build(), own)) {
            streams.start();
            if (!seen.await(PATIENCE_MS, TimeUnit.MILLISECONDS)) {
                throw new IllegalStateException("Kafka Streams did not read the record");
            }
        }
    }
}
