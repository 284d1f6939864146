"""Validation in steps is validation at once, and a step is short; the tables of Kafka's answers are those of test_validate.py."""

from __future__ import annotations

import gc
import random
import tracemalloc
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minibroker.errors import BY_CODE, InvalidRecord, InvalidTimestamp, KafkaError, MessageTooLarge
from minibroker.records import long_batch
from minibroker.records.any_format import decode_records
from minibroker.records.batch import RecordBatch, TimestampType
from minibroker.records.builder import build_batch, frame_batch
from minibroker.records.compression import Compression, compress
from minibroker.records.legacy import build_message_set
from minibroker.records.long_batch import MAX_RATIO, SMALL_CONTENT, STEP_RECORDS, LongWalk, content_max, validate_in_steps
from minibroker.records.record import Record, encode_record
from minibroker.records.steps import LongBatch, finished
from minibroker.records.validate import (
    AT_ONCE_COMPRESSED,
    AT_ONCE_CONTENT,
    AT_ONCE_RECORDS,
    MAX_RECORD_ERRORS,
    ProduceRules,
    validate_at_once,
)
from minibroker.records.walk import walk_records
from tests.records.lies import LIES
from tests.records.test_validate import NOT_CHECKED_HERE, NOW_MS, OBSERVED, RULES, expected_code, stored
from tests.support.opcodes import count_opcodes
from tests.support.payload_attacks import tiny_records
from tests.support.soak import examples

UNTIMED = ProduceRules(timestamp_before_max_ms=1 << 62, timestamp_after_max_ms=1 << 62, max_message_bytes=1 << 30)
MIB = 1024 * 1024
LONG = AT_ONCE_RECORDS + 1000


def tiny_batch(count: int, kind: Compression = Compression.NONE) -> bytearray:
    return frame_batch(compress(kind, tiny_records(count)), kind, 0, count - 1, NOW_MS, NOW_MS, -1, -1, -1, count)


def some(count: int, **fields: Any) -> list[Record]:
    return [Record(0, NOW_MS + number % 7, b"key %d" % number, b"value", **fields) for number in range(count)]


def steps_of(
    data: bytes | bytearray, rules: ProduceRules = UNTIMED, version: int | None = None
) -> tuple[RecordBatch | KafkaError, int, int]:
    """The outcome, how many steps there were, and the most instructions that one of them took."""
    steps = validate_in_steps(memoryview(bytearray(data)), rules, now_ms=lambda: NOW_MS, produce_version=version)
    sent: Any = None
    outcome: list[RecordBatch | KafkaError] = []
    count = most = 0

    def step() -> None:
        nonlocal sent
        try:
            sent = steps.send(sent)
        except StopIteration as end:
            outcome.append(end.value)
        except KafkaError as error:
            outcome.append(error)

    while not outcome:
        count += 1
        most = max(most, count_opcodes(step))
        if callable(sent):
            try:
                sent = sent()
            except KafkaError as error:
                outcome.append(error)
    return outcome[0], count, most


@pytest.mark.parametrize("name", sorted(set(LIES) - NOT_CHECKED_HERE))
def test_validation_in_steps_matches_apache_kafka(name: str) -> None:
    lie, code = LIES[name], expected_code(name)
    data = memoryview(bytearray(lie.data(NOW_MS)))
    steps = validate_in_steps(data, RULES[lie.kind], now_ms=lambda: NOW_MS, produce_version=lie.version)
    if code:
        with pytest.raises(BY_CODE[code]) as caught:
            finished(steps)
        assert ",".join(str(index) for index, _ in caught.value.record_errors) == OBSERVED[name]["record_errors"]
    else:
        expected = "attributes=8 count=1 max=now+0 crc=right" if lie.kind == "append-time" else OBSERVED[name]["stored"]
        assert stored(finished(steps)) == expected


@pytest.mark.parametrize("kind", list(Compression))
def test_many_records_raise_long_batch(kind: Compression) -> None:
    data = memoryview(tiny_batch(LONG, kind))
    with pytest.raises(LongBatch):
        validate_at_once(data, UNTIMED, now_ms=NOW_MS)
    validate_at_once(memoryview(tiny_batch(AT_ONCE_RECORDS, kind)), UNTIMED, now_ms=NOW_MS)


