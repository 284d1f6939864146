"""Capture the answers of a running Apache Kafka 3.9 to Produce 0 to 2.

Sets of messages of formats v0 and v1, valid ones and others, go to topics of several kinds of a running broker. A line of
records/upgrades_kafka_3.9.1.jsonl is one of them: what was sent, the error code, base offset (against the log end before) and time that
were answered, and the bytes that the log holds then.
"""

from __future__ import annotations

import json
import struct
import time
import zlib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from minibroker.records.batch import TimestampType
from minibroker.records.builder import build_batch
from minibroker.records.compression import Compression
from minibroker.records.legacy import build_message_set, write_message
from minibroker.records.record import Record
from tests.records.lies import HOUR_MS, KINDS
from tests.records.observe_lies import Broker, text

TARGET = Path(__file__).parents[1] / "records" / "upgrades_kafka_3.9.1.jsonl"
MAX_MESSAGE_BYTES = 1000
SMALL = {"small": {"max.message.bytes": str(MAX_MESSAGE_BYTES)}}
CODECS = (Compression.NONE, Compression.GZIP, Compression.SNAPPY, Compression.LZ4)

Case = tuple[str, str, int, bytes]  #: name, kind of topic, version of Produce, records


def honest(now_ms: int, base_offset: int = 0) -> list[Record]:
    contents = ((b"key", b"value " * 20), (None, b""), (b"", None), ("schlüssel".encode(), b"v"))
    times_ms = (now_ms, now_ms + 70, now_ms - 5_000, now_ms + 9_000)
    return [Record(base_offset + index, times_ms[index], *contents[index]) for index in range(len(contents))]


def wrapped(content: bytes, magic: int, now_ms: int, *, offset: int = 3, codec: int = 1, value: bytes | None = b"") -> bytes:
    """A set with a right CRC around whatever content, or around `value`."""
    out = bytearray()
    write_message(out, Record(offset, now_ms, None, zlib.compress(content, wbits=31) if value == b"" else value), magic, codec)
    return bytes(out)


def honest_cases(now_ms: int) -> Iterator[Case]:
    for magic in (0, 1):
        for codec in CODECS:
            data = bytes(build_message_set(honest(now_ms), magic, compression=codec))
            name = f"v{magic}_{codec.name.lower()}"
            yield name, "plain", 2, data
            yield f"{name}_produce_{magic}", "plain", magic, data
            for kind in ("append-time", "to-gzip", "to-none"):
                yield f"{name}_{kind}", kind, 2, data
    v1, v1_gzip = (bytes(build_message_set(honest(now_ms), 1, compression=codec)) for codec in CODECS[:2])
    yield "offsets_from_77", "plain", 2, bytes(build_message_set(honest(now_ms, 77), 1))
    yield "offsets_all_0", "plain", 2, bytes(build_message_set([record._replace(offset=0) for record in honest(now_ms)], 1))
    yield "set_offset_0", "plain", 2, bytes(8) + v1_gzip[8:]
    yield "set_offset_0_v0", "plain", 0, bytes(8) + bytes(build_message_set(honest(now_ms), 0, compression=Compression.GZIP))[8:]
    yield "inner_offsets_absolute", "plain", 2, wrapped(bytes(build_message_set(honest(now_ms, 7), 1)), 1, now_ms, offset=10)
    yield "no_time", "bounded-time", 2, bytes(build_message_set([record._replace(timestamp=-1) for record in honest(now_ms)], 1))
    yield "v0_bounded_time", "bounded-time", 2, bytes(build_message_set(honest(now_ms), 0))
    yield "append_time_said", "plain", 2, bytes(build_message_set(timed(honest(now_ms), now_ms), 1, timestamp_type=TimestampType(1)))
    yield "torn_at_the_end", "plain", 2, v1 + v1[:30]
    yield "v2_in_produce_2", "plain", 2, bytes(build_batch(honest(now_ms)))


def timed(records: list[Record], time_ms: int) -> list[Record]:
    return [record._replace(timestamp=time_ms) for record in records]


