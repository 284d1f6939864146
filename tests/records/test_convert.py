"""Up to v2 and down to v0 and v1, against what Apache Kafka 3.9.1 made of the same (captures/legacy.py, captures/upgrades.py)."""

from __future__ import annotations

import json
import tracemalloc
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minibroker.errors import (
    BY_CODE,
    CorruptMessage,
    InvalidRecord,
    InvalidTimestamp,
    KafkaError,
    MessageTooLarge,
    UnsupportedCompressionType,
)
from minibroker.records import convert
from minibroker.records.any_format import decode_records, split_batches
from minibroker.records.batch import RecordBatch, TimestampType, assign_offsets
from minibroker.records.builder import build_batch
from minibroker.records.compression import Compression
from minibroker.records.convert import downgrade, downgrade_in_steps
from minibroker.records.legacy import build_message_set, write_message
from minibroker.records.record import Record
from minibroker.records.validate import ProduceRules
from tests.golden.captures import upgrades
from tests.golden.captures.legacy import legacy_golden
from tests.records.lies import HOUR_MS
from tests.records.produced import validate_produced
from tests.records.test_legacy import NOW_MS, OLD_CODECS, decoded, records_in, some
from tests.support.soak import examples

DOWN = [entry for entry in legacy_golden() if entry["kind"] == "down"]
SETS = [entry for entry in legacy_golden() if entry["kind"] == "set"]
UNTIMED = ProduceRules(timestamp_after_max_ms=2**63 - 1)


def upgraded(data: bytes | bytearray, rules: ProduceRules = UNTIMED, now_ms: int = NOW_MS, version: int = 2) -> RecordBatch:
    return validate_produced(memoryview(bytearray(data)), rules, now_ms=now_ms, produce_version=version)


def test_downgrade_does_not_copy_a_long_record_with_each_piece() -> None:
    size = 8 * 1024 * 1024
    data = bytes(build_batch([Record(0, 1, b"k", bytes(size))], compression=Compression.GZIP))
    steps = downgrade_in_steps(data, 1, 0, max_count=1, max_bytes=1)
    work, result, pieces, allocated = next(steps), b"", 0, 0
    tracemalloc.start()
    while not result:
        piece = work() if callable(work) else None
        pieces += piece is not None
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        try:
            work = steps.send(piece)
        except StopIteration as end:
            result = end.value
        else:
            allocated += tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()
    assert len(result) > size
    assert pieces > 10
    assert allocated < 6 * size  # the record, its value and its message; a copy with each piece would take 17


@pytest.mark.parametrize("entry", DOWN, ids=lambda entry: f"{entry['name']}_to_v{entry['magic']}")
def test_downgrade_matches_kafka(entry: dict[str, Any]) -> None:
    data = bytes.fromhex(entry["data"])
    if "error" in entry:
        assert entry["error"] == "UnsupportedCompressionTypeException"
        with pytest.raises(UnsupportedCompressionType):
            downgrade(data, entry["magic"], entry["first_offset"])
        return
    ours = bytes(downgrade(data, entry["magic"], entry["first_offset"]))
    theirs = bytes.fromhex(entry["converted"])
    assert decoded(ours) == records_in(entry)
    our_batches, their_batches = list(split_batches(ours)), list(split_batches(theirs))
    assert [described(batch) for batch in our_batches] == [described(batch) for batch in their_batches]
    assert all(batch.check_crc() for batch in our_batches)
    assert all(our.data == their.data for our, their in zip(our_batches, their_batches, strict=True) if not our.is_compressed)


def described(batch: RecordBatch) -> tuple[int, ...]:
    """All that the head of a message tells, its size and CRC left out: those depend on the codec's library."""
    return batch.magic, batch.attributes, batch.base_offset, batch.last_offset, batch.max_timestamp, batch.record_count


def test_downgrade_keeps_old_enough_batches() -> None:
    data = bytes(build_message_set(some(3), 1)) + bytes(build_message_set(some(2, 0, 43), 0))
    assert downgrade(data, 1, 41) is data
    assert [batch.magic for batch in split_batches(downgrade(data, 0, 41))] == [0] * 4  # the record before 41 is left out


