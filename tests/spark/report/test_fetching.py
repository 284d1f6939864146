"""Ranges from a leader that goes away, loses records, or has another topic of the same name: asked of a broker in memory."""

from __future__ import annotations

import pytest

pytest.importorskip("numpy")
pytest.importorskip("pyarrow")

from minibroker.client.client import Client
from minibroker.client.connection import Connect, Connection
from minibroker.client.errors import BrokerUnreachable, TimedOut, TopicReplaced
from minibroker.client.transport import Address, Deadline
from minibroker.errors import UnknownTopicOrPartition
from minibroker.records.control import ControlType
from minibroker.schemas import k18_api_versions, k19_create_topics, k20_delete_topics, k21_delete_records
from minibroker.spark.failures import SourceError
from minibroker.spark.report import reading, report
from minibroker.spark.report.counting import Counter, CountLimits
from minibroker.spark.report.reading import FetchTask, RangeFetcher
from minibroker.spark.report.runs import RangeSummary
from minibroker.spark.sources.cluster import ClusterSource
from minibroker.wire.schema import NIL_UUID
from tests.support.broker_in_memory import BrokerInMemory, records
from tests.support.client_in_memory import TransportInMemory, connector
from tests.support.compacting import end_transaction
from tests.support.log_batches import idempotent_batch


@pytest.fixture
def broker() -> BrokerInMemory:
    """Three batches of ten records, then an aborted transaction and one that is open."""
    broker = BrokerInMemory(topics={"orders": 1})
    for _ in range(3):
        broker.append("orders", 0, records(10))
    log = broker.cluster.partition("orders", 0).log
    one, other = broker.cluster.metadata.allocate_producer_id(), broker.cluster.metadata.allocate_producer_id()
    log.append(idempotent_batch(one, 0, b"a", b"b", is_transactional=True))
    end_transaction(log, one, ControlType.ABORT)
    log.append(idempotent_batch(other, 0, b"open", is_transactional=True))
    return broker


def task(broker: BrokerInMemory, isolation_level: str = "read_committed") -> FetchTask:
    resolved = ClusterSource("memory:1", isolation_level=isolation_level, connect=connector(broker)).resolve(["orders"])
    return FetchTask("memory:1", isolation_level, resolved.topic_ids["orders"], resolved.ranges[0])


def counted(fetch_task: FetchTask, connect: Connect, *, timeout_ms: int = 30_000) -> RangeSummary:
    start, end = fetch_task.range.start_offset, fetch_task.range.end_offset
    counter = Counter(CountLimits(start, end, 86_400_000, 10, 1), start, end)
    with Client("memory:1", connect=connect, timeout_ms=timeout_ms) as client:
        for piece in RangeFetcher(client, fetch_task).pieces():
            counter.add(piece)
    return counter.summary()


@pytest.mark.parametrize("chunk_bytes", [1, 4 << 20])
def test_in_large_answers_and_in_small_ones(broker: BrokerInMemory, chunk_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "CHUNK_BYTES", chunk_bytes)
    found = counted(task(broker), connector(broker))
    assert (found.end_offset, found.record_count, found.aborted_count, found.control_count, found.batch_count) == (33, 30, 2, 1, 5)
    found = counted(task(broker, "read_uncommitted"), connector(broker))
    assert (found.end_offset, found.record_count, found.aborted_count, found.control_count) == (34, 33, 0, 1)


class Flaky(TransportInMemory):
    """Breaks at every fifth answer: after ApiVersions, Metadata and two Fetches."""

    received = 0

    def receive(self, deadline: Deadline) -> memoryview:
        Flaky.received += 1
        if Flaky.received % 5 == 0:
            raise BrokerUnreachable("gone")
        return super().receive(deadline)


def test_a_connection_that_breaks_again_and_again(broker: BrokerInMemory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "CHUNK_BYTES", 1)
    fetch_task = task(broker)

    def connect(address: Address, deadline: Deadline) -> Connection:
        connection = Connection(Flaky(broker), address)
        connection.negotiate(deadline)
        return connection

    Flaky.received = 0
    assert counted(fetch_task, connect) == counted(fetch_task, connector(broker))
    assert Flaky.received > 5


def test_records_that_are_deleted_meanwhile(broker: BrokerInMemory) -> None:
    fetch_task = task(broker)
    partition = k21_delete_records.Partition(partition_index=0, offset=5)
    broker.ask(k21_delete_records.Request(topics=[k21_delete_records.Topic(name="orders", partitions=[partition])], timeout_ms=1000))
    with pytest.raises(SourceError, match="orders-0: offset 0 was deleted before it was read: run it again"):
        counted(fetch_task, connector(broker))


def test_a_topic_that_is_made_anew_meanwhile(broker: BrokerInMemory) -> None:
    fetch_task = task(broker)
    broker.ask(
        k20_delete_topics.Request(
            topics=[k20_delete_topics.Topic(name="orders", topic_id=NIL_UUID)], topic_names=["orders"], timeout_ms=1000
        )
    )
    topic = k19_create_topics.Topic(name="orders", num_partitions=1, replication_factor=1, assignments=[], configs=[])
    broker.ask(k19_create_topics.Request(topics=[topic], timeout_ms=1000))
    with pytest.raises(TopicReplaced, match="orders was deleted and created again"):
        counted(fetch_task, connector(broker))


def test_a_leader_that_never_sends_the_end(broker: BrokerInMemory) -> None:
    """Whoever asks for more than there is waits no longer than its time-out."""
    fetch_task = task(broker, "read_uncommitted")
    beyond = FetchTask(fetch_task.bootstrap_servers, "read_committed", fetch_task.topic_id, fetch_task.range)
    with pytest.raises((TimedOut, AssertionError), match=r"gave up|the request waits"):
        counted(beyond, connector(broker), timeout_ms=50)


def test_what_old_brokers_do_not_know_is_noted(broker: BrokerInMemory) -> None:
    """The rest is told all the same."""

    def connect(address: Address, deadline: Deadline) -> Connection:
        connection = Connection(TransportInMemory(broker), address)
        connection.negotiate(deadline)
        known = [each for each in connection.api_versions.api_keys if each.api_key not in {61, 66, 35}]
        connection.api_versions = k18_api_versions.Response(error_code=0, api_keys=known)
        return connection

    found = report(bootstrap_servers="memory:1", scan=False, connect=connect)
    assert [note.partition(" are unknown: ")[0] for note in found.notes] == ["sizes", "producers", "transactions"]
    (info,) = found.topics[0].partitions
    assert (info.log_start_offset, info.last_stable_offset, info.high_watermark, info.size, info.producers) == (0, 33, 34, None, ())
    assert "Note: sizes are unknown: localhost:9092 does not serve DescribeLogDirs" in found.to_text()


def test_no_topic_is_made_by_asking_for_it(broker: BrokerInMemory) -> None:
    with pytest.raises(SourceError, match="no topic nobody"):
        report(bootstrap_servers="memory:1", topics=["nobody"], scan=False, connect=connector(broker))
    with pytest.raises(UnknownTopicOrPartition):
        broker.cluster.topic("nobody")
