import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import org.apache.avro.Schema;
import org.apache.avro.SchemaCompatibility;

/**
 * Answers questions about Avro schemas with Avro's Java library, one a line, with tabs between their parts:
 *
 * text SCHEMA               ok, a tab and Schema.toString, or error
 * compare READER WRITER     ok and a tab, then TYPE LOCATION MESSAGE of each incompatibility, with tabs between all of them
 */
public final class AvroSchemas {
  private AvroSchemas() {}

  public static void main(String[] args) throws Exception {
    PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = in.readLine(); line != null && !line.isEmpty(); line = in.readLine()) {
      String[] parts = line.split("\t");
      try {
        out.println("ok\t" + (parts[0].equals("text") ? parse(parts[1]).toString() : compare(parts[1], parts[2])));
      } catch (RuntimeException error) {
        out.println("error");
      }
    }
  }

  private static Schema parse(String text) {
    return new Schema.Parser().setValidateDefaults(true).parse(text);
  }

  private static String compare(String reader, String writer) {
    StringBuilder answer = new StringBuilder();
    for (SchemaCompatibility.Incompatibility each :
        SchemaCompatibility.checkReaderWriterCompatibility(parse(reader), parse(writer)).getResult().getIncompatibilities()) {
      answer.append(answer.length() > 0 ? "\t" : "")
          .append(each.getType()).append("\t").append(each.getLocation()).append("\t").append(each.getMessage());
    }
    return answer.toString();
  }
}