def test_downgrade_drops_headers_and_negative_timestamps() -> None:
    data = build_batch([Record(0, -5, b"k", b"v", (("trace", b"1"),))], base_offset=7)
    assert decoded(bytes(downgrade(data, 1, 0))) == [Record(7, -1, b"k", b"v")]


def test_downgrade_limits_decompressed_size() -> None:
    data = build_batch([Record(0, NOW_MS, None, bytes(1_000_000))], compression=Compression.GZIP)
    with pytest.raises(InvalidRecord, match="100000 bytes"):
        downgrade(data, 1, 0, max_bytes=100_000)


def test_downgrade_limits_the_size_of_many_small_records() -> None:
    """A record of 7 bytes becomes a message of 34."""
    data = build_batch([Record(0, NOW_MS, None, None)] * 20_000, compression=Compression.GZIP)
    assert len(data) < 50_000
    with pytest.raises(InvalidRecord, match="more than 200000 bytes in message format v1"):
        downgrade(data, 1, 0, max_bytes=200_000)


FUZZED = [
    bytes.fromhex(entry["data"])
    for entry in (*SETS, *DOWN)
    if entry.get("name", "mixed") in {"mixed", "v2_gzip", "v2_markers", "v2_gaps_none"}
]


@given(
    st.sampled_from(FUZZED) | st.binary(max_size=120),
    st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), min_size=1, max_size=4),
    st.booleans(),
    st.integers(0, 2),
)
@examples(300)
def test_random_damage_raises_only_kafka_errors(data: bytes, lies: list[tuple[int, int]], sums_are_right: bool, version: int) -> None:
    """Both ways; also where the CRC of the first message is right."""
    spoilt = bytearray(data)
    for position, byte in lies:
        if position < len(spoilt):
            spoilt[position] = byte
    size = 12 + int.from_bytes(spoilt[8:12], signed=True)
    if sums_are_right and 26 <= size <= len(spoilt):
        spoilt[12:16] = zlib.crc32(spoilt[16:size]).to_bytes(4)
    for convert_it in (lambda: upgraded(spoilt, version=version), lambda: downgrade(bytes(spoilt), version % 2, 0)):
        try:
            convert_it()
        except KafkaError:
            continue


def test_offsets_and_timestamps_out_of_range() -> None:
    apart = [Record(0, -1, None, None), Record(1, 2**63 - 1, None, None)]
    with pytest.raises(InvalidTimestamp, match="from -1 to 9223372036854775807"):
        upgraded(build_message_set(apart, 1))
    content = build_message_set([Record(2**63 - 1, 5, None, None), Record(0, 5, None, None)], 1)
    beyond = bytearray()
    write_message(beyond, Record(9, 5, None, zlib.compress(content, wbits=31)), 1, Compression.GZIP)
    with pytest.raises(InvalidRecord, match="does not fit into 64 bits"):
        downgrade(beyond, 0, 0)


def test_upgrade_limits_the_number_of_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(convert, "MAX_SET_MESSAGES", 100)
    records = [Record(index, -1, None, None) for index in range(101)]
    assert upgraded(build_message_set(records[:100], 0, compression=Compression.GZIP)).record_count == 100
    with pytest.raises(MessageTooLarge, match="more than 100 messages"):
        upgraded(build_message_set(records, 0, compression=Compression.GZIP))


@pytest.mark.parametrize("entry", SETS, ids=lambda entry: f"v{entry['magic']}_{entry['codec']}_{entry['append_time']}")
@pytest.mark.parametrize("codec", [None, *Compression])
def test_upgrade_keeps_the_records(entry: dict[str, Any], codec: Compression | None) -> None:
    batch = upgraded(bytes.fromhex(entry["data"]), UNTIMED._replace(compression=codec))
    records = [record._replace(offset=index) for index, record in enumerate(records_in(entry))]
    assert [*decode_records(batch)] == records
    assert batch.check_crc()
    assert batch.magic == 2
    assert batch.compression is (Compression.from_name(entry["codec"]) if codec is None else codec)
    assert batch.max_timestamp == max(record.timestamp for record in records)
    assert batch.timestamp_type is TimestampType.CREATE_TIME
    assert (batch.base_offset, batch.last_offset_delta, batch.record_count, batch.producer_id) == (0, 3, 4, -1)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", OLD_CODECS)
