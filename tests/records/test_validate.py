from __future__ import annotations

import csv
from pathlib import Path

import pytest

from minibroker.errors import BY_CODE, CorruptMessage, InvalidRecord, InvalidTimestamp, KafkaError, MessageTooLarge
from minibroker.records.any_format import decode_records
from minibroker.records.batch import RecordBatch, TimestampType
from minibroker.records.builder import build_batch
from minibroker.records.compression import Compression
from minibroker.records.record import Record
from minibroker.records.validate import DEEP_RECORD_COUNT, ProduceRules
from tests.records import lies
from tests.records.lies import HOUR_MS, LIES, honest
from tests.records.produced import validate_produced

NOW_MS = 1_700_000_000_000
GOLDEN = Path(__file__).parents[1] / "golden" / "records" / "lies_kafka_4.3.1.tsv"

RULES = {
    "plain": ProduceRules(),
    "compacted": ProduceRules(is_compacted=True),
    "append-time": ProduceRules(timestamp_type=TimestampType.LOG_APPEND_TIME),
    "bounded-time": ProduceRules(timestamp_before_max_ms=HOUR_MS, timestamp_after_max_ms=HOUR_MS),
    "to-gzip": ProduceRules(compression=Compression.GZIP),
    "to-none": ProduceRules(compression=Compression.NONE),
}

UNKNOWN_SERVER_ERROR = -1
NOT_CHECKED_HERE = {"transactional_without_producer", "transactional_with_producer"}  # the handler's and the log's to refuse
READERS_FAIL = "Kafka stores it, and readers cannot read it"
TRAILING = "Kafka ignores what follows the frame"
LENIENT = "Kafka takes every negative length for null"
KEPT_LENGTHS = "Kafka does not look at the lengths of compressed records"
OVERFLOW = "Kafka's addition overflows"


def differences() -> dict[str, tuple[int, str]]:
    """Where our answer is not Kafka's: our code and the reason."""
    found = {
        "length_2147483647": (InvalidRecord.code, OVERFLOW),
        "records_length_of_6_bytes": (InvalidRecord.code, "Kafka lets an exception of its parser out"),
        "frame_and_tail_gzip": (InvalidRecord.code, TRAILING),
        "frame_and_tail_lz4": (InvalidRecord.code, TRAILING),
        "records_offset_delta_5_to_gzip": (InvalidRecord.code, "Kafka numbers them anew when it compresses"),
    }
    for name in ("offset_delta_5", "offset_delta_negative", "offset_deltas_same", "offset_deltas_backwards"):
        found[f"records_{name}"] = (InvalidRecord.code, READERS_FAIL)
    for name in ("key_length_-2", "value_length_-2", "header_value_-2"):
        for codec in ("", "_lz4", "_zstd"):
            found[f"records_{name}{codec}"] = (InvalidRecord.code, LENIENT)
    for name in ("too_long", "too_short", "negative", "huge"):
        for codec in ("_lz4", "_zstd"):
            found[f"records_length_{name}{codec}"] = (InvalidRecord.code, KEPT_LENGTHS)
    return found


DIFFERENCES = differences()


def observed() -> dict[str, dict[str, str]]:
    with GOLDEN.open(newline="") as file:
        rows = csv.DictReader((line for line in file if not line.startswith("#")), delimiter="\t", quoting=csv.QUOTE_NONE)
        return {row["name"]: row for row in rows}


OBSERVED = observed()


def expected_code(name: str) -> int:
    if name in DIFFERENCES:
        return DIFFERENCES[name][0]
    code = int(OBSERVED[name]["error_code"])
    if code == UNKNOWN_SERVER_ERROR:  # Kafka's exceptions of codecs; we tell the client what is wrong
        return 76 if name.startswith("codec_") else InvalidRecord.code
    return code


def send(name: str, rules: ProduceRules | None = None) -> RecordBatch:
    lie = LIES[name]
    data = memoryview(bytearray(lie.data(NOW_MS)))
    return validate_produced(data, rules or RULES[lie.kind], now_ms=NOW_MS, produce_version=lie.version)


def stored(batch: RecordBatch) -> str:
    """As the golden table tells it."""
    max_timestamp = "-1" if batch.max_timestamp == -1 else f"now{batch.max_timestamp - NOW_MS:+d}"
    return f"attributes={batch.attributes} count={batch.record_count} max={max_timestamp} crc={'right' if batch.check_crc() else 'wrong'}"


def test_table_of_observed_answers_is_complete() -> None:
    assert set(LIES) == set(OBSERVED)
    assert set(DIFFERENCES) <= set(LIES)
    assert all(int(OBSERVED[name]["error_code"]) != code for name, (code, _) in DIFFERENCES.items())


