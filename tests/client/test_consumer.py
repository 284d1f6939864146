"""The consumer returns each record once and in order, no aborted records and no markers, and reports corrupt batches."""

from __future__ import annotations

from typing import Any

import pytest

from minibroker.client.client import Client
from minibroker.client.consumer import ConsumedRecord, Consumer
from minibroker.client.errors import TimedOut, TopicReplaced
from minibroker.client.offsets import READ_COMMITTED, READ_UNCOMMITTED
from minibroker.errors import CorruptMessage, OffsetOutOfRange, UnknownTopicId
from minibroker.records.builder import build_batch
from minibroker.records.control import ControlType, EndTransactionMarker, build_end_transaction_batch
from minibroker.records.record import Record
from minibroker.schemas import k01_fetch, k02_list_offsets
from tests.client.fake_broker import ConnectionLost, FakeBroker


def batch(base_offset: int, *values: str, **options: Any) -> bytes:
    return bytes(build_batch([Record(0, 1, None, value.encode()) for value in values], base_offset=base_offset, **options))


def marker(offset: int, kind: ControlType, producer_id: int) -> bytes:
    end = EndTransactionMarker(kind, 0)
    return bytes(build_end_transaction_batch(end, timestamp=1, producer_id=producer_id, producer_epoch=0, base_offset=offset))


def in_transaction(base_offset: int, producer_id: int, *values: str) -> bytes:
    return batch(base_offset, *values, producer_id=producer_id, producer_epoch=0, base_sequence=0, is_transactional=True)


class Consuming:
    def __init__(self, positions: dict[int, int] | None = None, *, isolation: int = READ_UNCOMMITTED, timeout_ms: int = 60_000) -> None:
        positions = positions or {0: 0}
        self.broker = FakeBroker(topics={"orders": len(positions)})
        self.client = Client("fake:1", timeout_ms=timeout_ms, connect=self.broker.connect)
        self.fetched()
        self.consumer = Consumer(self.client, "orders", positions, isolation=isolation)

    def fetched(self, *data: bytes, **more: Any) -> None:
        """Set the records in the next fetches of partition 0."""
        self.broker.in_turn(k01_fetch, *[self.answer(records, **more) for records in data], self.answer(b""))

    def answer(self, records: bytes, **more: Any) -> Any:
        def script(request: k01_fetch.Request, version: int) -> k01_fetch.Response:
            topic = request.topics[0]
            results = [self.result(partition.partition, records, **more) for partition in topic.partitions]
            return k01_fetch.Response(responses=[k01_fetch.TopicResult(topic=topic.topic, topic_id=topic.topic_id, partitions=results)])

        return script

    @staticmethod
    def result(index: int, records: bytes, error_code: int = 0, aborted: Any = None) -> k01_fetch.PartitionResult:
        return k01_fetch.PartitionResult(
            partition_index=index,
            error_code=error_code,
            high_watermark=100,
            aborted_transactions=aborted,
            records=memoryview(records if index == 0 else b""),
        )

    def poll(self) -> list[ConsumedRecord]:
        return list(self.consumer.poll(1))

    def values(self, polls: int = 1) -> list[str]:
        return [(consumed.record.value or b"").decode() for _ in range(polls) for consumed in self.poll()]


def test_records_come_once_and_the_position_moves_on() -> None:
    consuming = Consuming()
    consuming.fetched(batch(0, "a", "b"), batch(2, "c"))
    assert consuming.values(3) == ["a", "b", "c"]
    assert [request.topics[0].partitions[0].fetch_offset for request in consuming.broker.requests_for(k01_fetch)] == [0, 2, 3]


def test_batch_starting_before_the_position_is_read_from_the_middle() -> None:
    consuming = Consuming({0: 5})
    consuming.fetched(batch(0, "0", "1") + batch(2, *"234567"))
    assert consuming.values() == list("567")


def test_a_batch_that_is_cut_off_is_fetched_again() -> None:
    consuming = Consuming()
    consuming.fetched(batch(0, "a") + batch(1, "b")[:-1], batch(1, "b"))
    assert consuming.values(2) == ["a", "b"]


def test_positions_pass_compacted_ends() -> None:
    consuming = Consuming()
    consuming.fetched(batch(0, "a", last_offset_delta=9))
    assert consuming.values() == ["a"]
    assert consuming.consumer.positions == {0: 10}


def test_stopping_a_partition_in_the_middle_of_its_records() -> None:
    consuming = Consuming()
    consuming.fetched(batch(0, "a", "b", "c"))
    values = []
    for consumed in consuming.consumer.poll(1):
        values.append(consumed.record.value)
        consuming.consumer.stop_reading(0)
    assert values == [b"a"]


