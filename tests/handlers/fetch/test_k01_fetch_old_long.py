"""Old clients read batches that take more than one turn of the loop to convert."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Iterator

import pytest

from minibroker.errors import CorruptMessage, KafkaError, OffsetOutOfRange
from minibroker.log.old_readers import CONVERTED_BYTES, CONVERTED_COUNT
from minibroker.records.any_format import decode_records, split_batches
from minibroker.records.builder import build_batch
from minibroker.records.compression import Compression
from minibroker.records.record import Record
from minibroker.records.steps import finished
from minibroker.schemas import k01_fetch as schema
from tests.support.broker_in_memory import BrokerInMemory, Pending
from tests.support.slice_turns import SliceTurns

CODECS = [Compression.NONE, Compression.GZIP, Compression.SNAPPY, Compression.LZ4]
LONG = 3 * CONVERTED_COUNT + 10
MIB = 1024 * 1024


@pytest.fixture
def broker() -> Iterator[BrokerInMemory]:
    broker = BrokerInMemory(topics={"orders": 2})
    broker.cluster.configs.alter_topic("orders", {"max.message.bytes": "100000000"})
    yield broker
    broker.cluster.close()


@pytest.fixture
def turns(broker: BrokerInMemory) -> SliceTurns:
    return SliceTurns(broker)


def some(broker: BrokerInMemory, count: int, size: int = 3) -> list[Record]:
    return [Record(number, broker.clock.now_ms() + number % 9, b"k%d" % number, bytes(size)) for number in range(count)]


def append(broker: BrokerInMemory, records: list[Record], kind: Compression, index: int = 0) -> None:
    log = broker.cluster.partition("orders", index).log
    log.append_validated(finished(log.validate_in_steps(memoryview(build_batch(records, compression=kind)))))


def begin(broker: BrokerInMemory, offset: int, version: int, *, wait_ms: int = 0, indexes: tuple[int, ...] = (0,)) -> Pending:
    partitions = [schema.Partition(partition=index, fetch_offset=offset, partition_max_bytes=MIB) for index in indexes]
    topics = [schema.Topic(topic="orders", partitions=partitions)]
    return broker.begin(schema.Request(max_wait_ms=wait_ms, min_bytes=1, max_bytes=MIB, topics=topics), version)


def results(pending: Pending) -> list[schema.PartitionResult]:
    return [result for topic in pending.answer().responses for result in topic.partitions]


def records_in(result: schema.PartitionResult) -> list[Record]:
    return [record for batch in split_batches(result.records or b"") for record in decode_records(batch)]


@pytest.mark.parametrize("kind", CODECS)
@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_long_batch_is_read_in_parts(broker: BrokerInMemory, turns: SliceTurns, kind: Compression, version: int) -> None:
    written = some(broker, LONG)
    append(broker, written, kind)
    append(broker, [Record(0, broker.clock.now_ms(), b"next", b"")], kind)
    read: list[Record] = []
    while len(read) < LONG:
        pending = begin(broker, len(read), version)
        assert not pending.is_done
        turns.until_done(pending)
        (result,) = results(pending)
        found = records_in(result)
        assert 0 < len(found) <= CONVERTED_COUNT
        read += found
    has_timestamps = version >= 2
    assert read == [each if has_timestamps else each._replace(timestamp=-1) for each in written]
    assert [record.key for record in records_in(results(begin(broker, LONG, version))[0])] == [b"next"]


@pytest.mark.parametrize("kind", CODECS[1:])
def test_converting_large_content_uses_little_memory(broker: BrokerInMemory, kind: Compression) -> None:
    append(broker, some(broker, 64, MIB // 2), kind)
    begin(broker, 0, 3)
    gc.collect()
    tracemalloc.start()
    try:
        (result,) = results(begin(broker, 10, 3))
        assert tracemalloc.get_traced_memory()[1] < 12 * MIB
    finally:
        tracemalloc.stop()
    assert [record.offset for record in records_in(result)] == [10]
    assert len(result.records or b"") > CONVERTED_BYTES


def test_each_partition_returns_a_part(broker: BrokerInMemory, turns: SliceTurns) -> None:
    for index in (0, 1):
        append(broker, some(broker, LONG), Compression.GZIP, index)
    pending = begin(broker, 5, 2, indexes=(0, 1))
    turns.until_done(pending)
    assert [records_in(result)[0].offset for result in results(pending)] == [5, 5]


def test_waiting_request_is_answered_empty_before_conversion(broker: BrokerInMemory, turns: SliceTurns) -> None:
    pending = begin(broker, 0, 2, wait_ms=1000)
    assert not pending.is_done
    append(broker, some(broker, LONG), Compression.LZ4)
    broker.cluster.partition("orders", 0).wake()
    turns.until_done(pending)
    (result,) = results(pending)
    assert (result.error_code, result.high_watermark, bytes(result.records or b"")) == (0, LONG, b"")


def test_a_damaged_batch(broker: BrokerInMemory, turns: SliceTurns) -> None:
    append(broker, some(broker, LONG), Compression.NONE)
    path = broker.folder / "orders-0" / f"{0:020}.log"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    pending = begin(broker, 0, 2)
    turns.until_done(pending)
    code: type[KafkaError] = CorruptMessage
    assert [result.error_code for result in results(pending)] == [code.code]


@pytest.mark.parametrize(("count", "kind"), [(LONG, Compression.NONE), (LONG, Compression.LZ4), (4, Compression.LZ4)])
def test_queued_readers_hold_no_batch(broker: BrokerInMemory, turns: SliceTurns, count: int, kind: Compression) -> None:
    size = 8 * MIB
    append(broker, some(broker, count, size=size // count), kind)
    append(broker, some(broker, LONG), Compression.NONE, index=1)
    turns.until_done(begin(broker, 0, 1))  # what is made once
    first = begin(broker, 0, 1, indexes=(1,))
    gc.collect()
    tracemalloc.start()
    try:
        readers = [begin(broker, 0, 1) for _ in range(20)]
        gc.collect()
        kept = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert not any(each.is_done for each in (first, *readers))
    assert kept < size
    for each in readers:
        turns.until_done(each)
        assert records_in(results(each)[0])


def test_records_deleted_while_a_reader_is_queued(broker: BrokerInMemory, turns: SliceTurns) -> None:
    append(broker, some(broker, LONG), Compression.NONE)
    first, second = begin(broker, 0, 1), begin(broker, 0, 1)
    broker.cluster.partition("orders", 0).advance_log_start_offset(LONG)
    turns.until_done(first)
    turns.until_done(second)
    assert results(second)[0].error_code == OffsetOutOfRange.code