@pytest.mark.parametrize("kind", list(Compression)[1:])
def test_large_content_raises_long_batch(kind: Compression) -> None:
    data = build_batch([Record(0, NOW_MS, None, bytes(AT_ONCE_CONTENT))], compression=kind)
    with pytest.raises(LongBatch):
        validate_at_once(memoryview(data), UNTIMED, now_ms=NOW_MS)
    assert isinstance(steps_of(data)[0], RecordBatch)


def test_large_payload_to_recompress_raises_long_batch() -> None:
    rules = UNTIMED._replace(compression=Compression.GZIP)
    data = build_batch([Record(0, NOW_MS, None, bytes(AT_ONCE_COMPRESSED))])
    with pytest.raises(LongBatch):
        validate_at_once(memoryview(bytearray(data)), rules, now_ms=NOW_MS)
    outcome, _, _ = steps_of(data, rules)
    assert isinstance(outcome, RecordBatch)
    assert outcome.compression is Compression.GZIP


@pytest.mark.parametrize("kind", list(Compression))
@pytest.mark.parametrize("rules", [UNTIMED, UNTIMED._replace(deep=True)], ids=["usual", "deep"])
def test_steps_are_short(kind: Compression, rules: ProduceRules) -> None:
    short, _, _ = steps_of(tiny_batch(STEP_RECORDS, kind), rules)
    outcome, count, most = steps_of(tiny_batch(20 * STEP_RECORDS, kind), rules)

    assert isinstance(short, RecordBatch)
    assert isinstance(outcome, RecordBatch)
    assert count >= 20
    assert most < 200 * STEP_RECORDS


@pytest.mark.parametrize("kind", list(Compression))
@pytest.mark.parametrize("magic", [0, 1])
def test_steps_of_old_formats_are_short(magic: int, kind: Compression) -> None:
    if kind is Compression.ZSTD:
        return
    old = build_message_set(some(3_000), magic, compression=kind)
    outcome, count, most = steps_of(old, version=2)

    assert isinstance(outcome, RecordBatch)
    assert [(record.key, record.value) for record in decode_records(outcome)] == [(record.key, record.value) for record in some(3_000)]
    assert count > 50
    assert most < 100_000


def peak_bytes_of(data: bytes | bytearray, rules: ProduceRules, version: int | None = None) -> int:
    view = memoryview(bytearray(data))
    gc.collect()
    tracemalloc.start()
    try:
        finished(validate_in_steps(view, rules, now_ms=lambda: NOW_MS, produce_version=version))
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("kind", [Compression.GZIP, Compression.SNAPPY, Compression.LZ4])
def test_large_content_is_not_held_in_memory(kind: Compression) -> None:
    data = build_batch([Record(0, NOW_MS, b"key", bytes(32 * MIB))], compression=kind)
    assert peak_bytes_of(data, UNTIMED) < 6 * MIB
    assert peak_bytes_of(data, UNTIMED._replace(is_compacted=True)) < 6 * MIB


def test_old_messages_are_not_kept_as_objects() -> None:
    old = build_message_set([Record(0, NOW_MS, b"", b"")] * 50_000, 1)
    assert peak_bytes_of(old, UNTIMED, version=2) < 3 * MIB


def test_small_payloads_have_a_lower_content_limit() -> None:
    assert content_max(100, UNTIMED) == SMALL_CONTENT
    assert content_max(50_000, UNTIMED) == 50_000 * MAX_RATIO
    assert content_max(50_000_000, UNTIMED) == UNTIMED.max_decompressed_bytes
    data = build_batch([Record(0, NOW_MS, None, bytes(SMALL_CONTENT))], compression=Compression.ZSTD)
    outcome, _, _ = steps_of(data)
    assert isinstance(outcome, InvalidRecord)
    assert f"more than {SMALL_CONTENT} bytes" in str(outcome)


@pytest.mark.parametrize("version", [None, 2])
def test_record_errors_are_limited(version: int | None) -> None:
    rules = UNTIMED._replace(timestamp_before_max_ms=1000)
    late = [Record(0, NOW_MS - 2000, None, b"")] * (MAX_RECORD_ERRORS + 5)
    data = build_batch(late) if version is None else build_message_set(late, 1, compression=Compression.GZIP)
    outcome, _, _ = steps_of(data, rules, version)

    assert isinstance(outcome, InvalidTimestamp)
    assert [index for index, _ in outcome.record_errors] == list(range(MAX_RECORD_ERRORS))


def test_null_keys_in_a_long_batch_of_a_compacted_topic() -> None:
    records = some(LONG)
    records[-1] = records[-1]._replace(key=None)
    outcome, _, _ = steps_of(build_batch(records, compression=Compression.LZ4), UNTIMED._replace(is_compacted=True))

    assert isinstance(outcome, InvalidRecord)
    assert [index for index, _ in outcome.record_errors] == [LONG - 1]


