"""Batches that a client must not get away with, and their honest neighbours: FAULTS of a producer, by name.

`tests/golden/records/lies_kafka_4.3.1.tsv` says what Apache Kafka 4.3.1 answered to each (observe_lies.py asked it), and
test_validate.py what we answer and where the two differ.
"""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

import cramjam
import lz4.frame

from minibroker.records.batch import HEADER_SIZE
from minibroker.records.builder import build_batch, sum_batch
from minibroker.records.codecs.snappy import XERIAL_HEADER
from minibroker.records.compression import Compression, compress
from minibroker.records.record import Record, write_varint

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
KINDS = {  # the topics that the batches go to, with their configs
    "plain": {},
    "compacted": {"cleanup.policy": "compact"},
    "append-time": {"message.timestamp.type": "LogAppendTime"},
    "bounded-time": {"message.timestamp.before.max.ms": str(HOUR_MS), "message.timestamp.after.max.ms": str(HOUR_MS)},
    "to-gzip": {"compression.type": "gzip"},
    "to-none": {"compression.type": "uncompressed"},
}


class Lie(NamedTuple):
    """A batch as a function of the time of day, the kind of topic that it goes to and the version of Produce."""

    data: Callable[[int], bytes]
    kind: str = "plain"
    version: int = 8


LIES: dict[str, Lie] = {}


def lie(name: str, data: Callable[[int], bytes], kind: str = "plain", version: int = 8) -> None:
    if name in LIES:
        raise ValueError(name)
    LIES[name] = Lie(data, kind, version)


def honest(now_ms: int) -> list[Record]:
    return [
        Record(0, now_ms, b"key", b"value", (("trace", b"1"),)),
        Record(0, now_ms - 5, None, b""),
        Record(0, now_ms + 7, b"", None, (("a", None), ("a", b""))),
    ]


def built(records: Callable[[int], list[Record]] = honest, **how: Any) -> Callable[[int], bytes]:
    """Records as `build_batch` makes a batch of them."""
    return lambda now_ms: bytes(build_batch(records(now_ms), **how))


def cut(end: int) -> Callable[[int], bytes]:
    """The beginning of an honest batch."""
    return lambda now_ms: built()(now_ms)[:end]


def at(*times_ms: int, key: bytes | None = b"k", size: int = 1) -> Callable[[int], list[Record]]:
    """Records so many ms from now."""
    return lambda now_ms: [Record(0, now_ms + time_ms, key, bytes(size)) for time_ms in times_ms]


def timed(timestamp: int) -> Callable[[int], list[Record]]:
    """One record of a fixed time."""
    return lambda _: [Record(0, timestamp, b"k", b"v")]


def patched(position: int, layout: str, *values: int, sum_again: bool = True) -> Callable[[int], bytes]:
    """An honest batch with header fields overwritten, its CRC right all the same."""

    def data(now_ms: int) -> bytes:
        batch = build_batch(honest(now_ms))
        struct.pack_into(layout, batch, position, *values)
        if sum_again:
            sum_batch(batch)
        return bytes(batch)

    return data


def with_payload(payload: bytes, count: int, codec: int = 0) -> Callable[[int], bytes]:
    """A batch that announces `count` records and holds `payload`, already compressed if at all."""

    def data(now_ms: int) -> bytes:
        batch = build_batch([Record(0, now_ms, None, None)])[:HEADER_SIZE] + payload
        struct.pack_into(">i", batch, 8, len(batch) - 12)
        struct.pack_into(">hi", batch, 21, codec, count - 1)
        struct.pack_into(">i", batch, 57, count)
        sum_batch(batch)
        return bytes(batch)

    return data


def varint(number: int) -> bytes:
    out = bytearray()
    write_varint(out, number)
    return bytes(out)


def record(*parts: bytes | int, length: int | None = None) -> bytes:
    """A record from its fields behind the attributes, numbers as varints, with its true length unless told otherwise."""
    body = b"\0" + b"".join(varint(part) if isinstance(part, int) else part for part in parts)
    return varint(len(body) if length is None else length) + body


GOOD = record(0, 0, 1, b"k", 1, b"v", 0)
GOOD_SECOND = record(0, 1, 1, b"k", 1, b"v", 0)


def xerial(data: bytes) -> bytes:
    block = bytes(cramjam.snappy.compress_raw(data))
    return XERIAL_HEADER + len(block).to_bytes(4) + block


