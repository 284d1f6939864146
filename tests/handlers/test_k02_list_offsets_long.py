"""Look-ups by timestamp in batches that take more than one turn of the loop."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from minibroker.errors import KafkaError, UnknownTopicOrPartition
from minibroker.log.timestamps import HEADERS_AT_ONCE
from minibroker.records import compression, time_walk
from minibroker.records.builder import build_batch
from minibroker.records.compression import Compression
from minibroker.records.record import Record
from minibroker.records.steps import finished
from minibroker.records.time_walk import first_in_steps, largest_in_steps
from minibroker.records.validate import AT_ONCE_CONTENT, AT_ONCE_RECORDS
from minibroker.schemas import k02_list_offsets as schema
from tests.support.broker_in_memory import BrokerInMemory, Pending
from tests.support.slice_turns import SliceTurns
from tests.support.soak import times

LONG = AT_ONCE_RECORDS + 3000
MAX_TIMESTAMP = -3


@pytest.fixture
def broker() -> Iterator[BrokerInMemory]:
    broker = BrokerInMemory(topics={"orders": 2})
    broker.cluster.configs.alter_topic("orders", {"max.message.bytes": "100000000"})
    yield broker
    broker.cluster.close()


@pytest.fixture
def turns(broker: BrokerInMemory) -> SliceTurns:
    return SliceTurns(broker)


def append(broker: BrokerInMemory, times: list[int], kind: Compression = Compression.NONE, *, size: int = 0) -> None:
    records = [Record(0, broker.clock.now_ms() + time, b"k", bytes(size)) for time in times]
    log = broker.cluster.partition("orders", 0).log
    log.append_validated(finished(log.validate_in_steps(memoryview(build_batch(records, compression=kind)))))


def begin(broker: BrokerInMemory, *timestamps: int) -> Pending:
    partitions = [schema.Partition(partition_index=index, timestamp=timestamp) for index, timestamp in enumerate(timestamps)]
    return broker.begin(schema.Request(replica_id=-1, topics=[schema.Topic(name="orders", partitions=partitions)]), 8)


def found(pending: Pending) -> list[tuple[int, int, int]]:
    return [(each.error_code, each.timestamp, each.offset) for topic in pending.answer().topics for each in topic.partitions]


@pytest.mark.parametrize("kind", list(Compression))
def test_late_record_of_a_long_batch_is_found_in_slices(broker: BrokerInMemory, turns: SliceTurns, kind: Compression) -> None:
    append(broker, list(range(LONG)), kind)
    start_ms = broker.clock.now_ms()
    early = begin(broker, start_ms + 20)
    late = begin(broker, start_ms + LONG - 1, start_ms)
    absent = begin(broker, start_ms + LONG)
    assert early.is_done
    assert not late.is_done
    assert absent.is_done  # no batch is that late
    assert turns.until_done(late) >= LONG // 1024

    assert found(early) == [(0, start_ms + 20, 20)]
    assert found(late) == [(0, start_ms + LONG - 1, LONG - 1), (0, -1, -1)]
    assert found(absent) == [(0, -1, -1)]


@pytest.mark.parametrize("kind", list(Compression)[1:])
def test_large_batch_is_walked_in_slices(broker: BrokerInMemory, turns: SliceTurns, kind: Compression) -> None:
    append(broker, [0, 1, 2], kind, size=AT_ONCE_CONTENT)
    pending = begin(broker, broker.clock.now_ms() + 1)
    assert not pending.is_done
    turns.until_done(pending)
    assert found(pending) == [(0, broker.clock.now_ms() + 1, 1)]


def test_lookup_continues_after_a_long_batch(broker: BrokerInMemory, turns: SliceTurns) -> None:
    append(broker, [5, *[0] * LONG], Compression.LZ4)
    append(broker, [0, 5])
    log = broker.cluster.partition("orders", 0)
    log.advance_log_start_offset(1)
    for timestamp in (broker.clock.now_ms() + 5, MAX_TIMESTAMP):
        pending = begin(broker, timestamp)
        turns.until_done(pending)
        assert found(pending) == [(0, broker.clock.now_ms() + 5, LONG + 2)]


@pytest.mark.parametrize(
    ("batches", "start", "expected"),
    [
        ([[9, *[1] * LONG], [3], [2]], 1, LONG + 1),
        ([[9, *[1] * LONG, 7], [3], [2]], 1, LONG + 1),
        ([[9, *[1] * LONG, 3], [3], [2]], 1, LONG + 1),
        ([[9, *[1] * LONG], [1], [0]], 1, 1),
        ([[4], [9, *[1] * LONG, 9]], 1, 1),
        ([[4], [9, *[1] * LONG, 9]], 2, LONG + 2),
    ],
)
def test_the_largest_timestamp_after_records_were_deleted(
    broker: BrokerInMemory, turns: SliceTurns, batches: list[list[int]], start: int, expected: int
) -> None:
    for each in batches:
        append(broker, each, Compression.GZIP)
    broker.cluster.partition("orders", 0).advance_log_start_offset(start)
    pending = begin(broker, MAX_TIMESTAMP)
    turns.until_done(pending)

    times = [time for batch in batches for time in batch]
    assert found(pending) == [(0, broker.clock.now_ms() + times[expected], expected)]
    assert times[expected] == max(times[start:])


def test_many_headers_are_read_in_slices(broker: BrokerInMemory, turns: SliceTurns) -> None:
    """The index leads to a record that was deleted: only the headers of the other batches can tell where to look."""
    append(broker, [5])
    for _ in range(2 * HEADERS_AT_ONCE):
        append(broker, [1])
    append(broker, [3, 4])
    broker.cluster.partition("orders", 0).advance_log_start_offset(1)
    start_ms, last = broker.clock.now_ms(), 2 * HEADERS_AT_ONCE + 2
    for timestamp in (start_ms + 4, MAX_TIMESTAMP):
        pending = begin(broker, timestamp)
        assert not pending.is_done
        assert turns.until_done(pending) >= 2
        assert found(pending) == [(0, start_ms + 4, last)]
    broker.cluster.partition("orders", 0).advance_log_start_offset(last - 1)
    assert found(begin(broker, MAX_TIMESTAMP)) == [(0, start_ms + 4, last)]


def test_many_headers_between_two_entries_of_the_index(broker: BrokerInMemory, turns: SliceTurns) -> None:
    """Of a large index.interval.bytes, or of Apache Kafka before 4: each turn starts before the headers that an earlier one looked at."""
    broker.cluster.partition("orders", 0).log.segments.active.index_interval_bytes = 1 << 30
    count = 3 * HEADERS_AT_ONCE
    for time in range(count):
        append(broker, [time])
    for time in (HEADERS_AT_ONCE - 1, HEADERS_AT_ONCE, HEADERS_AT_ONCE + 1, count - 1):
        pending = begin(broker, broker.clock.now_ms() + time)
        for _ in range(20):
            turns.turn()
        assert pending.is_done
        assert found(pending) == [(0, broker.clock.now_ms() + time, time)]


def test_only_two_batches_are_decoded(broker: BrokerInMemory, monkeypatch: pytest.MonkeyPatch) -> None:
    for time in range(40):
        append(broker, [time] * 3, Compression.LZ4)
    broker.cluster.partition("orders", 0).advance_log_start_offset(1)
    walked = 0
    real = compression.decompress

    def counting(*given: object, **more: object) -> bytes:
        nonlocal walked
        walked += 1
        content: bytes = real(*given, **more)  # type: ignore[arg-type]
        return content

    monkeypatch.setattr(time_walk, "decompress", counting)
    assert found(begin(broker, MAX_TIMESTAMP)) == [(0, broker.clock.now_ms() + 39, 117)]
    assert walked <= 2


def test_topic_deleted_meanwhile(broker: BrokerInMemory, turns: SliceTurns) -> None:
    append(broker, list(range(LONG)))
    code: type[KafkaError] = UnknownTopicOrPartition
    pending = begin(broker, broker.clock.now_ms() + LONG - 1)
    broker.cluster.delete_topic("orders")
    turns.until_done(pending)
    assert found(pending) == [(code.code, -1, -1)]


@pytest.mark.parametrize("kind", list(Compression))
@pytest.mark.parametrize("seed", range(times(8, soak=40)))
def test_stepwise_lookup_matches_a_search(kind: Compression, seed: int) -> None:
    chance = random.Random(seed)
    offsets = sorted(chance.sample(range(10_000, 20_000), chance.choice([1, 5, 700, 3000])))
    sizes = [0, 3, 70, 9_000] if len(offsets) < 100 else [0, 3]
    records = [Record(offset, 1000 + chance.randrange(-50, 1 << 20), None, bytes(chance.choice(sizes))) for offset in offsets]
    data = bytes(build_batch(records, base_offset=10_000, keep_offsets=True, compression=kind))
    for _ in range(20):
        timestamp, start = 1000 + chance.randrange(-60, 1 << 20), chance.randrange(9_990, 20_010)
        later = [(each.timestamp, each.offset) for each in records if each.offset >= start]
        expected = next((each for each in later if each[0] >= timestamp), None)
        assert finished(first_in_steps(data, timestamp, start)) == expected
        assert finished(largest_in_steps(data, start)) == max(later, key=lambda each: each[0], default=None)