@pytest.mark.parametrize("source", list(Compression))
@pytest.mark.parametrize("target", list(Compression))
def test_recompression_in_steps(source: Compression, target: Compression) -> None:
    rules = UNTIMED._replace(compression=target, timestamp_type=TimestampType.LOG_APPEND_TIME)
    data = build_batch(some(LONG), compression=source)
    outcome, _, _ = steps_of(data, rules)

    assert isinstance(outcome, RecordBatch)
    assert outcome.compression is target
    assert outcome.check_crc()
    assert outcome.max_timestamp == NOW_MS
    assert [(record.key, record.value) for record in decode_records(outcome)] == [(record.key, record.value) for record in some(LONG)]


def test_batch_too_large_after_recompression_is_refused() -> None:
    data = tiny_batch(LONG, Compression.ZSTD)
    outcome, _, _ = steps_of(data, UNTIMED._replace(compression=Compression.NONE, max_message_bytes=len(data) + 10))
    assert isinstance(outcome, MessageTooLarge)


def walked(pieces: list[bytes], record_count: int, *, deep: bool) -> tuple[int, int, bool] | None:
    walk = LongWalk(record_count, deep=deep)
    try:
        for piece in pieces:
            for _ in walk.walk(piece):
                pass
        walk.finish()
    except InvalidRecord:
        return None
    return *walk.extremes, walk.keyless


def walked_at_once(payload: bytes, record_count: int, *, deep: bool) -> tuple[int, int, bool] | None:
    try:
        return walk_records(payload, record_count, deep=deep)
    except InvalidRecord:
        return None


RECORDS = st.builds(
    Record,
    offset=st.just(0),
    timestamp=st.one_of(st.integers(-2, 300), st.integers(-(1 << 40), 1 << 40)),
    key=st.one_of(st.none(), st.binary(max_size=5), st.just(bytes(300))),
    value=st.one_of(st.none(), st.binary(max_size=90), st.just(bytes(20_000))),
    headers=st.lists(st.tuples(st.text(max_size=3), st.one_of(st.none(), st.binary(max_size=4))), max_size=2).map(tuple),
)


@examples(300)
@given(st.lists(RECORDS, min_size=1, max_size=80), st.randoms(use_true_random=False), st.integers(0, 3), st.booleans(), st.data())
def test_walk_in_pieces_equals_the_walk_at_once(
    records: list[Record], chance: random.Random, flips: int, deep: bool, data: st.DataObject
) -> None:
    payload = bytearray()
    for index, record in enumerate(records):
        encode_record(payload, record, index, record.timestamp)
    for _ in range(flips):
        payload[chance.randrange(len(payload))] = chance.randrange(256)
    if data.draw(st.booleans()):
        del payload[chance.randrange(len(payload)) :]
    cuts = sorted({0, len(payload), *(chance.randrange(len(payload) + 1) for _ in range(chance.randrange(9)))})
    pieces = [bytes(payload[first:last]) for first, last in pairwise(cuts)]
    count = len(records) + data.draw(st.sampled_from([0, 0, 0, 1, -1]))
    if count > 0:
        assert walked(pieces, count, deep=deep) == walked_at_once(bytes(payload), count, deep=deep)


def test_deep_walk_buffers_a_limited_part_of_a_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_batch, "DEEP_BYTES", 1000)
    for key in (b"key", None):
        payload = bytearray()
        encode_record(payload, Record(0, 0, key, bytes(5000)), 0, 0)
        pieces = [bytes(payload[start : start + 700]) for start in range(0, len(payload), 700)]
        assert walked(pieces, 1, deep=True) == (0, 0, key is None)
        short = bytearray()
        encode_record(short, Record(0, 0, key, bytes(900)), 0, 0)
        short[-1] = 9  # headers where the record ends
        pieces = [bytes(short[start : start + 100]) for start in range(0, len(short), 100)]
        assert walked(pieces, 1, deep=True) is None


def test_offset_deltas_of_every_length() -> None:
    records = 1 << 20 | 5
    payload = tiny_records(records)
    assert walked([payload], records, deep=False) == (0, 0, False)
    spoilt = bytearray(payload)
    spoilt[-4] ^= 1  # the last byte of the last offset delta
    assert walked([bytes(spoilt)], records, deep=False) is None
