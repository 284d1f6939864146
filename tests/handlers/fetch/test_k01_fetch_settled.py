"""Fetch sessions do not read settled partitions, and notice all changes of them."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import patch

import pytest

from minibroker.cluster.partition import Partition
from minibroker.errors import KafkaStorageError, UnknownTopicOrPartition
from minibroker.log.partition_log import PartitionLog
from minibroker.records.control import ControlType, EndTransactionMarker
from minibroker.schemas import k01_fetch as schema
from tests.support.broker_in_memory import BrokerInMemory, Pending, records
from tests.support.compiled import skip_if_compiled

VERSION = 12
Told = list[tuple[str, int]]


class Session:
    """A consumer of all partitions of two topics, at the end of each, and its answers."""

    def __init__(self, broker: BrokerInMemory, *, isolation_level: int = 0) -> None:
        self.broker = broker
        self.offsets = {
            (topic.name, partition.index): partition.log.log_end_offset
            for topic in broker.cluster.topics.values()
            for partition in topic.partitions
            if not topic.is_internal
        }
        topics = dict.fromkeys(name for name, _ in self.offsets)
        requested_topics = [
            schema.Topic(topic=name, partitions=[self.asked(*key) for key in self.offsets if key[0] == name]) for name in topics
        ]
        opened = broker.ask(
            schema.Request(max_wait_ms=0, min_bytes=1, session_epoch=0, topics=requested_topics, isolation_level=isolation_level), VERSION
        )
        self.session_id, self.epoch = opened.session_id, 0

    def asked(self, topic: str, index: int) -> schema.Partition:
        return schema.Partition(partition=index, fetch_offset=self.offsets[topic, index], partition_max_bytes=1 << 20)

    def begin(self, *changed: tuple[str, int], wait_ms: int = 0, **fields: Any) -> Pending:
        self.epoch += 1
        topics = [schema.Topic(topic=topic, partitions=[self.asked(topic, index)]) for topic, index in changed]
        return self.broker.begin(
            schema.Request(
                max_wait_ms=wait_ms,
                min_bytes=fields.pop("min_bytes", 1),
                session_id=self.session_id,
                session_epoch=self.epoch,
                topics=topics,
                **fields,
            ),
            VERSION,
        )

    def poll(self, *changed: tuple[str, int], **fields: Any) -> Told:
        return told(self.begin(*changed, **fields))


def told(pending: Pending) -> Told:
    answer = pending.answer()
    assert answer.error_code == 0
    return [(topic.topic, result.partition_index) for topic in answer.responses for result in topic.partitions]


@pytest.fixture
def broker() -> Iterator[BrokerInMemory]:
    broker = BrokerInMemory(topics={"orders": 20, "clicks": 1})
    broker.append("orders", 3, records(2))
    yield broker
    broker.cluster.close()


def listeners(broker: BrokerInMemory) -> int:
    return sum(len(partition._subscribers) for topic in broker.cluster.topics.values() for partition in topic.partitions)


def test_idle_partitions_are_not_read(broker: BrokerInMemory) -> None:
    skip_if_compiled()
    session = Session(broker)
    with patch.object(PartitionLog, "slice", autospec=True, side_effect=PartitionLog.slice) as slices:
        assert session.poll() == []
        broker.append("orders", 7, records(1))
        assert session.poll() == [("orders", 7)]
        assert slices.call_count == 1
        session.offsets["orders", 7] = 1
        assert session.poll(("orders", 7)) == []
        assert session.poll() == []
        assert slices.call_count == 2


def test_unread_records_are_reported_again(broker: BrokerInMemory) -> None:
    session = Session(broker)
    broker.append("orders", 7, records(1))
    assert [session.poll() for _ in range(3)] == [[("orders", 7)]] * 3


def test_served_partitions_move_to_the_end_of_the_line(broker: BrokerInMemory) -> None:
    session = Session(broker)
    for index in (9, 2, 5):
        broker.append("orders", index, records(1))
    one = {"max_bytes": 1}
    assert [index for _ in range(4) for _, index in session.poll(**one)[:1]] == [2, 5, 9, 2]


@pytest.mark.parametrize("is_first", [True, False])
def test_settled_partition_completes_a_wait(broker: BrokerInMemory, is_first: bool) -> None:
    session = Session(broker)
    changed = () if is_first else (("orders", 1),)
    pending = session.begin(*changed, wait_ms=500)
    broker.clock.advance(10)
    assert not pending.is_done
    broker.append("clicks", 0, records(1))
    broker.clock.advance(0)
    assert told(pending) == [("clicks", 0)]


def test_min_bytes_of_several_settled_partitions(broker: BrokerInMemory) -> None:
    session = Session(broker)
    size = len(records(1))
    pending = session.begin(wait_ms=500, min_bytes=3 * size)
    for index in (4, 4, 11):
        assert not pending.is_done
        broker.append("orders", index, records(1))
        broker.clock.advance(0)
    assert told(pending) == [("orders", 4), ("orders", 11)]


def test_changed_isolation_level_sees_more_records(broker: BrokerInMemory) -> None:
    producer = broker.cluster.metadata.allocate_producer_id()
    session = Session(broker, isolation_level=1)
    batch = records(1, producer_id=producer, producer_epoch=0, base_sequence=0, is_transactional=True)
    broker.append("orders", 0, batch)
    assert session.poll(isolation_level=1) == [("orders", 0)]  # its high watermark
    assert session.poll(isolation_level=1) == []
    assert session.poll(isolation_level=0) == [("orders", 0)]
    assert session.poll(isolation_level=1) == []
    broker.cluster.partition("orders", 0).end_transaction(
        EndTransactionMarker(ControlType.COMMIT, 0), producer_id=producer, producer_epoch=0, transaction_version=1
    )
    assert session.poll(isolation_level=1) == [("orders", 0)]


def deleted_records(broker: BrokerInMemory) -> None:
    broker.cluster.partition("orders", 3).advance_log_start_offset(1)


def retention(broker: BrokerInMemory) -> None:
    broker.cluster.configs.alter_topic("orders", {"retention.ms": "1", "segment.ms": "1"})
    broker.clock.advance(10)
    broker.cluster.logs.maintenance.check(broker.cluster.topic("orders").partitions)


def deleted_topic(broker: BrokerInMemory) -> None:
    broker.cluster.delete_topic("orders")


def failed_log(broker: BrokerInMemory) -> None:
    log = broker.cluster.partition("orders", 3).log
    log.failures.failed(OSError(errno.ENOENT, "gone"), is_fatal=True)


@pytest.mark.parametrize(
    ("happens", "error_code"),
    [
        (deleted_records, 0),
        (retention, 0),
        (deleted_topic, UnknownTopicOrPartition.code),
        (failed_log, KafkaStorageError.code),
    ],
)
@pytest.mark.parametrize("is_waited_for", [True, False])
def test_events_of_a_settled_partition_are_reported(
    broker: BrokerInMemory, happens: Callable[[BrokerInMemory], None], error_code: int, is_waited_for: bool
) -> None:
    session = Session(broker)
    assert session.poll() == []
    if is_waited_for:
        pending = session.begin(wait_ms=500)
        happens(broker)
        broker.clock.advance(0 if error_code else 500)
    else:
        happens(broker)
        pending = session.begin()
    answer = pending.answer()
    (result,) = [result for topic in answer.responses for result in topic.partitions if result.partition_index == 3]
    assert result.error_code == error_code


def test_idle_session_is_notified_once(broker: BrokerInMemory) -> None:
    before = listeners(broker)
    session = Session(broker)
    assert session.poll() == []
    assert listeners(broker) == before + len(session.offsets)
    broker.append("orders", 3, records(1))
    assert listeners(broker) == before + len(session.offsets) - 1
    with patch.object(Partition, "wake", autospec=True) as wake:
        broker.append("orders", 3, records(1))
        assert not wake.called


@pytest.mark.parametrize("epoch", [-1, 0])
def test_closed_session_is_unsubscribed(broker: BrokerInMemory, epoch: int) -> None:
    before = listeners(broker)
    session = Session(broker)
    broker.ask(schema.Request(max_wait_ms=0, min_bytes=1, session_id=session.session_id, session_epoch=epoch, topics=[]), VERSION)
    assert listeners(broker) == before


def test_forgotten_partition_is_unsubscribed(broker: BrokerInMemory) -> None:
    before = listeners(broker)
    session = Session(broker)
    session.poll(forgotten_topics_data=[schema.ForgottenTopic(topic="orders", partitions=list(range(20)))])
    assert listeners(broker) == before + 1
    broker.append("orders", 7, records(1))
    assert session.poll() == []


def test_session_closed_during_a_wait(broker: BrokerInMemory) -> None:
    """By eviction, or by another connection: it would hear of nothing any more, so it is answered; and nothing is left of it."""
    session = Session(broker)
    pending = session.begin(wait_ms=500)
    assert not pending.is_done
    broker.append("orders", 3, records(1))
    broker.ask(schema.Request(max_wait_ms=0, min_bytes=1, session_id=session.session_id, session_epoch=-1, topics=[]), VERSION)
    broker.clock.advance(0)
    assert told(pending) == [("orders", 3)]
    again = Session(broker)
    pending = again.begin(wait_ms=500)
    broker.ask(schema.Request(max_wait_ms=0, min_bytes=1, session_id=again.session_id, session_epoch=-1, topics=[]), VERSION)
    broker.clock.advance(0)
    assert told(pending) == []
    assert not listeners(broker)
