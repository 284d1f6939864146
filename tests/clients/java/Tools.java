import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.BufferedReader;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.utils.Exit;

/**
 * Kafka's command-line tools, many in one JVM. Arguments: the jars that the tools are in, loaded anew for each run, because some tools keep
 * things in static fields; everything else is on the class path.
 *
 * <pre>
 * run   STDIN_FILE CLASS ARGUMENT ...          runs a tool to its end
 * start HANDLE STDIN_FILE CLASS ARGUMENT ...   begins one and does not wait
 * said  HANDLE                                 what a started one has said until now
 * stop  HANDLE                                 as Ctrl-C would: its shutdown hooks run; waits for the end
 * </pre>
 *
 * STDIN_FILE may be empty. Answers are lines "out TEXT", "err TEXT" and, for one that has ended, "exit CODE" (-1: not within a minute).
 * Tools that use argparse4j end the whole JVM when their arguments are wrong. What a tool's threads say and read is told apart by the thread that started them.
 * When a tool has ended, its shutdown hooks run, also those that it registered with the JVM. VerifiableProducer waits in such a hook for the
 * last acknowledgements. To read the JVM's hooks, the program needs --add-opens java.base/java.lang=ALL-UNNAMED.
 */
public class Tools {
    private static final long PATIENCE_MS = 60_000;
    private static final InheritableThreadLocal<Run> CURRENT = new InheritableThreadLocal<>();
    private static final ThreadLocal<Boolean> IS_HOOK = new ThreadLocal<>();
    private static final Map<String, Run> STARTED = new HashMap<>();
    private static URL[] toolJars;

    /** Ends a tool from within: what it would do afterwards no longer counts. */
    private static final class Ended extends Error {
        private static final long serialVersionUID = 1;

        Ended() {
            super("the tool has ended", null, false, false);
        }
    }

    private static final class Run {
        final ByteArrayOutputStream out = new ByteArrayOutputStream();
        final ByteArrayOutputStream err = new ByteArrayOutputStream();
        final List<Runnable> hooks = new ArrayList<>();
        final InputStream in;
        final Thread thread;
        private Integer exitCode;
        private final ClassLoader loader = new URLClassLoader(toolJars, Tools.class.getClassLoader());
        private volatile boolean hasReturned; // by itself: its client's threads may still say something until the hooks have run

        Run(String input, String tool, String[] arguments) throws Exception {
            in = new ByteArrayInputStream(input.isEmpty() ? new byte[0] : Files.readAllBytes(Path.of(input)));
            thread = new Thread(() -> run(tool, arguments), tool);
            thread.setDaemon(true);
            thread.start();
        }

        private void run(String tool, String[] arguments) {
            CURRENT.set(this);
            Thread.currentThread().setContextClassLoader(loader);
            try {
                loader.loadClass(tool).getMethod("main", String[].class).invoke(null, (Object) arguments);
                hasReturned = true;
                end(0);
            } catch (InvocationTargetException failure) {
                if (!hasEnded()) {
                    failure.getCause().printStackTrace();
                    end(1);
                }
            } catch (ReflectiveOperationException failure) {
                failure.printStackTrace();
                end(1);
            }
        }

        synchronized void end(int code) {
            if (exitCode == null) {
                exitCode = code;
            }
        }

        synchronized boolean hasEnded() {
            return exitCode != null;
        }

        synchronized void write(OutputStream to, byte[] bytes, int offset, int length) throws java.io.IOException {
            if (exitCode == null || hasReturned || IS_HOOK.get() != null) {
                to.write(bytes, offset, length);
            }
        }

        void awaitEnd() throws InterruptedException {
            thread.join(PATIENCE_MS);
            if (thread.isAlive()) {
                end(-1);
                thread.interrupt();
            }
        }

        /** As a JVM does when it ends; ConsoleProducer sends its last records there. */
        void runHooks() throws Exception {
            List<Thread> threads = takeJvmHooks(loader);
            synchronized (this) {
                for (Runnable hook : hooks) {
                    threads.add(new Thread(() -> {
                        CURRENT.set(this);
                        IS_HOOK.set(true);
                        hook.run();
                    }));
                }
                hooks.clear();
            }
            for (Thread each : threads) {
                each.setDaemon(true);
                each.start();
            }
            for (Thread each : threads) {
                each.join(PATIENCE_MS);
            }
        }

