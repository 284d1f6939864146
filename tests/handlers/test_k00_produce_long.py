"""Produce of batches that take more than one turn of the loop: what happens in between, and in which order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from minibroker.errors import InvalidRecord, KafkaError, OutOfOrderSequenceNumber, UnknownTopicOrPartition
from minibroker.records.batch import RecordBatch
from minibroker.records.builder import build_batch
from minibroker.records.compression import Compression
from minibroker.records.legacy import build_message_set
from minibroker.records.record import Record
from minibroker.records.validate import AT_ONCE_RECORDS
from minibroker.schemas import k00_produce as schema
from minibroker.schemas import k22_init_producer_id as k22
from tests.handlers.test_k00_produce_transactions import Producer
from tests.support.broker_in_memory import BrokerInMemory, Pending
from tests.support.slice_turns import SliceTurns

LONG = AT_ONCE_RECORDS + 2000


@pytest.fixture
def broker() -> Iterator[BrokerInMemory]:
    broker = BrokerInMemory(topics={"orders": 3}, config={"transaction.state.log.num.partitions": "1"})
    yield broker
    broker.cluster.close()


@pytest.fixture
def turns(broker: BrokerInMemory) -> SliceTurns:
    return SliceTurns(broker)


def long_batch(broker: BrokerInMemory, count: int = LONG, **options: Any) -> bytes:
    now_ms = broker.clock.now_ms()
    return bytes(build_batch([Record(0, now_ms, b"k", None)] * count, **options))


def request(*batches: tuple[int, bytes], acks: int = -1, **fields: Any) -> schema.Request:
    partitions = [schema.Partition(index=index, records=data) for index, data in batches]
    return schema.Request(acks=acks, timeout_ms=1000, topic_data=[schema.Topic(name="orders", partition_data=partitions)], **fields)


def begin(broker: BrokerInMemory, wanted: schema.Request, version: int = 12) -> Pending:
    return broker.begin(wanted, version)


def results_of(pending: Pending) -> list[schema.PartitionResult]:
    return [result for topic in pending.answer().responses for result in topic.partition_responses]


def end(broker: BrokerInMemory, index: int = 0) -> int:
    return broker.cluster.partition("orders", index).log.log_end_offset


def code_of(error: type[KafkaError]) -> int:
    return error.code


@pytest.mark.parametrize("kind", list(Compression))
@pytest.mark.parametrize("config", [{}, {"compression.type": "gzip"}, {"message.timestamp.type": "LogAppendTime"}], ids=str)
def test_other_requests_are_served_meanwhile(broker: BrokerInMemory, turns: SliceTurns, kind: Compression, config: dict[str, str]) -> None:
    broker.cluster.configs.alter_topic("orders", config)
    pending = begin(broker, request((0, long_batch(broker, compression=kind))))
    assert not pending.is_done
    broker.append("orders", 0, long_batch(broker, 1))
    assert end(broker) == 1

    assert turns.until_done(pending) >= LONG // 1024
    (result,) = results_of(pending)
    assert (result.error_code, result.base_offset) == (0, 1)
    assert end(broker) == 1 + LONG
    log = broker.cluster.partition("orders", 0).log
    batch = RecordBatch(log.read(1, 1 << 20, isolation=None))
    assert (batch.base_offset, batch.record_count, batch.check_crc()) == (1, LONG, True)
    if "message.timestamp.type" in config:
        assert result.log_append_time_ms == batch.max_timestamp == broker.clock.now_ms()


def test_small_requests_are_answered_immediately(broker: BrokerInMemory, turns: SliceTurns) -> None:
    assert begin(broker, request((0, long_batch(broker, AT_ONCE_RECORDS)))).is_done


def test_partitions_are_appended_in_order_with_pauses(broker: BrokerInMemory, turns: SliceTurns) -> None:
    pending = begin(broker, request((2, long_batch(broker, 1)), (1, long_batch(broker)), (7, b""), (0, long_batch(broker, 2))))
    assert not pending.is_done
    assert (end(broker, 2), end(broker, 1), end(broker, 0)) == (1, 0, 0)
    turns.until_done(pending)

    codes = [(result.index, result.error_code, result.base_offset) for result in results_of(pending)]
    assert codes == [(2, 0, 0), (1, 0, 0), (7, code_of(UnknownTopicOrPartition), -1), (0, 0, 0)]
    assert (end(broker, 2), end(broker, 1), end(broker, 0)) == (1, LONG, 2)


def test_old_formats_are_converted_in_slices(broker: BrokerInMemory, turns: SliceTurns) -> None:
    data = bytes(build_message_set([Record(0, broker.clock.now_ms(), b"k", b"v")] * 1000, 1, compression=Compression.GZIP))
    pending = begin(broker, request((0, data)), 2)
    assert not pending.is_done
    turns.until_done(pending)
    assert [result.error_code for result in results_of(pending)] == [0]
    assert end(broker) == 1000


def test_sequences_are_checked_when_the_batch_is_appended(broker: BrokerInMemory, turns: SliceTurns) -> None:
    ids = broker.ask(k22.Request(transactional_id=None, transaction_timeout_ms=1000))
    producer = {"producer_id": ids.producer_id, "producer_epoch": ids.producer_epoch}
    first = long_batch(broker, compression=Compression.LZ4, base_sequence=0, **producer)
    pending = begin(broker, request((0, first)))
    again = begin(broker, request((0, first)))  # of another connection: one has one request in slices
    late = begin(broker, request((0, long_batch(broker, base_sequence=2 * LONG, **producer))))
    for each in (pending, again, late):
        if not each.is_done:
            turns.until_done(each)

    assert [results_of(each)[0].base_offset for each in (pending, again)] == [0, 0]
    assert results_of(late)[0].error_code == code_of(OutOfOrderSequenceNumber)
    assert end(broker) == LONG


def test_topic_deleted_meanwhile(broker: BrokerInMemory, turns: SliceTurns) -> None:
    pending = begin(broker, request((0, long_batch(broker)), (1, long_batch(broker, 1))))
    broker.cluster.delete_topic("orders")
    turns.until_done(pending)
    assert [result.error_code for result in results_of(pending)] == [code_of(UnknownTopicOrPartition)] * 2


def test_refusal_lists_record_errors(broker: BrokerInMemory, turns: SliceTurns) -> None:
    broker.cluster.configs.alter_topic("orders", {"cleanup.policy": "compact"})
    records = [Record(0, broker.clock.now_ms(), None if index == LONG - 1 else b"k", None) for index in range(LONG)]
    pending = begin(broker, request((0, bytes(build_batch(records, compression=Compression.ZSTD)))))
    turns.until_done(pending)
    (result,) = results_of(pending)
    assert result.error_code == code_of(InvalidRecord)
    assert [error.batch_index for error in result.record_errors] == [LONG - 1]
    assert end(broker) == 0


@pytest.mark.parametrize("is_good", [True, False])
def test_without_acks(broker: BrokerInMemory, turns: SliceTurns, is_good: bool) -> None:
    data = bytearray(long_batch(broker))
    data[-1] ^= 0 if is_good else 1
    pending = begin(broker, request((1, long_batch(broker)), (0, bytes(data)), acks=0))
    turns.until_done(pending)
    assert (pending.in_flight.answer == []) is is_good  # else the connection is closed
    assert (end(broker, 1), end(broker)) == (LONG, LONG if is_good else 0)


@pytest.mark.parametrize("version", [11, 12])
@pytest.mark.parametrize("batch_count", [1, 2])
def test_transaction_ended_meanwhile_is_not_reopened(broker: BrokerInMemory, turns: SliceTurns, version: int, batch_count: int) -> None:
    shop = Producer(broker)
    if version < 12:
        shop.add(0, 1)
    fields = {"producer_id": shop.ids[0], "producer_epoch": shop.ids[1], "base_sequence": 0, "is_transactional": True}
    batches = [(index, long_batch(broker, **fields)) for index in range(batch_count)]
    pending = begin(broker, request(*batches, transactional_id="shop"), version)
    assert not pending.is_done
    assert shop.end(4 if version < 12 else 5) == 0
    turns.until_done(pending)

    assert all(result.error_code for result in results_of(pending))
    for index in range(2):
        assert not broker.cluster.partition("orders", index).log.producers.list_open_transactions()


def test_closed_connection_cancels_the_append(broker: BrokerInMemory, turns: SliceTurns) -> None:
    pending = begin(broker, request((0, long_batch(broker, compression=Compression.GZIP))))
    pending.in_flight.cancel()
    while turns.turn():
        pass
    assert end(broker) == 0
