"""Transactions of one target partition, whatever breaks: each request of a task is lost, or its answer, or the task dies there.

Without Spark: the task that executors run is called with columns, once for each attempt, against a whole broker in memory.
Only a soak breaks each request of a task; other runs break every second one, or fewer (`every`).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import pytest

pytest.importorskip("pyarrow")

import numpy as np
import pyarrow as pa

from minibroker.client.client import Client
from minibroker.client.connection import Connect, Connection
from minibroker.client.errors import BrokerUnreachable, TopicReplaced
from minibroker.client.group_offsets import delete_offsets
from minibroker.client.topics import alter_configs, topic_id_of
from minibroker.client.transport import Address, Deadline
from minibroker.errors import MessageTooLarge
from minibroker.records.compression import Compression
from minibroker.schemas import k57_update_features
from minibroker.spark.failures import ReplayError
from minibroker.spark.replay.begin import Beginning, enter, look
from minibroker.spark.replay.encode import Columns, PackedBatch, Packer
from minibroker.spark.replay.ledger import Ledger, OffsetRun, Run, WrittenRanges, ledger_of, parse_ranges
from minibroker.spark.replay.writer import PartitionWriter, Target, WriterSettings
from minibroker.wire.schema import Buffer
from tests.support.broker_in_memory import BrokerInMemory
from tests.support.client_in_memory import TransportInMemory
from tests.support.committed_records import read_committed
from tests.support.soak import every

COUNT = 8
OLD_OFFSETS = [3 * number for number in range(COUNT)]  #: as transactions and compaction leave them


class Died(BaseException):
    """A worker is gone: nothing that it meant to do at its end is done."""


class Faults:
    """What happens to the n-th request of a client, from 0 on: `lost` on its way, its `answer` lost, or the client `dies` before it."""

    def __init__(self, kind: str = "", number: int = -1) -> None:
        self.kind = kind
        self.number = number
        self.count = 0

    def next(self) -> str:
        happens = self.kind if self.count == self.number or (self.kind == "dies" and self.count > self.number >= 0) else ""
        self.count += 1
        return happens


class FaultyTransport(TransportInMemory):
    def __init__(self, broker: BrokerInMemory, faults: Faults) -> None:
        super().__init__(broker)
        self._faults = faults
        self._is_broken = False

    def send(self, chunks: Sequence[Buffer], deadline: Deadline) -> None:
        fault = self._faults.next()
        if fault == "dies":
            raise Died
        if fault == "lost":
            raise BrokerUnreachable("the connection broke")
        super().send(chunks, deadline)
        self._is_broken = self._is_broken or fault == "answer"

    def receive(self, deadline: Deadline) -> memoryview:
        if self._is_broken:
            raise BrokerUnreachable("the connection broke")
        return super().receive(deadline)


def connecting(broker: BrokerInMemory, faults: Faults) -> Connect:
    def connect(address: Address, deadline: Deadline) -> Connection:
        connection = Connection(FaultyTransport(broker, faults), address)
        connection.negotiate(deadline)
        return connection

    return connect


class Cluster:
    """A broker for the many replays of a test."""

    def __init__(self, version: int = 2) -> None:
        self.broker = BrokerInMemory()
        if version < 2:
            update = k57_update_features.FeatureUpdate(feature="transaction.version", max_version_level=version, upgrade_type=2)
            assert self.broker.ask(k57_update_features.Request(feature_updates=[update])).error_code == 0
        self._numbers = itertools.count()

    def replaying(self, *, is_resumable: bool = True) -> Replaying:
        return Replaying(self.broker, f"it-{next(self._numbers)}", is_resumable=is_resumable)

    def request_count(self, *, is_resumable: bool = True) -> int:
        """How many requests an attempt has when nothing happens."""
        faults = Faults()
        replaying = self.replaying(is_resumable=is_resumable)
        replaying.attempt(faults)
        replaying.check()
        return faults.count


class Replaying:
    """A replay of COUNT records into partition 1 of a topic of its own, as often as is asked for."""

    def __init__(self, broker: BrokerInMemory, name: str, *, is_resumable: bool = True) -> None:
        self.broker = broker
        self.name = name
        self.topic = f"again-{name}"
        broker.cluster.create_topic(self.topic, partition_count=2)
        self.is_resumable = is_resumable
        self.run_id = "this-run"
        self.begin(self.run_id)
        with self.client() as client:
            topic_id = topic_id_of(client.topic(self.topic))
        self.target = Target("orders", 1, self.topic, 1, topic_id, 0, 1 << 20)

    def client(self, faults: Faults | None = None) -> Client:
        return Client("memory:1", timeout_ms=60_000, connect=connecting(self.broker, faults or Faults()))

    def begin(self, run_id: str) -> Beginning:
        with self.client() as client:
            beginning = look(client, self.name)
            number = beginning.last_run.run + 1 if beginning.last_run else 1
            enter(client, beginning, Run(number, run_id, 0, "a table", self.is_resumable, {}, {}))
        return beginning

    def settings(self) -> WriterSettings:
        return WriterSettings(self.name, 1, self.run_id, self.is_resumable, 250, 1_000_000, 60_000)

    def attempt(self, faults: Faults | None = None) -> PartitionWriter:
        """What a task does, in batches of two records and transactions of two."""
        with self.client(faults) as client:
            writer = PartitionWriter(client, self.settings(), self.target)
            for batch in batches():
                if not writer.is_done and batch.old_offsets[0] >= writer.position:
                    writer.add(batch)
            writer.commit()
        return writer

    def check(self) -> None:
        """All records once, in order; the ledger says where each is; progress is behind the last."""
        values = read_committed(self.broker, self.topic, 1)
        assert list(values.values()) == [b"value %d" % offset for offset in OLD_OFFSETS]
        ledger = Ledger()
        with self.client() as client:
            ledger.read_on(client, ledger_of(self.name))
            assert look(client, self.name).next_offsets == {(self.topic, 1): OLD_OFFSETS[-1] + 1}
        assert ledger.next_offsets() == {(self.topic, 1): OLD_OFFSETS[-1] + 1}
        assert {old: values[new] for old, new in mapping(self)} == {offset: b"value %d" % offset for offset in OLD_OFFSETS}
        assert len(mapping(self)) == COUNT
        written = ledger.by_run[1][self.topic, 1]
        assert (written.records, written.old_first, written.old_last) == (COUNT, 0, OLD_OFFSETS[-1])
        assert (written.new_first, written.new_last) == (min(values), max(values))


def mapping(replaying: Replaying) -> list[tuple[int, int]]:
    """Old and new offset of each record, as the ledger has them."""
    pairs = []
    for value in read_committed(replaying.broker, ledger_of(replaying.name), 0).values():
        assert value is not None
        if b'"ranges"' in value:
            for old_first, new_first, records in parse_ranges(value).runs:
                pairs += [(old_first + index, new_first + index) for index in range(records)]
    return pairs


def batches() -> Iterator[PackedBatch]:
    values = [b"value %d" % offset for offset in OLD_OFFSETS]
    keys = pa.nulls(COUNT, pa.binary())
    columns = Columns(keys, pa.array(values, pa.binary()), None, np.full(COUNT, 1_700_000_000_000), np.array(OLD_OFFSETS))
    yield from Packer(Compression.NONE, 1000, 2, 1 << 20).batches(columns, "again-1")


#: of transaction.version: below 2 there are AddPartitionsToTxn and AddOffsetsToTxn, and the epoch stays
VERSIONS = [1, 2]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", ["lost", "answer"])
def test_it_goes_on_whatever_request_is_lost(kind: str, version: int) -> None:
    cluster = Cluster(version)
    count = cluster.request_count()
    assert count > 20
    for number in every(2, range(1, count)):  # without an address that answers once, nothing is tried again
        replaying = cluster.replaying()
        faults = Faults(kind, number)
        replaying.attempt(faults)
        assert faults.count > number
        replaying.check()


@pytest.mark.parametrize("version", VERSIONS)
def test_a_worker_may_die_before_any_request(version: int) -> None:
    cluster = Cluster(version)
    for number in every(2, range(cluster.request_count())):
        replaying = cluster.replaying()
        with pytest.raises(Died):
            replaying.attempt(Faults("dies", number))
        replaying.attempt()
        replaying.check()
        replaying.attempt()  # and again when all is done
        replaying.check()


def test_a_partition_without_offsets_is_one_transaction() -> None:
    cluster = Cluster()
    for number in every(2, range(cluster.request_count(is_resumable=False))):
        replaying = cluster.replaying(is_resumable=False)
        with pytest.raises(Died):
            replaying.attempt(Faults("dies", number))
        assert len(read_committed(replaying.broker, replaying.topic, 1)) in {0, COUNT}
        assert replaying.attempt().is_done in {True, False}
        replaying.check()


def test_the_driver_goes_on_behind_a_worker_that_died() -> None:
    cluster = Cluster()
    for number in range(8, cluster.request_count(), 4):
        replaying = cluster.replaying()
        with pytest.raises(Died):
            replaying.attempt(Faults("dies", number))
        beginning = replaying.begin("next-run")
        committed = [offset for offset in OLD_OFFSETS if offset < beginning.next_offsets.get((replaying.topic, 1), 0)]
        assert list(read_committed(replaying.broker, replaying.topic, 1).values()) == [b"value %d" % offset for offset in committed]
        with pytest.raises(ReplayError, match=r"another run of replay it-\d+ has started"):
            replaying.attempt()
        replaying.run_id = "next-run"
        replaying.attempt()
        replaying.check()


def test_two_attempts_at_a_time_write_nothing_twice() -> None:
    replaying = Cluster().replaying()
    with replaying.client() as client, replaying.client() as other_client:
        writer = PartitionWriter(client, replaying.settings(), replaying.target)
        all_batches = list(batches())
        writer.add(all_batches[0])
        other = PartitionWriter(other_client, replaying.settings(), replaying.target)
        assert other.position == 0
        with pytest.raises(ReplayError, match="another attempt of replay it-0 has taken over"):
            writer.commit()
        for batch in all_batches:
            other.add(batch)
        other.commit()
    replaying.check()


def test_what_the_broker_aborted_is_written_again() -> None:
    """A transaction that took longer than its time-out, because the source was slow."""
    replaying = Cluster().replaying()
    now_s = 0.0
    with replaying.client() as client:
        writer = PartitionWriter(client, replaying.settings(), replaying.target, now_s=lambda: now_s)
        for batch in itertools.islice(batches(), 2):
            writer.add(batch)
        replaying.broker.clock.advance(200_000)
        now_s = 200.0
        writer.commit()
    replaying.attempt()
    replaying.check()


def test_progress_that_the_group_forgot_is_in_the_ledger() -> None:
    """Committed offsets of a group without members go after seven days."""
    replaying = Cluster().replaying()
    replaying.attempt()
    with replaying.client() as client:
        delete_offsets(client, ledger_of(replaying.name), [(replaying.topic, 1), (ledger_of(replaying.name), 0)])
        beginning = look(client, replaying.name)
    assert beginning.next_offsets == {(replaying.topic, 1): OLD_OFFSETS[-1] + 1}


def test_what_does_not_pass_is_told_at_once() -> None:
    replaying = Cluster().replaying()
    with replaying.client() as client:
        alter_configs(client, replaying.topic, {"max.message.bytes": "80"})
        writer = PartitionWriter(client, replaying.settings(), replaying.target)
        with pytest.raises(MessageTooLarge, match="again-it-0-1: "):
            writer.add(next(batches()))
        writer.abort()
    assert read_committed(replaying.broker, replaying.topic, 1) == {}


def test_a_topic_created_anew_gets_nothing() -> None:
    replaying = Cluster().replaying()
    with replaying.client() as client:
        writer = PartitionWriter(client, replaying.settings(), replaying.target._replace(topic_id="another"))
        with pytest.raises(TopicReplaced, match="topic again-it-0 was deleted and created again"):
            writer.add(next(batches()))


def test_ranges_in_values_of_bounded_size() -> None:
    runs = [OffsetRun(2 * number, number, 1) for number in range(25_000)]
    values = WrittenRanges(1, ("again", 1), ("orders", 1), 50_000, 4711, runs).values()
    assert len(values) == 3
    assert max(map(len, values)) < 300_000
    ledger = Ledger()
    for value in values:
        ledger.note(parse_ranges(value))
    written = ledger.by_run[1]["again", 1]
    assert (written.records, written.old_last, written.new_last, written.byte_count) == (25_000, 49_998, 24_999, 4711)
    assert ledger.next_offsets() == {("again", 1): 50_000}
