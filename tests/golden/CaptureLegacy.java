import java.io.File;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.ControlRecordType;
import org.apache.kafka.common.record.EndTransactionMarker;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.MemoryRecordsBuilder;
import org.apache.kafka.common.record.Record;
import org.apache.kafka.common.record.RecordBatch;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogSegment;

/** Message formats v0 and v1 as Apache Kafka's own classes write, convert and index them; see captures/legacy.py. One JSON a line. */
public class CaptureLegacy {
    static final long START_MS = 1_700_000_000_000L;
    static final String[] KEYS = {"key", null, "", "schlüssel"};
    static final String[] VALUES = {"value ".repeat(20), "", null, "v"};
    static final long[] TIMES_MS = {START_MS, START_MS + 70, START_MS - 5_000, START_MS + 9_000};
    static final HexFormat HEX = HexFormat.of();
    static final TimestampType CREATE = TimestampType.CREATE_TIME;
    static final TimestampType APPEND = TimestampType.LOG_APPEND_TIME;

    public static void main(String[] arguments) throws Exception {
        for (int magic = 0; magic <= 1; magic++)
            for (String codec : List.of("none", "gzip", "snappy", "lz4"))
                for (TimestampType type : List.of(CREATE, APPEND))
                    if (magic == 1 || type == CREATE)
                        set(magic, codec, type);
        for (int magic = 0; magic <= 1; magic++) {
            for (String codec : List.of("none", "gzip", "snappy", "lz4", "zstd"))
                for (TimestampType type : List.of(CREATE, APPEND)) {
                    down("v2_" + codec + (type == APPEND ? "_append_time" : ""), built(2, codec, type, 100, 1), magic, 100);
                    if (type == CREATE && !codec.equals("zstd"))
                        down("v2_" + codec + "_from_the_middle", built(2, codec, type, 100, 1), magic, 102);
                }
            down("v2_gaps_none", built(2, "none", CREATE, 100, 3), magic, 100);
            down("v2_gaps_gzip", built(2, "gzip", CREATE, 100, 3), magic, 100);
            down("v2_markers", joined(built(2, "none", CREATE, 5, 1), marker(9), built(2, "lz4", CREATE, 10, 1), marker(14)), magic, 5);
            down("v2_marker_alone", marker(9), magic, 9);
            down("mixed", joined(built(0, "gzip", CREATE, 1, 1), built(1, "none", CREATE, 5, 1), built(1, "snappy", APPEND, 9, 1),
                built(1, "lz4", CREATE, 13, 1), built(2, "gzip", CREATE, 17, 1)), magic, 1);
        }
        for (String codec : List.of("none", "gzip"))
            segment(codec, Files.createTempDirectory("legacy").toFile());
    }

    static byte[] bytes(String text) {
        return text == null ? null : text.getBytes(StandardCharsets.UTF_8);
    }

    static MemoryRecords built(int magic, String codec, TimestampType type, long baseOffset, int step) {
        MemoryRecordsBuilder builder = MemoryRecords.builder(ByteBuffer.allocate(4096), (byte) magic, Compression.of(codec).build(), type,
            baseOffset, type == APPEND ? START_MS + 123_456 : RecordBatch.NO_TIMESTAMP);
        for (int index = 0; index < KEYS.length; index++) {
            Header[] headers = magic < 2 || index % 2 == 0 ? new Header[0] : new Header[] {new RecordHeader("trace", bytes("1"))};
            long offset = baseOffset + (long) index * step;
            builder.appendWithOffset(offset, TIMES_MS[index], bytes(KEYS[index]), bytes(VALUES[index]), headers);
        }
        return builder.build();
    }

    static MemoryRecords marker(long offset) {
        return MemoryRecords.withEndTransactionMarker(offset, START_MS, 0, 7L, (short) 0,
            new EndTransactionMarker(ControlRecordType.COMMIT, 0));
    }

    static MemoryRecords joined(MemoryRecords... parts) {
        ByteBuffer buffer = ByteBuffer.allocate(65536);
        for (MemoryRecords part : parts)
            buffer.put(part.buffer().duplicate());
        buffer.flip();
        return MemoryRecords.readableRecords(buffer);
    }

    static String hex(ByteBuffer buffer) {
        if (buffer == null)
            return "null";
        byte[] data = new byte[buffer.remaining()];
        buffer.duplicate().get(data);
        return '"' + HEX.formatHex(data) + '"';
    }

    static String listed(MemoryRecords records) {
        StringBuilder out = new StringBuilder("[");
        for (Record record : records.records())
            out.append(out.length() > 1 ? "," : "").append('[').append(record.offset()).append(',').append(record.timestamp()).append(',')
                .append(hex(record.key())).append(',').append(hex(record.value())).append(']');
        return out.append(']').toString();
    }

    static void set(int magic, String codec, TimestampType type) {
        MemoryRecords records = built(magic, codec, type, 1000, 1);
        System.out.printf("{\"kind\":\"set\",\"magic\":%d,\"codec\":\"%s\",\"append_time\":%b,\"data\":%s,\"records\":%s}%n",
            magic, codec, type == APPEND, hex(records.buffer()), listed(records));
    }

    static void down(String name, MemoryRecords records, int magic, long firstOffset) {
        String answer;
        try {
            MemoryRecords converted = records.downConvert((byte) magic, firstOffset, Time.SYSTEM).records();
            answer = "\"converted\":" + hex(converted.buffer()) + ",\"records\":" + listed(converted);
        } catch (RuntimeException error) {
            answer = "\"error\":\"" + error.getClass().getSimpleName() + '"';
        }
        System.out.printf("{\"kind\":\"down\",\"name\":\"%s\",\"magic\":%d,\"first_offset\":%d,\"data\":%s,%s}%n",
            name, magic, firstOffset, hex(records.buffer()), answer);
    }

    static void segment(String codec, File folder) throws Exception {
        LogConfig config = new LogConfig(Map.of("index.interval.bytes", "300", "segment.index.bytes", "4096"));
        LogSegment segment = LogSegment.open(folder, 50, config, Time.SYSTEM, false, 0, false, "");
        long offset = 50;
        for (int index = 0; index < 12; index++) {
            int magic = index < 4 ? 0 : index < 8 ? 1 : 2;
            segment.append(offset + 3, built(magic, codec, CREATE, offset, 1));
            offset += 4;
        }
        segment.onBecomeInactiveSegment();
        segment.close();
        StringBuilder files = new StringBuilder();
        for (String suffix : List.of(".log", ".index", ".timeindex"))
            files.append(",\"").append(suffix.substring(1)).append("\":")
                .append(hex(ByteBuffer.wrap(Files.readAllBytes(new File(folder, "00000000000000000050" + suffix).toPath()))));
        System.out.printf("{\"kind\":\"segment\",\"codec\":\"%s\"%s}%n", codec, files);
    }
}
