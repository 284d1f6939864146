"""Logs at random, cut in every way, against a model that goes from offset to offset."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import pytest

pytest.importorskip("numpy")
pytest.importorskip("pyarrow")

from hypothesis import given
from hypothesis import strategies as st

from minibroker.errors import CorruptLogError
from minibroker.records.builder import build_batch
from minibroker.records.compression import Compression
from minibroker.records.control import ControlType, EndTransactionMarker, build_end_transaction_batch
from minibroker.records.legacy import build_message_set
from minibroker.records.record import Record
from minibroker.schemas import k01_fetch
from minibroker.spark.kafka_log.options import AbortedRange
from minibroker.spark.report.counting import Counter, CountLimits
from minibroker.spark.report.pieces import Chunk, IsAborted, nothing_aborted, read_chunk
from minibroker.spark.report.reading import aborted_by_ranges, aborted_in_fetch
from minibroker.spark.report.runs import NO_BUCKET, RangeSummary, cell_size, decode, encode, joined
from tests.spark.report.models import DAY_MS, HOUR_MS, Kept, Model, hidden_for

NOW = 1_763_800_000_000
CODECS = [Compression.NONE, Compression.LZ4, Compression.ZSTD]


class Log(NamedTuple):
    """Batches, and what they mean to a committed reader."""

    batches: list[tuple[int, int, bytes]]  #: base offset, offset behind it, bytes
    model: Model
    aborted: list[AbortedRange]
    codecs: dict[int, int]


def random_log(seed: int, batch_count: int) -> Log:
    """Transactions of three producers between plain batches, with holes as compaction leaves them."""
    rng = random.Random(seed)
    offset = start = rng.choice([0, 0, 5, 1 << 40])
    model, batches, aborted = Model(start), [], []
    codecs: dict[int, int] = {}
    ongoing: dict[int, list[int]] = {}

    def add(data: bytes, end: int, codec: int = 0) -> None:
        nonlocal offset
        batches.append((offset, end, data))
        codecs[codec] = codecs.get(codec, 0) + 1
        offset = end

    for _ in range(batch_count):
        if rng.random() < 0.15:
            offset += rng.randint(1, 6)  # whole batches are gone
        if ongoing and rng.random() < 0.4:
            producer_id = rng.choice(list(ongoing))
            offsets = ongoing.pop(producer_id)
            ends = rng.choice([ControlType.COMMIT, ControlType.ABORT])
            if ends is ControlType.ABORT and offsets:
                aborted.append(AbortedRange(producer_id, offsets[0], offset))
                for each in offsets:
                    model.records.pop(each, None)
                    model.hidden[each] = "aborted"
            model.hidden[offset] = "control"
            marker = EndTransactionMarker(ends, 0)
            add(
                bytes(build_end_transaction_batch(marker, timestamp=NOW, producer_id=producer_id, producer_epoch=0, base_offset=offset)),
                offset + 1,
            )
            continue
        size = rng.randint(1, 9)
        kept = sorted(rng.sample(range(size), rng.randint(0, size) if rng.random() < 0.3 else size))
        records = {offset + delta: random_record(rng) for delta in kept}
        producer_id = rng.choice([-1, -1, 7, 8, 9])
        options: dict[str, int | bool] = {}
        if producer_id >= 0:
            options = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": 0, "is_transactional": True}
            ongoing.setdefault(producer_id, []).extend(range(offset, offset + size))
        codec = rng.choice(CODECS)
        data = build_batch(
            [Record(at, each.timestamp, each.key, each.value, each.headers) for at, each in records.items()],
            base_offset=offset,
            keep_offsets=True,
            last_offset_delta=size - 1,
            compression=codec,
            **options,  # type: ignore[arg-type]  # each fits its parameter
        )
        model.records |= records
        add(bytes(data), offset + size, int(codec))
    for producer_id, offsets in ongoing.items():  # the end of all, so that the whole log is decided
        model.hidden[offset] = "control"
        for each in offsets:
            model.records.pop(each, None)
            model.hidden[each] = "aborted"
        aborted.append(AbortedRange(producer_id, offsets[0], offset))
        marker = EndTransactionMarker(ControlType.ABORT, 0)
        add(
            bytes(build_end_transaction_batch(marker, timestamp=NOW, producer_id=producer_id, producer_epoch=0, base_offset=offset)),
            offset + 1,
        )
    model.end = offset
    return Log(batches, model, aborted, codecs)


def random_record(rng: random.Random) -> Kept:
    timestamp = rng.choice([-1, NOW, NOW - rng.randrange(40) * DAY_MS, rng.randrange(NOW)])
    headers = tuple((rng.choice(["a", "\u00fc", "name"]), rng.choice([None, b"", b"value"])) for _ in range(rng.choice([0, 0, 0, 1, 3])))
    return Kept(timestamp, rng.choice([None, b"", b"k" * rng.randrange(300)]), rng.choice([None, b"", b"v" * rng.randrange(300)]), headers)


def limits_of(start: int, end: int, *, bucket_ms: int = DAY_MS, gap_limit: int = 4) -> CountLimits:
    return CountLimits(start, end, bucket_ms, gap_limit, cell_size(end - start))


def chunks(rng: random.Random, batches: Sequence[tuple[int, int, bytes]]) -> Iterator[list[tuple[int, int, bytes]]]:
    left = list(batches)
    while left:
        count = rng.randint(1, 5)
        yield left[:count]
        left = left[count:]


def count(counter: Counter, data: bytes, is_aborted: IsAborted, start: int, end: int) -> None:
    while data:
        read = read_chunk(Chunk(data, str, is_aborted, start, end))
        assert read.size
        for piece in read.pieces:
            counter.add(piece)
        data = data[read.size :]


def as_fetched(rng: random.Random, log: Log, limits: CountLimits, start: int, end: int) -> RangeSummary:
    """As a leader sends it: each answer begins with the batch of the offset asked for, and lists what was aborted in it."""
    counter = Counter(limits, start, end)
    batches = [each for each in log.batches if each[1] > start and each[0] < end]
    for answer in chunks(rng, batches):
        first, last = answer[0][0], answer[-1][1] - 1
        listed = [each for each in log.aborted if each.last_offset >= max(first, start) and each.first_offset <= last]
        aborted = [k01_fetch.AbortedTransaction(producer_id=each.producer_id, first_offset=each.first_offset) for each in listed]
        rng.shuffle(aborted)
        count(counter, b"".join(data for _, _, data in answer), aborted_in_fetch(aborted), start, end)
    return counter.summary()


def as_read(rng: random.Random, log: Log, limits: CountLimits, batches: Sequence[tuple[int, int, bytes]]) -> RangeSummary:
    counter = Counter(limits)
    for part in chunks(rng, batches):
        count(counter, b"".join(data for _, _, data in part), aborted_by_ranges(log.aborted), limits.range_start, limits.range_end)
    return counter.summary()


def check(found: RangeSummary, model: Model, limits: CountLimits) -> None:
    reasons = model.reasons()
    assert (found.start_offset, found.end_offset) == (model.start, model.end)
    assert found.record_count == len(model.records)
    assert (found.key_bytes, found.value_bytes, found.header_bytes) == model.bytes()
    assert (found.control_count, found.aborted_count, found.absent_count) == (reasons["control"], reasons["aborted"], reasons["absent"])
    gap_count, gaps = found.all_gaps()
    assert gap_count == len(model.gaps())
    assert sorted(sorted(gaps, key=lambda gap: (-gap.size, gap.first_offset))[: limits.gap_limit]) == model.longest_gaps(limits.gap_limit)
    buckets = {None if bucket == NO_BUCKET else bucket: counts for bucket, counts in found.buckets.items()}
    assert buckets == model.buckets(limits.bucket_ms)
    assert list(found.record_cells) == model.cells(limits.cell_size, model.records)
    assert list(found.aborted_cells) == model.cells(limits.cell_size, hidden_for(model.hidden, "aborted"))
    times = model.times()
    assert found.first_timestamp == min((timestamp for timestamp, _ in times), default=-1)
    latest = max((timestamp for timestamp, _ in times), default=-1)
    assert (found.latest.timestamp, found.latest.offset) == (latest, next((offset for time, offset in times if time == latest), -1))


@given(seed=st.integers(0, 2**32), batch_count=st.integers(0, 40), gap_limit=st.sampled_from([0, 1, 3, 1000]), hourly=st.booleans())
def test_cut_in_every_way(seed: int, batch_count: int, gap_limit: int, hourly: bool) -> None:
    """Ranges of offsets from a leader, runs of batches from files: joined, they are what the model says, and so is any part."""
    rng = random.Random(seed)
    log = random_log(seed, batch_count)
    start, end = (
        sorted(rng.randint(log.model.start, log.model.end) for _ in range(2)) if rng.random() < 0.6 else (log.model.start, log.model.end)
    )
    limits = limits_of(start, end, bucket_ms=HOUR_MS if hourly else DAY_MS, gap_limit=gap_limit)
    model = log.model.within(start, end)

    cuts = [start, *sorted(rng.randint(start, end) for _ in range(rng.randint(0, 4))), end]
    parts = [as_fetched(rng, log, limits, low, high) for low, high in pairwise(cuts)]
    fetched = joined([decode(encode(each)) for each in rng.sample(parts, len(parts))], start, end, gap_limit=gap_limit)
    check(fetched, model, limits)

    indexes = sorted(rng.randint(0, len(log.batches)) for _ in range(rng.randint(0, 4)))
    runs = [log.batches[low:high] for low, high in zip([0, *indexes], [*indexes, len(log.batches)], strict=True)]
    read = joined([as_read(rng, log, limits, run) for run in runs], start, end, gap_limit=gap_limit)
    check(read, model, limits)

    touched = [each for each in log.batches if each[1] > start and each[0] < end and start < end]
    for found in (fetched, read):
        assert found.batch_count == len(touched)
        assert found.batch_bytes == sum(len(data) for _, _, data in touched)
    if (start, end) == (log.model.start, log.model.end):
        assert fetched.codecs == read.codecs == log.codecs


def test_uncommitted_readers_see_what_was_aborted() -> None:
    log = random_log(3, 40)
    limits = limits_of(log.model.start, log.model.end)
    counter = Counter(limits)
    count(counter, b"".join(data for _, _, data in log.batches), nothing_aborted, limits.range_start, limits.range_end)
    found = counter.summary()
    aborted = set(hidden_for(log.model.hidden, "aborted"))
    assert log.aborted
    assert found.aborted_count == 0
    assert found.record_count > len(log.model.records)
    assert found.record_count <= len(log.model.records) + len(aborted)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP])
def test_old_formats_before_new_ones(magic: int, codec: Compression) -> None:
    model = Model(0, 40)
    parts = []
    for first in (0, 7, 20):
        kept = {first + index: Kept(NOW + index if magic else -1, b"k" * index or None, b"v" * index) for index in range(7)}
        model.records |= kept
        records = [Record(offset, each.timestamp, each.key, each.value) for offset, each in kept.items()]
        parts.append(bytes(build_message_set(records, magic, compression=codec)))
    model.records |= {30 + index: Kept(NOW, b"k", b"v") for index in range(5)}
    parts.append(bytes(build_batch([Record(0, NOW, b"k", b"v")] * 5, base_offset=30)))
    limits = limits_of(0, 40)
    counter = Counter(limits)
    count(counter, b"".join(parts), nothing_aborted, 0, 40)
    found = joined([counter.summary()], 0, 40, gap_limit=4)
    check(found, model, limits)
    assert found.batch_bytes == sum(map(len, parts))


def test_log_append_time_is_the_batchs() -> None:
    data = bytes(build_batch([Record(0, 1, None, b"v"), Record(1, 2, None, b"v")], timestamp_type=1, max_timestamp=NOW))  # type: ignore[arg-type]  # an IntEnum's number
    counter = Counter(limits_of(0, 2))
    count(counter, data, nothing_aborted, 0, 2)
    assert (counter.summary().first_timestamp, counter.summary().latest.timestamp) == (NOW, NOW)


def flipped(data: bytes, position: int) -> bytes:
    return data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :]


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda first, second: first + flipped(second, len(second) - 1), "120: corrupt batch: its CRC is wrong"),
        (lambda first, second: second + first, "120: corrupt batch: its offsets do not follow"),
        (lambda first, second: first + b"\x00" * 8 + b"\xff" * 60, "^0: no batch starts there"),
    ],
)
def test_damage_is_told_with_its_place(damage: Callable[[bytes, bytes], bytes], words: str) -> None:
    first, second = (bytes(build_batch([Record(0, NOW, None, b"v" * 52)], base_offset=base)) for base in (0, 1))
    assert len(first) == 120
    with pytest.raises(CorruptLogError, match=words):
        count(Counter(limits_of(0, 9)), damage(first, second), nothing_aborted, 0, 9)