def other_cases(now_ms: int) -> Iterator[Case]:
    v0, v1 = (bytes(build_message_set(honest(now_ms), magic)) for magic in (0, 1))
    v1_gzip = bytes(build_message_set(honest(now_ms), 1, compression=Compression.GZIP))
    inner = bytearray(v1)
    inner[-1] ^= 1
    yield "nothing", "plain", 2, b""
    yield "nothing_whole", "plain", 2, v1[:40]
    yield "size_13", "plain", 2, v1[:8] + struct.pack(">i", 13) + v1[12:]
    yield "size_negative", "plain", 2, v1[:8] + struct.pack(">i", -1) + v1[12:]
    yield "magic_3", "plain", 2, v1[:16] + b"\x03" + v1[17:]
    yield "crc", "plain", 2, bytes(inner)
    yield "crc_inside", "plain", 2, wrapped(bytes(inner), 1, now_ms)
    yield "formats_mixed", "plain", 2, v1 + v0
    yield "format_v2_behind", "plain", 2, v1 + bytes(build_batch(honest(now_ms)))
    yield "formats_mixed_inside", "plain", 2, wrapped(v0, 1, now_ms)
    yield "v1_inside_v0", "plain", 2, wrapped(v1, 0, now_ms)
    yield "two_sets", "plain", 2, v1_gzip + v1_gzip
    yield "set_behind_messages", "plain", 2, v1 + v1_gzip
    yield "set_in_a_set", "plain", 2, wrapped(v1_gzip, 1, now_ms)
    yield "set_empty", "plain", 2, wrapped(b"", 1, now_ms)
    yield "set_null", "plain", 2, wrapped(b"", 1, now_ms, value=None)
    yield "set_no_gzip", "plain", 2, wrapped(b"", 1, now_ms, value=b"no gzip")
    yield "set_offset_below_the_last", "plain", 2, wrapped(v1, 1, now_ms, offset=2)
    yield "set_torn_inside", "plain", 2, wrapped(v1 + v1[:30], 1, now_ms)
    yield "zstd", "plain", 2, wrapped(b"", 1, now_ms, codec=4, value=b"x")
    yield "codec_5", "plain", 2, wrapped(b"", 1, now_ms, codec=5, value=b"x")
    yield "two_batches_of_v2", "plain", 2, bytes(build_batch(honest(now_ms))) * 2
    yield "v1_in_produce_3", "plain", 3, v1
    yield "null_key", "compacted", 2, v1
    yield "null_key_in_a_set", "compacted", 2, v1_gzip
    yield "all_have_keys", "compacted", 2, bytes(build_message_set([r._replace(key=b"k") for r in honest(now_ms)], 1))
    yield "too_late", "bounded-time", 2, bytes(build_message_set(timed(honest(now_ms), now_ms + 2 * HOUR_MS), 1))
    yield "too_early_in_a_set", "bounded-time", 2, bytes(build_message_set(timed(honest(now_ms), 5), 1, compression=CODECS[3]))
    result = bytes(build_message_set(timed(honest(now_ms), now_ms), 1, timestamp_type=TimestampType(1)))
    yield "append_time_said_to_append_time", "append-time", 2, result
    yield "too_large", "small", 2, bytes(build_message_set([Record(0, now_ms, None, bytes(MAX_MESSAGE_BYTES))], 1))
    yield "too_large_together", "small", 2, bytes(build_message_set([Record(0, now_ms, None, bytes(400))] * 3, 1))
    yield "too_large_when_unpacked", "small", 2, bytes(build_message_set([Record(0, now_ms, None, bytes(2000))], 1, compression=CODECS[1]))


def produce(broker: Broker, topic: str, data: bytes, version: int) -> tuple[int, int, int]:
    """Error code, base offset, time of the append."""
    transactional_id = struct.pack(">h", -1) if version >= 3 else b""
    body = transactional_id + struct.pack(">hii", -1, 30_000, 1) + text(topic) + struct.pack(">iii", 1, 0, len(data)) + data
    answer = broker.call(0, version, body)
    code, base_offset = struct.unpack_from(">hq", answer, 4 + 2 + len(topic) + 4 + 4)
    time_ms = struct.unpack_from(">q", answer, 4 + 2 + len(topic) + 4 + 4 + 10)[0] if version >= 2 else -1
    return int(code), int(base_offset), int(time_ms)


def observe(broker: Broker, cases: Callable[[int], Iterator[Case]], index: int, topics: dict[str, str]) -> dict[str, Any]:
    now_ms = time.time_ns() // 1_000_000
    name, kind, version, data = list(cases(now_ms))[index]
    before = broker.end(topics[kind])
    code, base_offset, time_ms = produce(broker, topics[kind], data, version)
    taken = broker.end(topics[kind]) - before
    return {
        "name": name,
        "kind": kind,
        "version": version,
        "now_ms": now_ms,
        "data": data.hex(),
        "code": code,
        "base_offset": base_offset - before if base_offset >= 0 else -1,
        "log_append_time_ms": time_ms,
        "stored": broker.fetch(topics[kind], before).hex() if taken else "",
    }


def capture(address: str) -> None:
    broker = Broker(address)
    topics = {kind: f"upgrades-{kind}-{int(time.time())}" for kind in KINDS | SMALL}
    for kind, configs in (KINDS | SMALL).items():
        broker.create(topics[kind], configs)
    time.sleep(1)
    lines = [json.dumps({"provenance": f"python -m tests.golden capture upgrades, Apache Kafka 3.9.1, {datetime.now(tz=UTC).date()}"})]
    for cases in (honest_cases, other_cases):
        lines += [json.dumps(observe(broker, cases, index, topics)) for index in range(len(list(cases(0))))]
    TARGET.write_text("\n".join(lines) + "\n")
