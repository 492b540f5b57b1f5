import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

/** Reads messages (class name, version, bytes) with Kafka's own classes and writes back what they write. */
public class RoundTrip {
    public static void main(String[] args) throws Exception {
        DataInputStream in = new DataInputStream(new BufferedInputStream(System.in));
        DataOutputStream out = new DataOutputStream(new BufferedOutputStream(System.out));
        int count = in.readInt();
        for (int i = 0; i < count; i++) {
            String name = in.readUTF();
            short version = in.readShort();
            byte[] bytes = new byte[in.readInt()];
            in.readFully(bytes);
            byte[] result;
            boolean failed = false;
            try {
                result = roundTrip(name, version, ByteBuffer.wrap(bytes));
            } catch (Throwable error) {
                failed = true;
                result = error.toString().getBytes(StandardCharsets.UTF_8);
            }
            out.writeBoolean(failed);
            out.writeInt(result.length);
            out.write(result);
        }
        out.flush();
    }

    private static byte[] roundTrip(String name, short version, ByteBuffer bytes) throws Exception {
        Message message = (Message) Class.forName(name).getDeclaredConstructor().newInstance();
        message.read(new ByteBufferAccessor(bytes), version);
        if (bytes.hasRemaining()) {
            throw new IllegalStateException(bytes.remaining() + " bytes left");
        }
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer out = ByteBuffer.allocate(message.size(cache, version));
        message.write(new ByteBufferAccessor(out), cache, version);
        return out.array();
    }
}
