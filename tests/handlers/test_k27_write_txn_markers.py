"""WriteTxnMarkers: golden frames, who is refused, and what readers see. What a log says to markers: tests/log/test_transactions.py."""

from __future__ import annotations

import errno

import pytest

from minibroker.cluster.nodes import Nodes
from minibroker.cluster.partition import Partition
from minibroker.errors import KafkaStorageError, NotLeaderOrFollower, RequestTimedOut
from minibroker.schemas import k27_write_txn_markers as schema
from minibroker.testing.simulation.held_watermarks import release_high_watermark
from tests.golden import all_golden, golden
from tests.support.broker_in_memory import BrokerInMemory, Pending
from tests.support.faulty_files import FaultyFiles
from tests.support.golden_exchange import kafka_answer, kafka_like, serve
from tests.support.log_batches import idempotent_batch

REQUESTS = sorted(name for name, frame in all_golden().items() if frame.stem == "k27_write_txn_markers" and frame.direction == "request")


def marker(producer_id: int, *partitions: tuple[str, list[int]], commit: bool = False, **fields: int) -> schema.Marker:
    topics = [schema.Topic(name=name, partition_indexes=indexes) for name, indexes in partitions]
    values = {"producer_epoch": 0, "coordinator_epoch": 0} | fields
    return schema.Marker(producer_id=producer_id, transaction_result=commit, topics=topics, **values)


def ask(broker: BrokerInMemory, *markers: schema.Marker, version: int = 2) -> dict[int, list[tuple[str, int, int]]]:
    """Topic, partition and error code by producer id."""
    answer = broker.ask(schema.Request(markers=list(markers)), version)
    return {
        each.producer_id: [(topic.name, result.partition_index, result.error_code) for topic in each.topics for result in topic.partitions]
        for each in answer.markers
    }


def open_transaction(broker: BrokerInMemory, producer_id: int, topic: str, index: int, *, epoch: int = 0) -> Partition:
    partition = broker.cluster.partition(topic, index)
    partition.append_own(idempotent_batch(producer_id, 0, epoch=epoch, is_transactional=True))
    return partition


@pytest.mark.parametrize("name", REQUESTS)
def test_golden_requests_get_kafka_bytes(name: str) -> None:
    request = golden(name)
    topics = {topic.name: 3 for each in request.decode().markers for topic in each.topics}
    assert serve(kafka_like(topics=topics), request) == kafka_answer(request)


@pytest.mark.parametrize("version", [1, 2])
def test_marker_ends_the_transaction_for_readers(version: int) -> None:
    broker = BrokerInMemory(topics={"a": 1, "b": 2})
    opened = [open_transaction(broker, 7, *place) for place in (("a", 0), ("b", 1))]
    assert [each.log.last_stable_offset for each in opened] == [0, 0]
    assert ask(broker, marker(7, ("a", [0]), ("b", [0, 1])), version=version) == {7: [("a", 0, 0), ("b", 0, 0), ("b", 1, 0)]}
    assert [each.log.last_stable_offset for each in opened] == [2, 2]
    assert [each.log.aborted_transactions(0, 1) for each in opened] == [[(7, 0)], [(7, 0)]]
    open_transaction(broker, 8, "a", 0)
    ask(broker, marker(8, ("a", [0]), commit=True), version=version)
    assert opened[0].log.aborted_transactions(0, 4) == [(7, 0)]


def test_failing_partition_does_not_affect_others() -> None:
    broker = BrokerInMemory(topics={"a": 2})
    open_transaction(broker, 7, "a", 0, epoch=5)
    open_transaction(broker, 7, "a", 1)
    assert ask(
        broker,
        marker(7, ("a", [0, 1, 2]), ("gone", [0])),
        marker(7, ("a", [0]), producer_epoch=5),
        marker(8, ("a", [1]), coordinator_epoch=3),
        marker(8, ("a", [1]), coordinator_epoch=2),
    ) == {7: [("a", 2, 3), ("a", 0, 0), ("a", 1, 0), ("gone", 0, 3)], 8: [("a", 1, 52)]}
    assert ask(broker, marker(7, ("a", [0]))) == {7: [("a", 0, 47)]}
    assert ask(broker) == {}


