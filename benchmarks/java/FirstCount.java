import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.KeyValueStore;

/**
 * Kafka Streams' word count: FirstCount BOOTSTRAP FROM TO APPLICATION_ID STATE_FOLDER [NAME=VALUE ...].
 *
 * It says how many milliseconds pass from start() until the first committed count is read from TO, a topic of one partition; then it ends.
 */
public class FirstCount {
    public static void main(String[] arguments) {
        Map<String, Object> reading = Map.of(
            "bootstrap.servers", arguments[0],
            "isolation.level", "read_committed",
            "key.deserializer", StringDeserializer.class,
            "value.deserializer", StringDeserializer.class);
        try (KafkaConsumer<String, String> counts = new KafkaConsumer<>(reading); KafkaStreams streams = wordCount(arguments)) {
            counts.assign(List.of(new TopicPartition(arguments[2], 0)));
            counts.seekToEnd(counts.assignment());
            counts.position(new TopicPartition(arguments[2], 0));
            long began = System.nanoTime();
            streams.start();
            while (counts.poll(Duration.ofMillis(100)).isEmpty()) {
                if (System.nanoTime() - began > 120_000_000_000L) {
                    throw new IllegalStateException("no count after two minutes");
                }
            }
            System.out.println("first count ms " + (System.nanoTime() - began) / 1_000_000);
        }
    }

    private static KafkaStreams wordCount(String[] arguments) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", arguments[0]);
        properties.put("application.id", arguments[3]);
        properties.put("state.dir", arguments[4]);
        properties.put("default.key.serde", Serdes.StringSerde.class);
        properties.put("default.value.serde", Serdes.StringSerde.class);
        for (String setting : List.of(arguments).subList(5, arguments.length)) {
            String[] pair = setting.split("=", 2);
            properties.put(pair[0], pair[1]);
        }
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(arguments[1], Consumed.with(Serdes.String(), Serdes.String()))
            .flatMapValues(line -> List.of(line.split(" ")))
            .groupBy((key, word) -> word, Grouped.as("words"))
            .count(Materialized.<String, Long, KeyValueStore<Bytes, byte[]>>as("counts"))
            .toStream()
            .mapValues(count -> Long.toString(count))
            .to(arguments[2], Produced.with(Serdes.String(), Serdes.String()));
        return new KafkaStreams(builder.build(), properties);
    }
}
