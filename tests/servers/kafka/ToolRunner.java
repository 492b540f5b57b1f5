import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs Kafka's own command line tools one after another in a single JVM, because starting a JVM for each of them
 * costs more than the work itself. A request on standard input is: number of strings, then class name, text for the
 * tool's standard input, arguments. The answer is: exit status, standard output, standard error. Every integer is
 * four bytes, every text is its length and UTF-8 bytes.
 */
public final class ToolRunner {
    private static final class Exited extends Error {
        Exited() {
            super("exit", null, false, false);
        }
    }

    private static Integer status;

    private static void leave(int code) {
        if (status == null) {
            status = code;
        }
        throw new Exited();
    }

    private static byte[] readText(DataInputStream in) throws IOException {
        byte[] bytes = new byte[in.readInt()];
        in.readFully(bytes);
        return bytes;
    }

    private static void writeText(DataOutputStream out, ByteArrayOutputStream text) throws IOException {
        out.writeInt(text.size());
        text.writeTo(out);
    }

    public static void main(String[] unused) throws Exception {
        DataInputStream requests = new DataInputStream(System.in);
        DataOutputStream answers = new DataOutputStream(System.out);
        InputStream realIn = System.in;
        PrintStream realOut = System.out;
        PrintStream realErr = System.err;
        Exit.setExitProcedure((code, message) -> leave(code));
        Exit.setHaltProcedure((code, message) -> leave(code));
        Exit.setShutdownHookAdder((name, hook) -> { });
        while (true) {
            int count;
            try {
                count = requests.readInt();
            } catch (EOFException end) {
                return;
            }
            String className = new String(readText(requests), StandardCharsets.UTF_8);
            byte[] input = readText(requests);
            String[] arguments = new String[count - 2];
            for (int i = 0; i < arguments.length; i++) {
                arguments[i] = new String(readText(requests), StandardCharsets.UTF_8);
            }
            ByteArrayOutputStream out = new ByteArrayOutputStream();
            ByteArrayOutputStream err = new ByteArrayOutputStream();
            status = null;
            System.setIn(new ByteArrayInputStream(input));
            System.setOut(new PrintStream(out, true, StandardCharsets.UTF_8));
            System.setErr(new PrintStream(err, true, StandardCharsets.UTF_8));
            int code = 0;
            try {
                Class.forName(className).getMethod("main", String[].class).invoke(null, (Object) arguments);
            } catch (InvocationTargetException failure) {
                if (!(failure.getCause() instanceof Exited)) {
                    failure.getCause().printStackTrace();
                    code = 1;
                }
            } finally {
                System.out.flush();
                System.err.flush();
                System.setIn(realIn);
                System.setOut(realOut);
                System.setErr(realErr);
            }
            answers.writeInt(status == null ? code : status);
            writeText(answers, out);
            writeText(answers, err);
            answers.flush();
        }
    }
}
