"""A request for many partitions that were never used opens few of their logs in one turn of the loop."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from minibroker.cluster.partition import Partition
from minibroker.errors import KafkaStorageError
from minibroker.handlers.k02_list_offsets import EARLIEST
from minibroker.log.partition_log import PartitionLog
from minibroker.schemas import (
    k01_fetch,
    k02_list_offsets,
    k21_delete_records,
    k23_offset_for_leader_epoch,
    k27_write_txn_markers,
    k61_describe_producers,
)
from tests.handlers.test_k00_produce_transactions import Producer
from tests.support.broker_in_memory import BrokerInMemory, Pending
from tests.support.turns import shortest_slices, turns

PARTITIONS = 50
AT_ONCE = 10  #: logs that one turn may open


class Unopened:
    """The partitions of a topic, none of which has been used."""

    def __init__(self, broker: BrokerInMemory) -> None:
        self.opened: list[int] = []
        self.broken: set[int] = set()  #: those that cannot be opened for now
        self._logs: dict[int, PartitionLog | None] = {}
        broker.clock.advance(0)
        for partition in broker.cluster.topic("orders").partitions:
            self._logs[partition.index], partition.online_log = partition.log, None
            partition.open_later(self._open)

    def _open(self, partition: Partition) -> None:
        if partition.index in self.broken:
            partition.take_offline(KafkaStorageError("no descriptor is left"))
            partition.open_later(self._open)
            return
        self.opened.append(partition.index)
        partition.online_log = self._logs[partition.index]


@pytest.fixture
def broker() -> Iterator[BrokerInMemory]:
    broker = BrokerInMemory(topics={"orders": PARTITIONS}, config={"transaction.state.log.num.partitions": "1"})
    yield broker
    broker.cluster.close(clean=False)


@pytest.fixture
def unopened(broker: BrokerInMemory) -> Unopened:
    return Unopened(broker)


def served(broker: BrokerInMemory, unopened: Unopened, begin: Callable[[], Pending]) -> Any:
    """The answer; fails if a turn opens too many logs."""
    shortest_slices(broker)
    pending = begin()
    assert len(unopened.opened) <= AT_ONCE
    before = len(unopened.opened)
    for _ in turns(broker, pending):
        assert len(unopened.opened) - before <= AT_ONCE
        before = len(unopened.opened)
    return pending.answer()


def list_offsets() -> Any:
    partitions = [k02_list_offsets.Partition(partition_index=index, timestamp=EARLIEST) for index in range(PARTITIONS)]
    return k02_list_offsets.Request(replica_id=-1, topics=[k02_list_offsets.Topic(name="orders", partitions=partitions)])


def old_list_offsets() -> Any:
    partitions = [k02_list_offsets.Partition(partition_index=index, timestamp=EARLIEST, max_num_offsets=1) for index in range(PARTITIONS)]
    return k02_list_offsets.Request(replica_id=-1, topics=[k02_list_offsets.Topic(name="orders", partitions=partitions)])


def fetch() -> Any:
    partitions = [k01_fetch.Partition(partition=index, fetch_offset=0, partition_max_bytes=1000) for index in range(PARTITIONS)]
    return k01_fetch.Request(max_wait_ms=0, min_bytes=1, topics=[k01_fetch.Topic(topic="orders", partitions=partitions)])


def delete_records() -> Any:
    partitions = [k21_delete_records.Partition(partition_index=index, offset=0) for index in range(PARTITIONS)]
    return k21_delete_records.Request(topics=[k21_delete_records.Topic(name="orders", partitions=partitions)], timeout_ms=1000)


def offset_for_leader_epoch() -> Any:
    partitions = [k23_offset_for_leader_epoch.Partition(partition=index, leader_epoch=0) for index in range(PARTITIONS)]
    return k23_offset_for_leader_epoch.Request(topics=[k23_offset_for_leader_epoch.Topic(topic="orders", partitions=partitions)])


def write_txn_markers() -> Any:
    topic = k27_write_txn_markers.Topic(name="orders", partition_indexes=[*range(PARTITIONS)])
    marker = k27_write_txn_markers.Marker(
        producer_id=1, producer_epoch=0, transaction_result=True, topics=[topic], coordinator_epoch=0, transaction_version=1
    )
    return k27_write_txn_markers.Request(markers=[marker])


def describe_producers() -> Any:
    topic = k61_describe_producers.Topic(name="orders", partition_indexes=[*range(PARTITIONS)])
    return k61_describe_producers.Request(topics=[topic])


@pytest.mark.parametrize(
    ("request_of", "version"),
    [
        (list_offsets, 7),
        (old_list_offsets, 0),
        (fetch, 12),
        (delete_records, None),
        (offset_for_leader_epoch, None),
        (write_txn_markers, None),
        (describe_producers, None),
    ],
)
def test_each_step_opens_few_logs(broker: BrokerInMemory, unopened: Unopened, request_of: Callable[[], Any], version: int | None) -> None:
    answer = served(broker, unopened, lambda: broker.begin(request_of(), version))
    assert sorted(unopened.opened) == [*range(PARTITIONS)]
    outer = next(getattr(answer, name) for name in ("topics", "responses", "markers") if hasattr(answer, name))
    topics = outer[0].topics if hasattr(outer[0], "topics") else outer
    assert [each.error_code for each in topics[0].partitions] == [0] * PARTITIONS


def test_transactional_produce_opens_few_logs_per_step(broker: BrokerInMemory) -> None:
    producer = Producer(broker)
    unopened = Unopened(broker)
    batches = [producer.batch(index) for index in range(PARTITIONS)]
    answer = served(broker, unopened, lambda: producer.begin(12, *batches))
    assert unopened.opened == [*range(PARTITIONS)]
    assert [each.error_code for each in answer.responses[0].partition_responses] == [0] * PARTITIONS


@pytest.mark.parametrize("wait_ms", [0, 500])
def test_a_fetch_of_new_partitions_waits_for_records(broker: BrokerInMemory, unopened: Unopened, wait_ms: int) -> None:
    requested = fetch()
    requested.max_wait_ms = wait_ms
    pending = broker.begin(requested, 12)
    broker.clock.advance(0)
    assert pending.is_done == (not wait_ms)
    broker.clock.advance(wait_ms)
    assert [each.error_code for each in pending.answer().responses[0].partitions] == [0] * PARTITIONS


def test_failing_log_is_an_error_of_its_partition(broker: BrokerInMemory, unopened: Unopened) -> None:
    unopened.broken = {7}
    for answer in (broker.ask(list_offsets(), 7).topics, broker.ask(fetch(), 12).responses):
        assert [each.partition_index for each in answer[0].partitions if each.error_code] == [7]
        assert {each.error_code for each in answer[0].partitions} == {0, KafkaStorageError.code}


def test_waiting_fetch_opens_few_logs_of_a_topic_created_meanwhile(broker: BrokerInMemory) -> None:
    """Partitions that did not exist when the waiting began, and all of them in the turn that ends it."""
    requested = fetch()
    clicks = k01_fetch.Topic(topic="clicks", partitions=requested.topics[0].partitions)
    requested.topics = [k01_fetch.Topic(topic="orders", partitions=requested.topics[0].partitions[:1]), clicks]
    requested.max_wait_ms = 500
    pending = broker.begin(requested, 12)
    broker.cluster.create_topics([broker.cluster.new_topic("clicks", partition_count=PARTITIONS)], at_first_use=True)
    partitions = broker.cluster.topic("clicks").partitions
    broker.cluster.partition("orders", 0).wake()
    broker.clock.advance(500)
    assert pending.is_done
    assert sum(not each.is_unopened for each in partitions) <= AT_ONCE
