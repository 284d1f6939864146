"""acks=all where the high watermark is held back: who waits, for how long, and what the answer says then."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from typing import Any

import pytest

from minibroker.cluster.nodes import Nodes
from minibroker.cluster.partition import Partition
from minibroker.errors import KafkaStorageError, NotLeaderOrFollower, RequestTimedOut
from minibroker.schemas import k00_produce, k01_fetch, k02_list_offsets, k21_delete_records
from minibroker.testing.simulation.held_watermarks import release_high_watermark
from tests.support.broker_in_memory import BrokerInMemory, Pending, records
from tests.support.faulty_files import FaultyFiles


@pytest.fixture
def broker() -> Iterator[BrokerInMemory]:
    broker = BrokerInMemory(topics={"orders": 2})
    yield broker
    broker.cluster.close()


def produce(broker: BrokerInMemory, *indexes: int, acks: int = -1, timeout_ms: int = 1000, data: bytes | None = None) -> Pending:
    partitions = [k00_produce.Partition(index=index, records=data or records(2)) for index in indexes]
    topic = k00_produce.Topic(name="orders", partition_data=partitions)
    return broker.begin(k00_produce.Request(acks=acks, timeout_ms=timeout_ms, topic_data=[topic]), 12)


def results(pending: Pending) -> list[tuple[int, int, int]]:
    """(index, error_code, base_offset)."""
    (topic,) = pending.answer().responses
    return [(each.index, each.error_code, each.base_offset) for each in topic.partition_responses]


def fetch(broker: BrokerInMemory, *, max_wait_ms: int = 0) -> Pending:
    partition = k01_fetch.Partition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    topic = k01_fetch.Topic(topic="orders", partitions=[partition])
    return broker.begin(k01_fetch.Request(max_wait_ms=max_wait_ms, min_bytes=1, topics=[topic]), 12)


def latest(broker: BrokerInMemory) -> int:
    partition = k02_list_offsets.Partition(partition_index=0, timestamp=-1)
    topic = k02_list_offsets.Topic(name="orders", partitions=[partition])
    (answer,) = broker.ask(k02_list_offsets.Request(replica_id=-1, topics=[topic])).topics[0].partitions
    offset: int = answer.offset
    return offset


def test_all_waits_until_readers_may_see_the_records(broker: BrokerInMemory) -> None:
    partition = broker.cluster.partition("orders", 0)
    broker.hold_high_watermark("orders", 0)
    waiting = fetch(broker, max_wait_ms=60_000)
    pending = produce(broker, 0, 1)
    broker.clock.advance(500)
    assert not pending.is_done
    assert not waiting.is_done
    assert latest(broker) == 0
    release_high_watermark(partition)
    broker.clock.advance(0)
    assert results(pending) == [(0, 0, 0), (1, 0, 0)]
    ((read,),) = [topic.partitions for topic in waiting.answer().responses]
    assert (read.high_watermark, len(read.records) > 0) == (2, True)
    assert latest(broker) == 2
    assert results(produce(broker, 0)) == [(0, 0, 2)]


def test_time_is_up_for_the_partition_that_is_held_and_for_no_other(broker: BrokerInMemory) -> None:
    broker.hold_high_watermark("orders", 0)
    pending = produce(broker, 0, 1)
    broker.clock.advance(999)
    assert not pending.is_done
    broker.clock.advance(1)
    assert results(pending) == [(0, RequestTimedOut.code, 0), (1, 0, 0)]
    assert broker.cluster.partition("orders", 0).log.log_end_offset == 2  # in the log, as in Kafka
    impatient = produce(broker, 0, timeout_ms=0)
    broker.clock.advance(0)
    assert results(impatient) == [(0, RequestTimedOut.code, 2)]


class _Elsewhere(Nodes):
    """Partition 0 is led by another broker as soon as it `moved`."""

    moved = False

    def leader_of(self, partition: Partition) -> int:
        return 7 if self.moved and partition.index == 0 else super().leader_of(partition)


def test_leadership_moves_during_the_wait(broker: BrokerInMemory) -> None:
    nodes = broker.services.nodes = _Elsewhere(broker.cluster.node)
    partition = broker.cluster.partition("orders", 0)
    broker.hold_high_watermark("orders", 0)
    pending = produce(broker, 0, 1)
    partition.wake()
    broker.clock.advance(0)
    assert not pending.is_done
    nodes.moved = True
    partition.wake()
    broker.clock.advance(0)
    assert results(pending) == [(0, NotLeaderOrFollower.code, 0), (1, 0, 0)]


@pytest.mark.parametrize("acks", [0, 1])
def test_acks_below_all_do_not_wait(broker: BrokerInMemory, acks: int) -> None:
    partition = broker.cluster.partition("orders", 0)
    broker.hold_high_watermark("orders", 0)
    pending = produce(broker, 0, acks=acks)
    assert pending.is_done
    assert (partition.log.high_watermark, partition.log.log_end_offset) == (0, 2)


def test_already_visible_records_are_acknowledged(broker: BrokerInMemory) -> None:
    data = records(1, producer_id=broker.cluster.metadata.allocate_producer_id(), producer_epoch=0, base_sequence=0)
    assert results(produce(broker, 0, data=data)) == [(0, 0, 0)]
    broker.hold_high_watermark("orders", 0)
    assert results(produce(broker, 0, data=data)) == [(0, 0, 0)]  # a duplicate of what everybody sees


def test_a_lost_log_ends_the_waiting(broker: BrokerInMemory) -> None:
    partition = broker.cluster.partition("orders", 0)
    broker.hold_high_watermark("orders", 0)
    pending = produce(broker, 0)
    partition.take_offline(KafkaStorageError("the disk is gone"))
    assert results(pending) == [(0, KafkaStorageError.code, 0)]
    release_high_watermark(partition)  # harmless


def test_a_client_that_leaves_is_waited_for_no_more(broker: BrokerInMemory) -> None:
    partition = broker.cluster.partition("orders", 0)
    broker.hold_high_watermark("orders", 0)
    pending = produce(broker, 0)
    pending.in_flight.cancel()
    assert not partition._subscribers
    release_high_watermark(partition)
    assert not pending.is_done


@pytest.mark.parametrize("fails", [False, True])
def test_a_sync_is_waited_for_as_well(fails: bool) -> None:
    files = FaultyFiles()
    broker = BrokerInMemory(topics={"orders": 1}, config={"log.flush.interval.messages": "1"}, files=files)
    partition = broker.cluster.partition("orders", 0)
    broker.hold_high_watermark("orders", 0)
    pending = produce(broker, 0)
    release_high_watermark(partition)
    assert not pending.is_done  # shown, but not synced
    if fails:
        files.fail("sync", errno.EIO)
    broker.clock.advance(0)
    assert results(pending) == [(0, KafkaStorageError.code if fails else 0, -1 if fails else 0)]
    broker.cluster.close()


def test_records_are_not_deleted_above_the_high_watermark(broker: BrokerInMemory) -> None:
    broker.hold_high_watermark("orders", 0)
    produce(broker, 0, acks=1)
    partition = k21_delete_records.Partition(partition_index=0, offset=1)
    answer: Any = broker.ask(
        k21_delete_records.Request(topics=[k21_delete_records.Topic(name="orders", partitions=[partition])], timeout_ms=1)
    )
    assert answer.topics[0].partitions[0].error_code == 1