@given(data=st.data())
def test_upgrade_and_downgrade_change_only_offsets(magic: int, codec: Compression, data: st.DataObject) -> None:
    fields = st.none() | st.binary(max_size=30)
    records = [
        Record(index, data.draw(st.integers(-1, 2**50)) if magic else -1, data.draw(fields), data.draw(fields))
        for index in range(data.draw(st.integers(1, 6)))
    ]
    written = bytes(build_message_set(records, magic, compression=codec))
    assert bytes(downgrade(upgraded(written).data, magic, 0)) == written


def test_upgrade_stamps_log_append_time() -> None:
    batch = upgraded(build_message_set(some(3), 1), ProduceRules(timestamp_type=TimestampType.LOG_APPEND_TIME), now_ms=NOW_MS + 5)
    assert (batch.timestamp_type, batch.max_timestamp) == (TimestampType.LOG_APPEND_TIME, NOW_MS + 5)
    assert [record.timestamp for record in decode_records(batch)] == [NOW_MS + 5] * 3


def test_upgrade_ignores_client_offsets() -> None:
    """Old clients number from 0, from 1, or not at all."""
    for offsets in ([0, 0, 0], [1, 2, 3], [9, 9, 0]):
        data = b"".join(bytes(build_message_set([Record(offset, NOW_MS, b"k", b"v")], 1)) for offset in offsets)
        assert [record.offset for record in decode_records(upgraded(data))] == [0, 1, 2]


def test_partial_message_at_the_end_is_dropped() -> None:
    data = bytes(build_message_set(some(3), 1))
    for cut in (1, 20, 40):
        assert upgraded(data[:-cut]).record_count == 2


def test_new_produce_versions_reject_message_sets() -> None:
    with pytest.raises(InvalidRecord, match="magic version 2"):
        upgraded(build_message_set(some(1), 1), version=3)


def test_old_produce_versions_accept_batches() -> None:
    """Some clients send v2 in old requests, and Kafka has always taken it."""
    assert upgraded(build_batch(some(3)), version=0).record_count == 3


PLAIN = bytes(build_message_set(some(2), 1))
PLAIN_V0 = bytes(build_message_set(some(2, 0), 0))
ZIPPED = bytes(build_message_set(some(2), 1, compression=Compression.GZIP))
COMPACTED = UNTIMED._replace(is_compacted=True)


@pytest.mark.parametrize(
    ("data", "rules", "kind"),
    [
        (PLAIN[:20], UNTIMED, InvalidRecord),
        (PLAIN[:8] + (13).to_bytes(4) + PLAIN[12:], UNTIMED, CorruptMessage),
        (PLAIN + PLAIN[:8] + (-1).to_bytes(4, signed=True) + PLAIN[12:], UNTIMED, CorruptMessage),
        (PLAIN[:-1] + b"!", UNTIMED, CorruptMessage),
        (PLAIN + PLAIN_V0, UNTIMED, InvalidRecord),
        (PLAIN_V0 + bytes(build_batch(some(1))), UNTIMED, InvalidRecord),
        (bytes(build_batch(some(1))) + PLAIN_V0, UNTIMED, InvalidRecord),
        (ZIPPED + ZIPPED, UNTIMED, InvalidRecord),
        (PLAIN + ZIPPED, UNTIMED, InvalidRecord),
        (PLAIN, UNTIMED._replace(max_message_bytes=40), MessageTooLarge),
        (bytes(build_message_set(some(20), 1)), UNTIMED._replace(max_message_bytes=100), MessageTooLarge),
        (PLAIN, ProduceRules(timestamp_after_max_ms=-10_000), InvalidTimestamp),
        (PLAIN, ProduceRules(timestamp_before_max_ms=-10_000), InvalidTimestamp),
        (bytes(build_message_set([Record(0, NOW_MS, None, b"v")], 1)), COMPACTED, InvalidRecord),
        (bytes(build_message_set([Record(0, -1, None, b"v")], 0, compression=Compression.GZIP)), COMPACTED, InvalidRecord),
        (
            bytes(build_message_set(some(1), 1, timestamp_type=TimestampType.LOG_APPEND_TIME)),
            ProduceRules(timestamp_type=TimestampType.LOG_APPEND_TIME),
            InvalidTimestamp,
        ),
    ],
)
def test_invalid_message_sets_are_refused(data: bytes, rules: ProduceRules, kind: type[KafkaError]) -> None:
    with pytest.raises(kind):
        upgraded(data, rules)