CODECS: dict[str, tuple[int, Callable[[bytes], bytes]]] = {
    "gzip": (1, gzip.compress),
    "snappy": (2, lambda data: bytes(cramjam.snappy.compress_raw(data))),
    "xerial": (2, xerial),
    "lz4": (3, lambda data: lz4.frame.compress(data, block_linked=False, store_size=False)),
    "zstd": (4, lambda data: compress(Compression.ZSTD, data)),
}


def _describe_headers() -> None:
    lie("honest", built())
    for codec in Compression:
        lie(f"honest_{codec.name.lower()}", built(compression=codec))
    lie("nothing", lambda now: b"")
    lie("cut_in_offset", cut(7))
    lie("cut_in_length", cut(11))
    lie("cut_before_magic", cut(16))
    lie("cut_behind_magic", cut(17))
    lie("cut_in_header", cut(40))
    lie("cut_in_records", cut(-1))
    lie("zeros", lambda now: bytes(100))
    lie("trailing_bytes", lambda now: built()(now) + b"tail")
    lie("trailing_30_bytes", lambda now: built()(now) + bytes(30))
    lie("trailing_cut_batch", lambda now: built()(now) + cut(-3)(now))
    lie("two_batches", lambda now: built()(now) * 2)
    lie("length_too_large", patched(8, ">i", 10_000, sum_again=False))
    lie("length_too_small_by_one", lambda now: (whole := built()(now))[:8] + (len(whole) - 13).to_bytes(4) + whole[12:])
    for length in (-1, 0, 13, 14, 48, 2**31 - 1, -(2**31)):
        lie(f"length_{length}", patched(8, ">i", length, sum_again=False))
    lie("length_of_bare_header", with_payload(b"", 1))
    lie("crc_wrong", patched(17, ">I", 0xDEADBEEF, sum_again=False))
    lie("payload_bit_flipped", lambda now: cut(-1)(now) + b"\x7f")
    for magic in (0, 1, 3, -1):
        lie(f"magic_{magic}", patched(16, ">b", magic))
    for magic in (0, 1):
        lie(f"honest_magic_{magic}", legacy(magic))
    lie("base_offset_5", patched(0, ">q", 5))
    lie("base_offset_negative", patched(0, ">q", -1))
    lie("partition_leader_epoch_99", patched(12, ">i", 99))
    lie("zstd_in_produce_6", built(compression=Compression.ZSTD), version=6)
    lie("zstd_in_produce_7", built(compression=Compression.ZSTD), version=7)
    for codec_id in (5, 6, 7):
        lie(f"codec_{codec_id}", patched(21, ">h", codec_id))
        lie(f"codec_{codec_id}_in_produce_6", patched(21, ">h", codec_id), version=6)
    lie("control", patched(21, ">h", 0x20))
    lie("delete_horizon", patched(21, ">h", 0x40))
    lie("unused_attributes", patched(21, ">h", 0x7F80))
    for count, delta in (
        (0, 2),
        (0, -1),
        (-1, 2),
        (-1, -2),
        (2, 2),
        (4, 2),
        (3, 1),
        (3, 3),
        (3, -1),
        (3, -(2**31)),
        (2, 1),
        (4, 3),
        (2**31 - 1, 2**31 - 2),
    ):
        lie(f"count_{count}_delta_{delta}", counted(count, delta))
        lie(f"count_{count}_delta_{delta}_lz4", counted(count, delta, Compression.LZ4))


def counted(count: int, last_offset_delta: int, compression: Compression = Compression.NONE) -> Callable[[int], bytes]:
    def data(now_ms: int) -> bytes:
        batch = build_batch(honest(now_ms), compression=compression)
        struct.pack_into(">i", batch, 23, last_offset_delta)
        struct.pack_into(">i", batch, 57, count)
        sum_batch(batch)
        return bytes(batch)

    return data


def legacy(magic: int) -> Callable[[int], bytes]:
    """An honest message of format v0 or v1."""
    return lambda now_ms: _legacy(magic, now_ms)


def _legacy(magic: int, now_ms: int) -> bytes:
    rest = (
        struct.pack(">bb", magic, 0)
        + (struct.pack(">q", now_ms) if magic else b"")
        + struct.pack(">i", 1)
        + b"k"
        + struct.pack(">i", 1)
        + b"v"
    )
    message = struct.pack(">I", zlib.crc32(rest)) + rest
    return struct.pack(">qi", 0, len(message)) + message