        synchronized void tell(PrintStream answer) {
            out.toString(StandardCharsets.UTF_8).lines().forEach(line -> answer.println("out " + line));
            err.toString(StandardCharsets.UTF_8).lines().forEach(line -> answer.println("err " + line));
            if (exitCode != null) {
                answer.println("exit " + exitCode);
            }
        }
    }

    /** Writes to where the current thread's tool says things. */
    private static final class Routed extends OutputStream {
        private final boolean isErr;
        private final OutputStream other;

        Routed(boolean isErr, OutputStream other) {
            this.isErr = isErr;
            this.other = other;
        }

        @Override
        public void write(int one) throws java.io.IOException {
            write(new byte[] {(byte) one}, 0, 1);
        }

        @Override
        public void write(byte[] bytes, int offset, int length) throws java.io.IOException {
            Run run = CURRENT.get();
            if (run == null) {
                other.write(bytes, offset, length);
            } else {
                run.write(isErr ? run.err : run.out, bytes, offset, length);
            }
        }
    }

    private static final class RoutedInput extends InputStream {
        @Override
        public int read() throws java.io.IOException {
            Run run = CURRENT.get();
            return run == null ? -1 : run.in.read();
        }
    }

    public static void main(String[] arguments) throws Exception {
        toolJars = new URL[arguments.length];
        for (int index = 0; index < arguments.length; index++) {
            toolJars[index] = Path.of(arguments[index]).toUri().toURL();
        }
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream answer = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        System.setOut(new PrintStream(new Routed(false, System.err), true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(new Routed(true, System.err), true, StandardCharsets.UTF_8));
        System.setIn(new RoutedInput());
        Exit.setExitProcedure(Tools::exit);
        Exit.setHaltProcedure(Tools::exit);
        Exit.setShutdownHookAdder((name, hook) -> {
            Run run = CURRENT.get();
            synchronized (run) {
                run.hooks.add(hook);
            }
        });
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            try {
                obey(line.split("\t", -1), answer);
                answer.println("ok");
            } catch (Exception failure) {
                answer.println("failed " + failure);
            }
            answer.flush();
        }
        System.exit(0);
    }

    /** Removes the hooks of one tool from those of the JVM, and returns them. A hook is a thread with the class loader of the tool that created it. */
    @SuppressWarnings("unchecked")
    private static List<Thread> takeJvmHooks(ClassLoader loader) throws ReflectiveOperationException {
        Class<?> owner = Class.forName("java.lang.ApplicationShutdownHooks");
        Field field = owner.getDeclaredField("hooks");
        field.setAccessible(true);
        List<Thread> taken = new ArrayList<>();
        synchronized (owner) {
            Map<Thread, Thread> hooks = (Map<Thread, Thread>) field.get(null);
            for (Thread each : new ArrayList<>(hooks.keySet())) {
                if (each.getContextClassLoader() == loader) {
                    hooks.remove(each);
                    taken.add(each);
                }
            }
        }
        return taken;
    }

    private static void exit(int code, String message) {
        CURRENT.get().end(code);
        throw new Ended();
    }

    private static void obey(String[] words, PrintStream answer) throws Exception {
        switch (words[0]) {
            case "run": {
                Run run = new Run(words[1], words[2], Arrays.copyOfRange(words, 3, words.length));
                run.awaitEnd();
                run.runHooks();
                run.tell(answer);
                break;
            }
            case "start":
                STARTED.put(words[1], new Run(words[2], words[3], Arrays.copyOfRange(words, 4, words.length)));
                break;
            case "said":
                STARTED.get(words[1]).tell(answer);
                break;
            case "stop": {
                Run run = STARTED.remove(words[1]);
                run.runHooks();
                run.awaitEnd();
                run.tell(answer);
                break;
            }
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }
}
