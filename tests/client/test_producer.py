"""The producer: batches, their order, and retries without duplicates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from minibroker.client.client import Client
from minibroker.client.errors import TimedOut, TopicReplaced
from minibroker.client.producer import BatchAcknowledgement, Producer
from minibroker.errors import InvalidRecord, MessageTooLarge, UnknownTopicOrPartition
from minibroker.records.any_format import decode_records
from minibroker.records.batch import RecordBatch
from minibroker.records.compression import Compression
from minibroker.records.record import Record
from minibroker.schemas import k00_produce, k03_metadata, k22_init_producer_id
from tests.client.fake_broker import ConnectionLost, FakeBroker

Answer = Callable[[int, RecordBatch], k00_produce.PartitionResult]


def stored(index: int, batch: RecordBatch) -> k00_produce.PartitionResult:
    return k00_produce.PartitionResult(index=index, error_code=0, base_offset=1000)


def refused(error_code: int, **more: Any) -> Answer:
    return lambda index, batch: k00_produce.PartitionResult(index=index, error_code=error_code, base_offset=-1, **more)


class Producing:
    """A fake broker that keeps what is produced, and a producer for its topic `orders`."""

    def __init__(self, *, partitions: int = 1, timeout_ms: int = 60_000, **options: Any) -> None:
        self.broker = FakeBroker(topics={"orders": partitions})
        self.batches: list[tuple[int, RecordBatch]] = []  #: all that arrived
        self.kept: list[tuple[int, RecordBatch]] = []  #: those answered without an error
        self.acknowledged: list[BatchAcknowledgement] = []
        self.broker.on(
            k22_init_producer_id, lambda request, version: k22_init_producer_id.Response(error_code=0, producer_id=7, producer_epoch=0)
        )
        self.answers(stored)
        client = Client("fake:1", timeout_ms=timeout_ms, connect=self.broker.connect)
        self.producer = Producer(client, "orders", on_acknowledged=self.acknowledged.append, **options)

    def answers(self, *answers: Answer) -> None:
        self.broker.in_turn(k00_produce, *[lambda request, version, answer=answer: self._answer(request, answer) for answer in answers])

    def _answer(self, request: k00_produce.Request, answer: Answer) -> k00_produce.Response | None:
        results = []
        for partition in request.topic_data[0].partition_data:
            batch = RecordBatch(bytes(partition.records or b""))
            assert batch.check_crc()
            self.batches.append((partition.index, batch))
            results.append(answer(partition.index, batch))
            if results[-1].error_code == 0:
                self.kept.append((partition.index, batch))
        if request.acks == 0:
            return None
        topic = request.topic_data[0]
        return k00_produce.Response(
            responses=[k00_produce.TopicResult(name=topic.name, topic_id=topic.topic_id, partition_responses=results)]
        )

    def add(self, *values: str, **where: Any) -> None:
        for value in values:
            self.producer.add(Record(0, 1, None, value.encode()), **where)

    def values(self, partition: int | None = None) -> list[str]:
        chosen = [batch for index, batch in self.kept if partition in (None, index)]
        return [(record.value or b"").decode() for batch in chosen for record in decode_records(batch)]

    def sequences(self) -> list[tuple[int, int]]:
        return [(batch.base_sequence, batch.record_count) for _, batch in self.batches]


def lose_the_answer(index: int, batch: RecordBatch) -> k00_produce.PartitionResult:
    raise ConnectionLost


def test_nothing_is_sent_before_a_batch_is_full_or_flushed() -> None:
    producing = Producing(batch_bytes=100)
    producing.add("a" * 30, "b" * 30)
    assert producing.batches == []
    producing.add("c" * 30)
    assert [batch.record_count for _, batch in producing.batches] == [2]
    producing.producer.flush()
    assert producing.values() == ["a" * 30, "b" * 30, "c" * 30]


def test_record_larger_than_a_batch_is_sent_alone() -> None:
    producing = Producing(batch_bytes=100)
    producing.add("a", "b" * 1000, "c")
    producing.producer.flush()
    assert [batch.record_count for _, batch in producing.batches] == [1, 1, 1]


def test_batches_of_an_idempotent_producer_are_numbered_by_partition() -> None:
    producing = Producing(partitions=2)
    producing.add("a", "b", partition=0)
    producing.add("c", partition=1)
    producing.producer.flush()
    producing.add("d", partition=0)
    producing.producer.flush()
    assert [(index, batch.producer_id, batch.base_sequence, batch.record_count) for index, batch in producing.batches] == [
        (0, 7, 0, 2),
        (1, 7, 0, 1),
        (0, 7, 2, 1),
    ]


def test_partitions_of_one_leader_share_a_request() -> None:
    producing = Producing(partitions=3)
    for partition in range(3):
        producing.add("a", partition=partition)
    producing.producer.flush()
    assert len(producing.broker.requests_for(k00_produce)) == 1


def test_batches_go_to_the_leaders_of_their_partitions() -> None:
    producing = Producing(partitions=4)
    producing.broker.nodes = 2
    producing.producer = Producer(Client("fake:1", connect=producing.broker.connect), "orders")
    for partition in range(4):
        producing.add("a", partition=partition)
    producing.producer.flush()
    ports = [address.port for key, address in producing.broker.addressees if key == k00_produce.API_KEY]
    partitions = [[p.index for p in request.topic_data[0].partition_data] for request in producing.broker.requests_for(k00_produce)]
    assert dict(zip(ports, partitions, strict=True)) == {1: [0, 2], 2: [1, 3]}


def test_lost_answer_is_retried_with_the_same_sequence() -> None:
    producing = Producing()
    producing.answers(lose_the_answer, stored)
    producing.add("a", "b")
    producing.producer.flush()
    producing.add("c")
    producing.producer.flush()
    assert producing.sequences() == [(0, 2), (0, 2), (2, 1)]
    assert [entry.record_count for entry in producing.acknowledged] == [2, 1]


def test_duplicate_batch_counts_as_acknowledged() -> None:
    producing = Producing()
    producing.answers(lose_the_answer, refused(46))
    producing.add("a")
    producing.producer.flush()
    assert producing.acknowledged == [BatchAcknowledgement(0, -1, 1)]


def test_moved_leader_is_looked_up_again() -> None:
    producing = Producing()
    producing.answers(refused(6), refused(6), stored)
    producing.add("a")
    producing.producer.flush()
    assert producing.values() == ["a"]
    assert len(producing.broker.requests_for(k03_metadata)) >= 3


def test_order_is_kept_when_a_batch_is_sent_again() -> None:
    producing = Producing(batch_bytes=40)
    producing.answers(stored, refused(6), stored)
    producing.add(*[f"{number:020}" for number in range(10)])
    producing.producer.flush()
    assert producing.values() == [f"{number:020}" for number in range(10)]


@pytest.mark.parametrize("code", [10, 18], ids=["too large for the topic", "too large for a segment"])
def test_too_large_batch_is_split_until_it_fits(code: int) -> None:
    producing = Producing(batch_bytes=100_000)

    def limited(index: int, batch: RecordBatch) -> k00_produce.PartitionResult:
        return refused(code)(index, batch) if batch.record_count > 2 else stored(index, batch)

    producing.answers(limited)
    producing.add(*[str(number) for number in range(7)])
    producing.producer.flush()
    assert producing.values() == [str(number) for number in range(7)]
    kept = [(batch.base_sequence, batch.record_count) for _, batch in producing.kept]
    assert [sequence for sequence, _ in kept] == [sum(count for _, count in kept[:index]) for index in range(len(kept))]


def test_too_large_record_fails() -> None:
    producing = Producing()
    producing.answers(refused(10, error_message="too large"))
    producing.add("a")
    with pytest.raises(MessageTooLarge, match="orders-0: too large"):
        producing.producer.flush()


def test_record_error_of_the_broker_is_reported() -> None:
    producing = Producing()
    error = k00_produce.RecordError(batch_index=3, batch_index_error_message="no key")
    producing.answers(refused(87, error_message="compacted", record_errors=[error]))
    producing.add("a")
    with pytest.raises(InvalidRecord, match=r"orders-0: compacted \(record 3 of the batch: no key\)"):
        producing.producer.flush()


def test_gives_up_in_time() -> None:
    producing = Producing(timeout_ms=700)
    producing.answers(refused(6))
    producing.add("a")
    with pytest.raises(TimedOut):
        producing.producer.flush()


def test_acks_0_waits_for_no_answer() -> None:
    producing = Producing(acks=0, idempotent=False)
    producing.add("a")
    producing.producer.flush()
    assert producing.values() == ["a"]
    assert producing.acknowledged == [BatchAcknowledgement(0, -1, 1)]
    assert producing.batches[0][1].producer_id == -1


def test_unknown_partition_is_refused() -> None:
    with pytest.raises(UnknownTopicOrPartition, match="has no partition 3"):
        Producing(partitions=2).add("a", partition=3)


def test_recreated_topic_is_not_written_to() -> None:
    producing = Producing()

    def recreate(index: int, batch: RecordBatch) -> k00_produce.PartitionResult:
        producing.broker.topic_ids.clear()
        return refused(100)(index, batch)

    producing.answers(recreate, stored)
    producing.add("a")
    with pytest.raises(TopicReplaced, match="deleted and created again"):
        producing.producer.flush()


@pytest.mark.parametrize("codec", list(Compression), ids=lambda codec: codec.name)
def test_compresses(codec: Compression) -> None:
    producing = Producing(compression=codec)
    producing.add("a" * 1000, "b" * 1000)
    producing.producer.flush()
    assert producing.batches[0][1].compression is codec
    assert producing.values() == ["a" * 1000, "b" * 1000]