def _describe_producers() -> None:
    for producer_id, epoch, sequence in (
        (9_999, 0, 0),
        (9_998, 0, 5),
        (9_997, -1, 0),
        (9_996, 0, -1),
        (9_995, 0, -5),
        (-1, 0, 0),
        (-5, 0, 0),
        (-5, 0, -1),
        (-1, -1, 5),
        (-1, 5, -1),
    ):
        lie(f"producer_{producer_id}_epoch_{epoch}_sequence_{sequence}", patched(43, ">qhi", producer_id, epoch, sequence))
    lie("transactional_without_producer", patched(21, ">h", 0x10))
    lie(
        "transactional_with_producer",
        built(is_transactional=True, producer_id=9_990, producer_epoch=0, base_sequence=0),
    )


def _describe_times() -> None:
    lie("time_2_hours_ahead", built(at(2 * HOUR_MS)))
    lie("time_50_minutes_ahead", built(at(HOUR_MS * 5 // 6)))
    lie("time_20_years_back", built(at(-20 * 365 * DAY_MS)))
    lie("time_second_record_ahead", built(at(0, 2 * HOUR_MS)))
    lie("time_back_in_bounded", built(at(0, -2 * HOUR_MS)), "bounded-time")
    lie("time_back_50_minutes_in_bounded", built(at(0, -HOUR_MS * 5 // 6)), "bounded-time")
    lie("time_none", built(timed(-1)))
    lie("time_none_in_bounded", built(timed(-1)), "bounded-time")
    lie("time_negative", built(timed(-5)))
    lie("time_negative_in_bounded", built(timed(-5)), "bounded-time")
    lie("time_header_max_ahead", lambda now: built(max_timestamp=now + 2 * HOUR_MS)(now))
    lie("time_header_max_behind", lambda now: built(max_timestamp=now - DAY_MS)(now))
    lie("time_header_max_none", built(max_timestamp=-1))
    lie(
        "time_header_max_ahead_lz4",
        lambda now: built(max_timestamp=now + 2 * HOUR_MS, compression=Compression.LZ4)(now),
    )
    lie("time_ahead_hidden", lambda now: built(at(2 * HOUR_MS), max_timestamp=now)(now))
    lie("time_ahead_in_append_time", built(at(20 * DAY_MS)), "append-time")
    lie("append_time_flag", patched(21, ">h", 0x08))
    lie("append_time_flag_in_append_time", patched(21, ">h", 0x08), "append-time")


def _describe_records() -> None:
    inner: dict[str, tuple[bytes, int]] = {
        "good": (GOOD, 1),
        "two_good": (GOOD + GOOD_SECOND, 2),
        "record_left_over": (GOOD + GOOD_SECOND, 1),
        "record_missing": (GOOD, 2),
        "byte_left_over": (GOOD + b"\0", 1),
        "empty": (b"", 1),
        "length_too_long": (record(0, 0, 1, b"k", 1, b"v", 0, length=9), 1),
        "length_too_short": (record(0, 0, 1, b"k", 1, b"v", 0, length=7), 1),
        "length_negative": (record(0, 0, 1, b"k", 1, b"v", 0, length=-1), 1),
        "length_huge": (record(0, 0, 1, b"k", 1, b"v", 0, length=2**31 - 1), 1),
        "length_of_6_bytes": (b"\x90\x80\x80\x80\x80\x00" + GOOD[1:], 1),
        "bytes_behind_headers": (record(0, 0, 1, b"k", 1, b"v", 0, b"xyz"), 1),
        "key_beyond_record": (record(0, 0, 100, b"k", 1, b"v", 0), 1),
        "key_length_-2": (record(0, 0, -2, 1, b"v", 0), 1),
        "value_length_-2": (record(0, 0, 1, b"k", -2, 0), 1),
        "value_beyond_record": (record(0, 0, 1, b"k", 2**31 - 1, b"v", 0), 1),
        "header_count_-1": (record(0, 0, 1, b"k", 1, b"v", -1), 1),
        "header_count_huge": (record(0, 0, 1, b"k", 1, b"v", 2**31 - 1), 1),
        "header_count_1_of_0": (record(0, 0, 1, b"k", 1, b"v", 1), 1),
        "header_count_0_of_1": (record(0, 0, 1, b"k", 1, b"v", 0, 1, b"h", 1, b"x"), 1),
        "header_key_null": (record(0, 0, 1, b"k", 1, b"v", 1, -1, 1, b"x"), 1),
        "header_key_not_utf8": (record(0, 0, 1, b"k", 1, b"v", 1, 2, b"\xff\xfe", 1, b"x"), 1),
        "header_value_-2": (record(0, 0, 1, b"k", 1, b"v", 1, 1, b"h", -2), 1),
        "offset_delta_5": (record(0, 5, 1, b"k", 1, b"v", 0), 1),
        "offset_delta_negative": (record(0, -1, 1, b"k", 1, b"v", 0), 1),
        "offset_deltas_same": (GOOD + GOOD, 2),
        "offset_deltas_backwards": (GOOD_SECOND + GOOD, 2),
        "record_attributes": (GOOD[:1] + b"\x07" + GOOD[2:], 1),
    }
    for name, (payload, count) in inner.items():
        lie(f"records_{name}", with_payload(payload, count))
        for codec, (codec_id, pack) in CODECS.items():
            if codec in {"lz4", "zstd"} or name in {"good", "empty", "record_missing", "record_left_over"}:
                lie(f"records_{name}_{codec}", with_payload(pack(payload), count, codec_id))
    lie("null_key_in_compacted", built(), "compacted")
    lie("null_key_in_compacted_zstd", built(compression=Compression.ZSTD), "compacted")
    lie("keys_in_compacted", built(at(0, 0)), "compacted")
    lie(
        "null_key_and_time_ahead_in_compacted",
        lambda now: bytes(build_batch(at(0, key=None)(now) + at(2 * HOUR_MS)(now))),
        "compacted",
    )


def _describe_frames() -> None:
    for codec, (codec_id, pack) in CODECS.items():
        lie(f"frame_garbage_{codec}", with_payload(b"this is no frame of any codec at all", 1, codec_id))
        lie(f"frame_nothing_{codec}", with_payload(b"", 1, codec_id))
        lie(f"frame_uncompressed_{codec}", with_payload(GOOD, 1, codec_id))
        lie(f"frame_cut_by_1_{codec}", with_payload(pack(GOOD * 1)[:-1], 1, codec_id))
        lie(
            f"frame_cut_in_half_{codec}",
            with_payload((whole := pack(record(0, 0, 1, b"k", 4_000, bytes(range(250)) * 16, 0)))[: len(whole) // 2], 1, codec_id),
        )
        lie(f"frame_and_tail_{codec}", with_payload(pack(GOOD) + b"tail", 1, codec_id))
        lie(f"frame_twice_{codec}", with_payload(pack(GOOD) + pack(GOOD_SECOND), 2, codec_id))
    for codec, (codec_id, _) in CODECS.items():
        lie(f"frame_of_another_codec_{codec}", with_payload(zlib.compress(GOOD), 1, codec_id))
    lie("snappy_claims_2_GiB", with_payload(b"\xff\xff\xff\xff\x07" + b"\0" * 20, 1, 2))
    lie("xerial_block_of_2_GiB", with_payload(XERIAL_HEADER + b"\x7f\xff\xff\xff" + b"\0" * 20, 1, 2))
    lie("xerial_block_of_-1", with_payload(XERIAL_HEADER + b"\xff\xff\xff\xff" + b"\0" * 20, 1, 2))
    lie("zstd_claims_1_TiB", with_payload(b"\x28\xb5\x2f\xfd\xe0" + (1 << 40).to_bytes(8, "little") + b"\x01\x00\x00", 1, 4))
    lie("zstd_window_of_2_GiB", with_payload(b"\x28\xb5\x2f\xfd\x00\xa8" + b"\x41\x00\x00" + GOOD[:8], 1, 4))
    lie("too_large", built(at(0, size=1_048_588)))
    lie("too_large_and_crc_wrong", lambda now: built(at(0, size=1_048_588))(now)[:-1] + b"x")
    lie("largest", built(at(0, key=None, size=1_048_588 - HEADER_SIZE - 11)))
    lie("one_too_large", built(at(0, key=None, size=1_048_588 - HEADER_SIZE - 10)))
    lie(
        "too_large_when_uncompressed",
        built(at(0, size=1_100_000), compression=Compression.LZ4),
        "to-none",
    )
    lie(
        "too_large_when_uncompressed_but_producer",
        built(at(0, size=1_100_000), compression=Compression.LZ4),
    )
    lie("too_large_when_not_yet_gzip", built(at(0, size=1_100_000)), "to-gzip")
    for kind in Compression:
        lie(f"to_gzip_{kind.name.lower()}", built(compression=kind), "to-gzip")
        lie(f"to_none_{kind.name.lower()}", built(compression=kind), "to-none")
    lie("zstd_in_produce_6_to_gzip", built(compression=Compression.ZSTD), "to-gzip", 6)
    lie("frame_cut_in_half_zstd_to_gzip", with_payload(compress(Compression.ZSTD, GOOD)[:-8], 1, 4), "to-gzip")
    lie("records_offset_delta_5_to_gzip", with_payload(record(0, 5, 1, b"k", 1, b"v", 0), 1), "to-gzip")


_describe_headers()
_describe_producers()
_describe_times()
_describe_records()
_describe_frames()