TRANSACTIONS = b"".join(
    [
        in_transaction(0, 1, "aborted"),
        in_transaction(1, 2, "committed"),
        batch(2, "plain"),
        marker(3, ControlType.ABORT, 1),
        in_transaction(4, 1, "later"),
        marker(5, ControlType.COMMIT, 2),
        marker(6, ControlType.COMMIT, 1),
    ]
)


def test_read_committed_skips_only_aborted_records() -> None:
    consuming = Consuming(isolation=READ_COMMITTED)
    consuming.fetched(TRANSACTIONS, aborted=[k01_fetch.AbortedTransaction(producer_id=1, first_offset=0)])
    assert consuming.values() == ["committed", "plain", "later"]
    assert consuming.consumer.positions == {0: 7}
    assert consuming.broker.requests_for(k01_fetch)[0].isolation_level == 1


def test_read_uncommitted_leaves_out_markers_only() -> None:
    consuming = Consuming()
    consuming.fetched(TRANSACTIONS)
    assert consuming.values() == ["aborted", "committed", "plain", "later"]


def test_transaction_that_started_before_the_position_is_skipped() -> None:
    consuming = Consuming({0: 4}, isolation=READ_COMMITTED)
    data = in_transaction(4, 1, "aborted") + marker(5, ControlType.ABORT, 1) + in_transaction(6, 1, "kept")
    consuming.fetched(data, aborted=[k01_fetch.AbortedTransaction(producer_id=1, first_offset=0)])
    assert consuming.values() == ["kept"]


def test_a_wrong_crc_is_an_error() -> None:
    corrupt = bytearray(batch(0, "a"))
    corrupt[-1] ^= 1
    consuming = Consuming()
    consuming.fetched(bytes(corrupt))
    with pytest.raises(CorruptMessage, match="orders-0: the batch at offset 0 has a wrong CRC"):
        consuming.poll()


def test_offset_out_of_range_is_reported_with_the_range() -> None:
    consuming = Consuming({0: 50})
    consuming.fetched(b"", error_code=1)

    def bounds(request: k02_list_offsets.Request, version: int) -> k02_list_offsets.Response:
        partition = request.topics[0].partitions[0]
        result = k02_list_offsets.PartitionResult(partition_index=0, error_code=0, offset=10 if partition.timestamp == -2 else 20)
        return k02_list_offsets.Response(topics=[k02_list_offsets.TopicResult(name="orders", partitions=[result])])

    consuming.broker.on(k02_list_offsets, bounds)
    with pytest.raises(OffsetOutOfRange, match="offset 50 of orders-0 does not exist: it contains 10 up to 20"):
        consuming.poll()


def test_moved_or_stopped_leader_is_looked_up_again() -> None:
    consuming = Consuming()

    def lost(request: Any, version: int) -> Any:
        raise ConnectionLost

    consuming.broker.in_turn(k01_fetch, consuming.answer(b"", error_code=6), lost, consuming.answer(batch(0, "a")), consuming.answer(b""))
    assert consuming.values(3) == ["a"]


def test_errors_without_end_time_out() -> None:
    consuming = Consuming(timeout_ms=700)
    consuming.broker.on(k01_fetch, consuming.answer(b"", error_code=6))
    with pytest.raises(TimedOut):
        consuming.values(1000)


def test_recreated_topic_is_not_consumed() -> None:
    consuming = Consuming()
    consuming.broker.topic_ids.clear()
    consuming.fetched(b"", error_code=UnknownTopicId.code)
    with pytest.raises(TopicReplaced, match="deleted and created again"):
        consuming.poll()


def test_partitions_take_turns_at_the_front() -> None:
    consuming = Consuming({0: 0, 1: 0, 2: 0})
    consuming.values(3)
    firsts = [[partition.partition for partition in request.topics[0].partitions] for request in consuming.broker.requests_for(k01_fetch)]
    assert firsts == [[0, 1, 2], [1, 2, 0], [2, 0, 1]]


def test_each_leader_is_fetched_from_in_one_poll() -> None:
    consuming = Consuming({0: 0, 1: 0, 2: 0})
    consuming.broker.nodes = 2
    consumer = Consumer(consuming.client, "orders", {0: 0, 1: 0, 2: 0})
    consuming.broker.on(k01_fetch, consuming.answer(batch(0, "a")))
    assert [(consumed.partition, consumed.record.value) for consumed in consumer.poll(1)] == [(0, b"a")]
    ports = [address.port for key, address in consuming.broker.addressees if key == k01_fetch.API_KEY]
    partitions = [[p.partition for p in request.topics[0].partitions] for request in consuming.broker.requests_for(k01_fetch)]
    assert dict(zip(ports, partitions, strict=True)) == {1: [0, 2], 2: [1]}