@pytest.mark.parametrize("name", sorted(set(LIES) - NOT_CHECKED_HERE))
def test_answer_matches_apache_kafka(name: str) -> None:
    code = expected_code(name)
    if code:
        with pytest.raises(BY_CODE[code]) as caught:
            send(name)
        assert ",".join(str(index) for index, _ in caught.value.record_errors) == OBSERVED[name]["record_errors"]
    else:
        seen = stored(send(name))
        if LIES[name].kind == "append-time":
            assert seen == "attributes=8 count=1 max=now+0 crc=right"
        else:
            assert seen == OBSERVED[name]["stored"]


@pytest.mark.parametrize("name", sorted(NOT_CHECKED_HERE))
def test_transactional_batches_pass_validation(name: str) -> None:
    assert send(name).is_transactional


@pytest.mark.parametrize("source", list(Compression))
@pytest.mark.parametrize("target", list(Compression))
def test_recompression_changes_only_the_codec(source: Compression, target: Compression) -> None:
    data = build_batch(honest(NOW_MS), compression=source, producer_id=7, producer_epoch=3, base_sequence=11)

    batch = validate_produced(memoryview(data), ProduceRules(compression=target), now_ms=NOW_MS)

    assert (batch.compression, batch.check_crc()) == (target, True)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.last_offset_delta) == (7, 3, 11, 2)
    assert (batch.base_timestamp, batch.max_timestamp) == (NOW_MS, NOW_MS + 7)
    assert list(decode_records(batch)) == list(decode_records(RecordBatch(data)))


def test_recompression_drops_attributes_set_by_brokers() -> None:
    data = bytearray(build_batch([Record(0, NOW_MS, b"k", b"v")], delete_horizon_ms=NOW_MS))
    batch = validate_produced(memoryview(data), ProduceRules(compression=Compression.GZIP), now_ms=NOW_MS)
    assert batch.attributes == Compression.GZIP
    assert [record.timestamp for record in decode_records(batch)] == [NOW_MS]


def test_recompression_under_log_append_time() -> None:
    data = build_batch(honest(NOW_MS - 1_000))
    rules = ProduceRules(compression=Compression.LZ4, timestamp_type=TimestampType.LOG_APPEND_TIME)

    batch = validate_produced(memoryview(data), rules, now_ms=NOW_MS)

    assert (batch.compression, batch.timestamp_type, batch.check_crc()) == (Compression.LZ4, TimestampType.LOG_APPEND_TIME, True)
    assert [record.timestamp for record in decode_records(batch)] == [NOW_MS] * 3


def test_compression_level_is_used() -> None:
    text = b" ".join(b"%d" % (number * number) for number in range(5_000))
    sizes = [
        validate_produced(
            memoryview(build_batch([Record(0, NOW_MS, None, text)])),
            ProduceRules(compression=Compression.GZIP, compression_level=level),
            now_ms=NOW_MS,
        ).size
        for level in (1, 9)
    ]

    assert sizes[0] > sizes[1]


def test_batch_too_large_after_recompression_is_refused() -> None:
    data = build_batch([Record(0, NOW_MS, None, bytes(5_000))], compression=Compression.ZSTD)

    with pytest.raises(MessageTooLarge):
        validate_produced(memoryview(data), ProduceRules(max_message_bytes=1_000, compression=Compression.NONE), now_ms=NOW_MS)


def test_valid_batch_is_stored_without_copying() -> None:
    data = build_batch(honest(NOW_MS))
    before = bytes(data)

    batch = validate_produced(memoryview(data), ProduceRules(), now_ms=NOW_MS)

    assert batch.data.obj is data
    assert bytes(data) == before


def test_trailing_bytes_are_cut_off() -> None:
    data = build_batch(honest(NOW_MS))

    batch = validate_produced(memoryview(data + b"12345678"), ProduceRules(), now_ms=NOW_MS)

    assert bytes(batch.data) == bytes(data)


def test_each_invalid_record_is_reported() -> None:
    with pytest.raises(InvalidRecord) as no_key:
        send("null_key_in_compacted")
    with pytest.raises(InvalidTimestamp) as too_late:
        send("time_second_record_ahead")

    assert no_key.value.record_errors == ((1, "Compacted topic cannot accept message without key"),)
    ((index, message),) = too_late.value.record_errors
    assert index == 1
    assert f"Timestamp {NOW_MS + 2 * HOUR_MS} is out of range" in message


@pytest.mark.parametrize("timestamp", [2**63 - 1, -(2**63)])
def test_timestamp_beyond_64_bits_is_refused(timestamp: int) -> None:
    payload = lies.record(2 if timestamp > 0 else -2, 0, 1, b"k", 1, b"v", 0)
    data = bytearray(lies.with_payload(payload, 1)(timestamp))
    rules = ProduceRules(timestamp_before_max_ms=2**63 - 1, timestamp_after_max_ms=2**63 - 1)

    with pytest.raises(InvalidTimestamp):
        validate_produced(memoryview(data), rules, now_ms=NOW_MS)