@pytest.mark.parametrize(("producer_id", "epoch"), [(-1, 0), (7, -1)])
def test_invalid_producer_id_or_epoch(producer_id: int, epoch: int) -> None:
    broker = BrokerInMemory(topics={"a": 1})
    assert ask(broker, marker(producer_id, ("a", [0]), producer_epoch=epoch)) == {producer_id: [("a", 0, -1)]}
    assert broker.cluster.partition("a", 0).log.log_end_offset == 0


@pytest.mark.parametrize(("epoch", "transaction_version", "code"), [(0, 0, 0), (0, 1, 0), (0, 2, 47), (1, 2, 0)])
def test_transaction_version_2_markers_have_a_new_epoch(epoch: int, transaction_version: int, code: int) -> None:
    broker = BrokerInMemory(topics={"a": 1})
    open_transaction(broker, 7, "a", 0)
    requested = marker(7, ("a", [0]), producer_epoch=epoch, transaction_version=transaction_version)
    assert ask(broker, requested) == {7: [("a", 0, code)]}


def test_marker_is_answered_after_the_sync() -> None:
    broker = BrokerInMemory(topics={"a": 1}, config={"log.flush.interval.messages": "1"})
    partition = open_transaction(broker, 7, "a", 0)
    pending = broker.begin(schema.Request(markers=[marker(7, ("a", [0]))]))
    assert (pending.is_done, partition.log.last_stable_offset, partition.log.flusher.recovery_point) == (False, 0, 0)
    broker.clock.advance(0)
    assert pending.answer().markers[0].topics[0].partitions[0].error_code == 0
    assert (partition.log.last_stable_offset, partition.log.flusher.recovery_point) == (2, 2)


def held(broker: BrokerInMemory) -> tuple[Partition, Pending]:
    """A request for a-0, whose high watermark is held back, and a-1."""
    partition = open_transaction(broker, 7, "a", 0)
    open_transaction(broker, 7, "a", 1)
    broker.clock.advance(0)
    broker.hold_high_watermark("a", 0)
    return partition, broker.begin(schema.Request(markers=[marker(7, ("a", [0, 1]))]))


def codes(pending: Pending) -> list[int]:
    return [each.error_code for each in pending.answer().markers[0].topics[0].partitions]


def test_marker_is_answered_when_visible_to_readers() -> None:
    broker = BrokerInMemory(topics={"a": 2})
    partition, pending = held(broker)
    broker.clock.advance(29_999)
    assert (pending.is_done, partition.log.last_stable_offset) == (False, 0)
    release_high_watermark(partition)
    assert codes(pending) == [0, 0]
    assert partition.log.last_stable_offset == 2


def test_wait_for_replicas_times_out() -> None:
    broker = BrokerInMemory(topics={"a": 2}, config={"request.timeout.ms": "500"})
    partition, pending = held(broker)
    broker.clock.advance(500)
    assert codes(pending) == [RequestTimedOut.code, 0]  # tests/golden/captures/held.py
    assert partition.log.log_end_offset == 2, "it is there, nevertheless"


class _Elsewhere(Nodes):
    """Another broker leads everything as soon as it `moved`."""

    moved = False

    def leader_of(self, partition: Partition) -> int:
        return 7 if self.moved else super().leader_of(partition)


def test_leadership_lost_while_waiting() -> None:
    broker = BrokerInMemory(topics={"a": 2})
    nodes = broker.services.nodes = _Elsewhere(broker.cluster.node)
    partition, pending = held(broker)
    nodes.moved = True
    partition.wake()
    assert codes(pending) == [NotLeaderOrFollower.code, 0]


@pytest.mark.parametrize("fails", [False, True])
def test_marker_is_synced_and_visible_before_the_answer(fails: bool) -> None:
    files = FaultyFiles()
    broker = BrokerInMemory(topics={"a": 2}, config={"log.flush.interval.messages": "1"}, files=files)
    partition, pending = held(broker)
    release_high_watermark(partition)
    assert not pending.is_done, "it is seen, and not synced"
    if fails:
        files.fail("sync", errno.EIO)
    broker.clock.advance(0)
    assert codes(pending) == ([KafkaStorageError.code] * 2 if fails else [0, 0])
