import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.Scanner;
import javax.security.auth.x500.X500Principal;
import org.apache.kafka.common.security.ssl.SslPrincipalMapper;

/** Reads lines `name HEX` or `rule RULES<TAB>NAME` and prints what Java and Kafka make of them. */
public class PrincipalNames {
    public static void main(String[] args) throws Exception {
        Scanner in = new Scanner(System.in, StandardCharsets.UTF_8);
        var out = new java.io.PrintStream(System.out, true, StandardCharsets.UTF_8);
        while (in.hasNextLine()) {
            String line = in.nextLine();
            String answer;
            try {
                if (line.startsWith("name ")) {
                    answer = "ok " + new X500Principal(HexFormat.of().parseHex(line.substring(5))).getName();
                } else {
                    String[] parts = line.substring(5).split("\t", 2);
                    answer = "ok " + SslPrincipalMapper.fromRules(parts[0]).getName(parts[1]);
                }
            } catch (Exception e) {
                answer = "error " + e.getClass().getSimpleName() + ": " + e.getMessage();
            }
            out.println(answer.replace("\n", "\\n").replace("\r", "\\r"));
        }
    }
}
