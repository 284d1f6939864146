import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * A transactional producer and a read_committed consumer, for tests/golden/captures/transactions.py: BOOTSTRAP SCENE TOPIC.
 *
 * The topic has two partitions; its name is the transactional id and the group too.
 */
public class Transactional {
    private final String bootstrap;
    private final String name;

    private Transactional(String bootstrap, String name) {
        this.bootstrap = bootstrap;
        this.name = name;
    }

    public static void main(String[] arguments) throws Exception {
        Transactional all = new Transactional(arguments[0], arguments[2]);
        switch (arguments[1]) {
            case "transactional" -> all.transactional();
            case "fenced" -> all.fenced();
            case "open" -> all.open();
            default -> throw new IllegalArgumentException(arguments[1]);
        }
        System.exit(0);
    }

    private KafkaProducer<String, String> producer() {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("transactional.id", name);
        properties.put("client.id", "producer-of-" + name);
        properties.put("linger.ms", "20");
        properties.put("enable.metrics.push", "false");
        return new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer());
    }

    private ProducerRecord<String, String> record(int partition, String value) {
        return new ProducerRecord<>(name, partition, "key", value);
    }

    /** Commit over two partitions, abort, commit with offsets, commit of nothing; then read what is committed and commit how far. */
    private void transactional() {
        TopicPartition partition = new TopicPartition(name, 0);
        try (KafkaProducer<String, String> producer = producer()) {
            producer.initTransactions();
            producer.beginTransaction();
            producer.send(record(0, "committed"));
            producer.send(record(1, "committed"));
            producer.commitTransaction();
            producer.beginTransaction();
            producer.send(record(0, "aborted"));
            producer.flush();
            producer.abortTransaction();
            producer.beginTransaction();
            producer.send(record(0, "with offsets"));
            producer.sendOffsetsToTransaction(Map.of(partition, new OffsetAndMetadata(2, "note")), new ConsumerGroupMetadata(name));
            producer.commitTransaction();
            producer.beginTransaction();
            producer.commitTransaction();
        }
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("group.id", name);
        properties.put("isolation.level", "read_committed");
        properties.put("enable.auto.commit", "false");
        properties.put("client.id", "consumer-of-" + name);
        properties.put("enable.metrics.push", "false");
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(properties, new StringDeserializer(), new StringDeserializer())) {
            consumer.assign(List.of(partition));
            consumer.committed(java.util.Set.of(partition));
            consumer.seek(partition, 0);
            for (int count = 0; count < 2; ) {
                count += consumer.poll(Duration.ofMillis(500)).count();
            }
            consumer.commitSync();
            System.out.println(consumer.committed(java.util.Set.of(partition)) + " " + consumer.endOffsets(List.of(partition)));
        }
    }

    /** A second producer of the same id takes over an open transaction; the first one finds out when it commits. */
    private void fenced() throws Exception {
        KafkaProducer<String, String> zombie = producer();
        zombie.initTransactions();
        zombie.beginTransaction();
        zombie.send(record(0, "of a zombie")).get();
        try (KafkaProducer<String, String> producer = producer()) {
            producer.initTransactions();
            producer.beginTransaction();
            producer.send(record(0, "of its successor")).get();
            producer.commitTransaction();
        }
        try {
            zombie.commitTransaction();
            throw new AssertionError("not fenced");
        } catch (ProducerFencedException e) {
            System.out.println(e);
        }
    }

    /** Dies with a transaction open, for the tools to see. */
    private void open() throws Exception {
        KafkaProducer<String, String> producer = producer();
        producer.initTransactions();
        producer.beginTransaction();
        producer.send(record(0, "never ended")).get();
        Runtime.getRuntime().halt(0);
    }
}
