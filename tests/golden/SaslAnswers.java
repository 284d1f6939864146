import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Constructor;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.URIParameter;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import javax.security.auth.callback.Callback;
import javax.security.auth.callback.NameCallback;
import javax.security.auth.login.AppConfigurationEntry;
import javax.security.auth.login.Configuration;
import javax.security.sasl.SaslServer;
import org.apache.kafka.common.security.oauthbearer.internals.OAuthBearerSaslServer;
import org.apache.kafka.common.security.oauthbearer.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler;
import org.apache.kafka.common.security.plain.internals.PlainSaslServer;
import org.apache.kafka.common.security.plain.internals.PlainServerCallbackHandler;
import org.apache.kafka.common.security.scram.ScramCredential;
import org.apache.kafka.common.security.scram.ScramCredentialCallback;
import org.apache.kafka.common.security.scram.internals.ScramFormatter;
import org.apache.kafka.common.security.scram.internals.ScramMechanism;
import org.apache.kafka.common.security.scram.internals.ScramSaslServer;

/** Asks Kafka's own classes: each line of stdin is a kind and arguments in base64, each line of stdout is what they make of it. */
public class SaslAnswers {
    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = in.readLine()) != null; ) {
            String[] words = line.split(" ", -1);
            List<byte[]> texts = new ArrayList<>();
            for (int i = 1; i < words.length; i++)
                texts.add(Base64.getDecoder().decode(words[i]));
            System.out.println(answer(words[0], texts));
        }
    }

    private static String answer(String kind, List<byte[]> texts) throws Exception {
        try {
            switch (kind) {
                case "property":
                    return entries(property(texts.get(0)));
                case "file":
                    return entries(file(texts.get(0), new String(texts.get(1), StandardCharsets.UTF_8)));
                case "plain":
                    PlainServerCallbackHandler users = new PlainServerCallbackHandler();
                    users.configure(Map.of(), "PLAIN", List.of(property(texts.get(0))));
                    return exchange(new PlainSaslServer(users), texts);
                case "unsecured":
                    OAuthBearerUnsecuredValidatorCallbackHandler tokens = new OAuthBearerUnsecuredValidatorCallbackHandler();
                    tokens.configure(Map.of(), "OAUTHBEARER", List.of(property(texts.get(0))));
                    return exchange(new OAuthBearerSaslServer(tokens), texts);
                default:
                    ScramCredential credential =
                        new ScramFormatter(ScramMechanism.SCRAM_SHA_256).generateCredential(new String(texts.get(0)), 4096);
                    return exchange(new ScramSaslServer(ScramMechanism.SCRAM_SHA_256, Map.of(), callbacks -> {
                        String name = null;
                        for (Callback each : callbacks) {
                            if (each instanceof NameCallback)
                                name = ((NameCallback) each).getDefaultName();
                            else if (each instanceof ScramCredentialCallback && "user".equals(name))
                                ((ScramCredentialCallback) each).scramCredential(credential);
                        }
                    }), texts);
            }
        } catch (Throwable error) {
            Throwable cause = error.getCause() != null && error.getMessage() == null ? error.getCause() : error;
            return "error " + cause.getClass().getSimpleName() + " " + base64(String.valueOf(cause.getMessage()));
        }
    }

    /** The answers to all but the first text, then whether the exchange is complete. */
    private static String exchange(SaslServer server, List<byte[]> texts) throws Exception {
        StringBuilder answers = new StringBuilder("answers");
        for (byte[] each : texts.subList(1, texts.size()))
            answers.append(' ').append(Base64.getEncoder().encodeToString(server.evaluateResponse(each)));
        return answers + (server.isComplete() ? " complete " + base64(server.getAuthorizationID()) : " incomplete");
    }

    private static AppConfigurationEntry[] property(byte[] text) throws Exception {
        Constructor<?> maker = Class.forName("org.apache.kafka.common.security.JaasConfig").getDeclaredConstructor(String.class, String.class);
        maker.setAccessible(true);
        try {
            return ((Configuration) maker.newInstance("KafkaServer", new String(text, StandardCharsets.UTF_8))).getAppConfigurationEntry("KafkaServer");
        } catch (java.lang.reflect.InvocationTargetException error) {
            throw (Exception) error.getCause();
        }
    }

    private static AppConfigurationEntry[] file(byte[] text, String section) throws Exception {
        Path path = Files.createTempFile("jaas", ".conf");
        try {
            Files.write(path, text);
            return Configuration.getInstance("JavaLoginConfig", new URIParameter(path.toUri())).getAppConfigurationEntry(section);
        } finally {
            Files.delete(path);
        }
    }

    private static String entries(AppConfigurationEntry[] entries) {
        StringBuilder found = new StringBuilder("entries");
        for (AppConfigurationEntry each : entries == null ? new AppConfigurationEntry[0] : entries) {
            found.append(' ').append(base64(each.getLoginModuleName()));
            for (Map.Entry<String, ?> option : new TreeMap<>(new HashMap<>(each.getOptions())).entrySet())
                found.append(',').append(base64(option.getKey())).append('=').append(base64(String.valueOf(option.getValue())));
        }
        return found.toString();
    }

    private static String base64(String text) {
        return Base64.getEncoder().encodeToString(text.getBytes(StandardCharsets.UTF_8));
    }
}