def many(count: int, last: bytes) -> memoryview:
    """A batch whose last record is `last`, the others in order."""
    payload = b"".join(lies.record(0, index, 1, b"k", 1, b"v", 0) for index in range(count - 1)) + last
    return memoryview(bytearray(lies.with_payload(payload, count)(NOW_MS)))


def test_record_fields_are_checked_in_small_batches_or_on_request() -> None:
    def lying(count: int) -> memoryview:
        return many(count, lies.record(0, count - 1, 1, b"k", 1, b"v", 5))

    with pytest.raises(InvalidRecord):
        validate_produced(lying(DEEP_RECORD_COUNT), ProduceRules(), now_ms=NOW_MS)
    for rules in (ProduceRules(deep=True), ProduceRules(is_compacted=True)):
        with pytest.raises(InvalidRecord):
            validate_produced(lying(DEEP_RECORD_COUNT + 1), rules, now_ms=NOW_MS)
    validate_produced(lying(DEEP_RECORD_COUNT + 1), ProduceRules(), now_ms=NOW_MS)  # documented in validate.py


@pytest.mark.parametrize("count", [2, 64, 65, 128, 8_192, 8_193, 9_000])
def test_lengths_and_offsets_are_checked_in_batches_of_any_size(count: int) -> None:
    good = lies.record(0, count - 1, 1, b"k", 1, b"v", 0)
    validate_produced(many(count, good), ProduceRules(), now_ms=NOW_MS)
    for bad in (
        b"",
        good[:-1],
        good + b"\0",
        good + good,
        lies.record(0, count, 1, b"k", 1, b"v", 0),
        lies.record(0, count - 2, 1, b"k", 1, b"v", 0),
    ):
        with pytest.raises(InvalidRecord):
            validate_produced(many(count, bad), ProduceRules(), now_ms=NOW_MS)


@pytest.mark.parametrize("step_ms", [0, 1, -1, 63, 64, 8_191, 8_192, -8_193, 40_000_000])
def test_maximum_timestamp_is_found_for_any_delta_length(step_ms: int) -> None:
    records = [Record(0, NOW_MS + step_ms * index, b"k", b"v") for index in range(50)]
    data = build_batch(records, max_timestamp=5)
    rules = ProduceRules(timestamp_after_max_ms=2**63 - 1)

    batch = validate_produced(memoryview(data), rules, now_ms=NOW_MS)

    assert batch.max_timestamp == max(record.timestamp for record in records)
    assert batch.check_crc()


def test_every_flipped_bit_under_the_checksum_is_detected() -> None:
    data = build_batch(honest(NOW_MS), compression=Compression.SNAPPY)
    for position in range(17, len(data)):
        data[position] ^= 1
        with pytest.raises(CorruptMessage):
            validate_produced(memoryview(data), ProduceRules(), now_ms=NOW_MS)
        data[position] ^= 1


def test_every_truncation_is_refused() -> None:
    for compression in Compression:
        data = build_batch(honest(NOW_MS), compression=compression)
        for end in range(len(data)):
            with pytest.raises(KafkaError):
                validate_produced(memoryview(data)[:end], ProduceRules(), now_ms=NOW_MS)


@pytest.mark.parametrize("codec", [codec for codec in Compression if codec])
def test_decompression_bomb_is_refused(codec: Compression) -> None:
    """How little memory that takes is measured in test_compression.py."""
    data = build_batch([Record(0, NOW_MS, b"k", bytes(4 << 20))], compression=codec)

    with pytest.raises(InvalidRecord, match=r"bytes when decompressed|with a bound of"):
        validate_produced(memoryview(data), ProduceRules(max_decompressed_bytes=(4 << 20)), now_ms=NOW_MS)
    assert validate_produced(memoryview(data), ProduceRules(max_decompressed_bytes=(4 << 20) + 40), now_ms=NOW_MS).size == len(data)


def test_bomb_of_10_gigabytes_is_refused_by_default() -> None:
    blocks = (10 << 30 >> 17) - 1
    bomb = b"\x28\xb5\x2f\xfd\x00\x38" + b"\x02\x00\x10\x00" * blocks + b"\x03\x00\x10\x00"
    data = bytearray(lies.with_payload(bomb, 1, Compression.ZSTD)(NOW_MS))

    with pytest.raises(InvalidRecord, match="more than"):
        validate_produced(memoryview(data), ProduceRules(), now_ms=NOW_MS)
