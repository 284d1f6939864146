import java.util.Scanner;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.metrics.KafkaMetric;
import org.apache.kafka.common.metrics.MetricConfig;
import org.apache.kafka.common.metrics.Quota;
import org.apache.kafka.common.metrics.stats.Rate;
import org.apache.kafka.common.metrics.stats.TokenBucket;

/**
 * How long clients are held, by the classes of Apache Kafka that its quota managers use.
 * A line "samples windowSeconds quota" begins a new client, "timeMs value" records something: both answers then, of Rate and of TokenBucket.
 */
public class Rates {
    public static void main(String[] args) {
        Rate rate = null;
        TokenBucket bucket = null;
        MetricConfig config = null;
        for (Scanner in = new Scanner(System.in); in.hasNextLine();) {
            String[] words = in.nextLine().split(" ");
            if (words.length == 3) {
                rate = new Rate();
                bucket = new TokenBucket();
                config = new MetricConfig().samples(Integer.parseInt(words[0])).timeWindow(Long.parseLong(words[1]), TimeUnit.SECONDS)
                    .quota(Quota.upperBound(Double.parseDouble(words[2])));
                continue;
            }
            long timeMs = Long.parseLong(words[0]);
            double value = Double.parseDouble(words[1]);
            double bound = config.quota().bound();
            rate.record(config, value, timeMs);
            double measured = rate.measure(config, timeMs);
            long held = measured <= bound ? 0 : Math.round((measured - bound) / bound * rate.windowSize(config, timeMs));
            bucket.record(config, value, timeMs);
            double tokens = bucket.measure(config, timeMs);
            System.out.println(held + " " + Math.max(Math.round(-tokens / bound * 1000), 0));
        }
    }
}