def test_messages_without_timestamp_are_never_out_of_range() -> None:
    rules = ProduceRules(timestamp_before_max_ms=0, timestamp_after_max_ms=0)
    assert upgraded(PLAIN_V0, rules).max_timestamp == -1


def test_record_errors_are_listed() -> None:
    records = [Record(0, NOW_MS, b"k", b"v"), Record(0, NOW_MS, None, b"v")]
    with pytest.raises(InvalidRecord) as caught:
        upgraded(build_message_set(records, 1, compression=Compression.LZ4), COMPACTED)
    assert [index for index, _ in caught.value.record_errors] == [1]


UPGRADES = [entry for entry in map(json.loads, upgrades.TARGET.read_text().splitlines()) if "provenance" not in entry]
RULES = {
    "plain": ProduceRules(),
    "compacted": ProduceRules(is_compacted=True),
    "append-time": ProduceRules(timestamp_type=TimestampType.LOG_APPEND_TIME),
    "bounded-time": ProduceRules(timestamp_before_max_ms=HOUR_MS, timestamp_after_max_ms=HOUR_MS),
    "to-gzip": ProduceRules(compression=Compression.GZIP),
    "to-none": ProduceRules(compression=Compression.NONE),
    "small": ProduceRules(max_message_bytes=upgrades.MAX_MESSAGE_BYTES),
}
#: where Kafka's answer is not ours, and why
DIFFERENT: dict[str, tuple[type[KafkaError], str]] = {
    "nothing": (InvalidRecord, "no error, and nothing appended: the handler answers so before it asks the log"),
    "nothing_whole": (InvalidRecord, "the same"),
    "set_torn_inside": (InvalidRecord, "it takes the whole messages and drops the torn one without a word"),
    "set_no_gzip": (InvalidRecord, "UNKNOWN_SERVER_ERROR"),
    "codec_5": (UnsupportedCompressionType, "UNKNOWN_SERVER_ERROR"),
}


@pytest.mark.parametrize("entry", UPGRADES, ids=lambda entry: str(entry["name"]))
def test_upgrade_matches_kafka(entry: dict[str, Any]) -> None:
    data, rules = bytes.fromhex(entry["data"]), RULES[entry["kind"]]
    now_ms = entry["now_ms"] if entry["log_append_time_ms"] < 0 else entry["log_append_time_ms"]
    expected = DIFFERENT[entry["name"]][0] if entry["name"] in DIFFERENT else BY_CODE.get(entry["code"])
    if expected is not None:
        with pytest.raises(expected) as caught:
            upgraded(data, rules, now_ms, entry["version"])
        assert type(caught.value) is expected
        return
    ours = upgraded(data, rules, now_ms, entry["version"])
    theirs = RecordBatch(bytes.fromhex(entry["stored"]))
    assign_offsets(ours.data, theirs.base_offset, theirs.partition_leader_epoch)
    ours = RecordBatch(ours.data)
    assert ours.check_crc()
    if not theirs.is_compressed:
        assert ours.data == theirs.data
        return
    names = (
        "attributes", "base_offset", "base_sequence", "base_timestamp", "last_offset_delta", "magic", "max_timestamp",
        "partition_leader_epoch", "producer_epoch", "producer_id", "record_count",
    )  # fmt: skip
    for name in names:  # the others depend on the codec's library
        assert getattr(ours, name) == getattr(theirs, name), name
    assert [*decode_records(ours)] == [*decode_records(theirs)]
