"""`__consumer_offsets` read and written: what survives, what a load does, what happens to a log that cannot be used."""

from __future__ import annotations

import errno
import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from minibroker.cluster.partition import Partition
from minibroker.coordinator import stored_topic
from minibroker.coordinator.group.coordinator import GroupCoordinator
from minibroker.coordinator.group.offsets import Offsets
from minibroker.coordinator.stored_topic import batch_of, partition_of
from minibroker.errors import CoordinatorLoadInProgress, NotCoordinator
from minibroker.records.batch import RecordBatch
from minibroker.records.builder import build_batch
from minibroker.records.record import Record
from minibroker.schemas import k20_delete_topics as k20
from minibroker.storage.record_frame import CoordinatorRecord, RecordFrame
from tests.support.broker_in_memory import BrokerInMemory
from tests.support.committed_offsets import TOPIC, broker_with_groups, commit, commit_in_transaction, fetch, groups_of
from tests.support.faulty_files import FaultyFiles
from tests.support.transactional_ids import init_producer


def test_offsets_topic_config_matches_kafka() -> None:
    broker = BrokerInMemory(config={"offsets.topic.segment.bytes": "1048576"})
    groups_of(broker)
    topic = broker.cluster.topic(TOPIC)
    assert len(topic.partitions) == 50
    assert topic.config == {"cleanup.policy": "compact", "compression.type": "producer", "segment.bytes": "1048576"}


@pytest.mark.parametrize("clean", [True, False])
def test_offsets_survive(clean: bool) -> None:
    broker = BrokerInMemory({"a": 2})
    groups_of(broker)
    groups = [f"group-{index}" for index in range(20)]
    for index, group in enumerate(groups):
        commit(broker, {("a", 0): index, ("a", 1): 2 * index}, group=group)
    assert len({partition_of(group) for group in groups}) > 5

    again = broker.restart(clean=clean)
    for index, group in enumerate(groups):
        assert fetch(again, group=group) == {("a", 0): index, ("a", 1): 2 * index}


def test_partitions_are_loaded_on_first_use(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = broker_with_groups({"a": 1}, {"offsets.topic.num.partitions": "2"})
    commit(broker, {("a", 0): 1}, group="one")
    reads: list[int] = []

    def read(partition: Partition) -> Iterator[tuple[int, list[RecordBatch]]]:
        reads.append(partition.index)
        return iter(())

    monkeypatch.setattr(stored_topic, "read_pieces", read)
    again = broker.restart()
    groups_of(again)
    assert reads == []
    fetch(again, group="one")
    assert reads == [partition_of("one", 2)]


def large_log(broker: BrokerInMemory, commits: int) -> None:
    for index in range(commits):
        commit(broker, {("a", 0): index}, metadata="x" * 1000)


def test_large_log_is_loaded_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = broker_with_groups({"a": 1})
    large_log(broker, 20)
    ids = init_producer(broker)
    commit_in_transaction(broker, ids, {("a", 0): 99})
    monkeypatch.setattr(stored_topic, "READ_BYTES", 4_000)
    again = broker.restart()
    groups = groups_of(again)

    with pytest.raises(CoordinatorLoadInProgress):
        groups.fetch("readers", require_stable=False)
    assert commit(again, {("a", 0): 1}) == [("a", [(0, 14)])]
    assert fetch(again) == {("error", 14): None}
    again.services.coordinators.transactions.end_transaction(
        "payments", ids, commit=True, client_transaction_version=2, done=lambda _: None
    )
    again.clock.advance(0)
    again.clock.advance(1)
    assert fetch(again) == {("a", 0): 99}  # the marker came while it was loading


def test_loading_stops_with_the_coordinator(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = broker_with_groups({"a": 1})
    large_log(broker, 20)
    monkeypatch.setattr(stored_topic, "READ_BYTES", 4_000)
    again = broker.restart()
    assert fetch(again) == {("error", 14): None}
    again.services.coordinators.stop()
    again.clock.advance(1_000)
    assert fetch(again) == {("error", 14): None}


def test_offsets_are_deleted_with_their_topic() -> None:
    broker = broker_with_groups({"a": 1, "b": 1})
    commit(broker, {("a", 0): 1, ("b", 0): 2})
    commit(broker, {("a", 0): 3}, group="others")
    commit_in_transaction(broker, init_producer(broker), {("a", 0): 7}, group="pending")
    delete(broker, "a")

    for _ in range(2):
        assert fetch(broker) == {("b", 0): 2}
        assert fetch(broker, group="others") == {}
        assert fetch(broker, [("a", 0)], group="pending", require_stable=True) == {("a", 0): -1}
        broker = broker.restart(clean=False)


def test_deleted_topics_of_one_request_share_one_scan(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = broker_with_groups(dict.fromkeys("abcd", 1))
    commit(broker, {(name, 0): 1 for name in "abcd"})
    looks: list[object] = []
    everything = Offsets.all

    def look(offsets: Offsets) -> Any:
        looks.append(offsets)
        return everything(offsets)

    monkeypatch.setattr(Offsets, "all", look)
    broker.ask(k20.Request(topic_names=["a", "b", "c"], timeout_ms=0), 5)
    broker.clock.advance(0)
    assert len(looks) == 1
    assert fetch(broker) == {("d", 0): 1}


def test_recreated_topic_keeps_only_new_offsets() -> None:
    broker = broker_with_groups({"a": 1})
    commit(broker, {("a", 0): 1})
    delete(broker, "a")
    broker.cluster.create_topic("a")
    commit(broker, {("a", 0): 2})
    broker.clock.advance(0)
    assert fetch(broker) == {("a", 0): 2}


def delete(broker: BrokerInMemory, topic: str) -> None:
    assert broker.ask(k20.Request(topic_names=[topic], timeout_ms=0), 5).responses[0].error_code == 0


def test_topic_deleted_before_its_offsets_are_loaded() -> None:
    broker = broker_with_groups({"a": 1, "b": 1})
    commit(broker, {("a", 0): 1, ("b", 0): 2})
    again = broker.restart()
    delete(again, "a")
    again.cluster.create_topic("a")
    assert fetch(again) == {("b", 0): 2}
    commit(again, {("a", 0): 5})
    assert fetch(again.restart()) == {("b", 0): 2, ("a", 0): 5}


@pytest.mark.parametrize("is_made_again", [False, True])
def test_deletion_interrupted_by_a_crash(is_made_again: bool) -> None:
    broker = broker_with_groups({"a": 1, "b": 1})
    commit(broker, {("a", 0): 1, ("b", 0): 2})
    hear, broker.cluster.on_topic_deleted = broker.cluster.on_topic_deleted, []
    broker.cluster.delete_topic("a")
    broker.cluster.on_topic_deleted = hear
    if is_made_again:
        broker.cluster.create_topic("a")
    assert fetch(broker) == {("a", 0): 1, ("b", 0): 2}
    again = broker.restart(clean=False)
    assert fetch(again) == {("b", 0): 2}
    if not is_made_again:
        again.cluster.create_topic("a")
    assert fetch(again.restart()) == {("b", 0): 2}


def test_tombstones_are_split_into_batches() -> None:
    broker = broker_with_groups({"a": 200}, {"message.max.bytes": "4000"})
    for first in range(0, 200, 20):
        assert commit(broker, {("a", index): 1 for index in range(first, first + 20)})[0][1][0] == (first, 0)
    delete(broker, "a")
    assert fetch(broker) == {}
    assert fetch(broker.restart()) == {}


def test_recreated_offsets_topic_is_empty() -> None:
    broker = broker_with_groups({"a": 1})
    commit(broker, {("a", 0): 1})
    broker.cluster.delete_topic(TOPIC)
    assert fetch(broker) == {("error", 16): None}
    groups_of(broker)
    assert fetch(broker) == {}
    commit(broker, {("a", 0): 2})
    assert fetch(broker) == {("a", 0): 2}


def test_disk_failure_takes_the_coordinator_offline() -> None:
    files = FaultyFiles()
    broker = broker_with_groups({"a": 1}, files=files)
    commit(broker, {("a", 0): 1})
    files.fail("write", errno.ENOSPC)
    assert commit(broker, {("a", 0): 2, ("a", 9): 2}) == [("a", [(9, 3), (0, 16)])]
    files.heal()
    assert fetch(broker) == {("error", 16): None}
    assert fetch(broker.restart(clean=False)) == {("a", 0): 1}


def damage(broker: BrokerInMemory, before: bytes, after: bytes) -> BrokerInMemory:
    """Stop the broker, change some bytes of its log, and start it again."""
    broker.services.coordinators.stop()
    broker.cluster.close(clean=True)
    segment = next(Path(broker.folder).glob(f"{TOPIC}-0/*.log"))
    assert segment.read_bytes().count(before) == 1
    segment.write_bytes(segment.read_bytes().replace(before, after))
    return BrokerInMemory(folder=broker.folder, clock=broker.clock, config=broker.config.static)


def test_damaged_batch_is_skipped(caplog: pytest.LogCaptureFixture) -> None:
    broker = broker_with_groups({"a": 1})
    commit(broker, {("a", 0): 1}, group="others")
    commit(broker, {("a", 0): 2})
    commit(broker, {("a", 0): 3}, metadata="here it is")
    commit(broker, {("a", 0): 4}, group="later")
    again = damage(broker, b"here it is", b"there it w")
    with caplog.at_level(logging.ERROR):
        found = [fetch(again, group=group) for group in ("others", "readers", "later")]
    assert found == [{("a", 0): 1}, {("a", 0): 2}, {("a", 0): 4}]
    assert [record.getMessage() for record in caplog.records] == [
        f"{TOPIC}-0: skipped 1 damaged batches at offset 2: their groups lost state"
    ]
    commit(again, {("a", 0): 5})
    assert fetch(again.restart(clean=False)) == {("a", 0): 5}  # recovery would cut the log at the damaged batch


@pytest.mark.parametrize("size", [100, 70_000])
def test_damaged_batch_does_not_hide_the_next_one(size: int) -> None:
    """Its last offset is not to be trusted, alone in a piece of the log or the last one in it."""
    broker = broker_with_groups({"a": 30}, {"offset.metadata.max.bytes": "5000"})
    commit(broker, {("a", index): 1 for index in range(size // 4000 + 1)}, metadata="m" * min(size, 4000))
    commit(broker, {("a", 0): 2}, group="later")
    broker.services.coordinators.stop()
    broker.cluster.close(clean=True)
    segment = next(Path(broker.folder).glob(f"{TOPIC}-0/*.log"))
    data = bytearray(segment.read_bytes())
    data[25] ^= 1  # last_offset_delta, which is 65,536 more
    segment.write_bytes(data)
    again = BrokerInMemory(folder=broker.folder, clock=broker.clock, config=broker.config.static)
    assert fetch(again, group="later") == {("a", 0): 2}
    assert fetch(again) == {}


def test_damaged_transactional_batch_stops_loading(caplog: pytest.LogCaptureFixture) -> None:
    broker = broker_with_groups({"a": 1})
    ids = init_producer(broker)
    commit_in_transaction(broker, ids, {("a", 0): 1}, metadata="here it is")
    again = damage(broker, b"here it is", b"there it w")
    with caplog.at_level(logging.ERROR):
        assert fetch(again) == {("error", 16): None}
    assert commit(again, {("a", 0): 2}) == [("a", [(0, 16)])]
    assert [f"could not read {TOPIC}-0: " in record.getMessage() for record in caplog.records] == [True]


def test_unknown_record_types_are_skipped(caplog: pytest.LogCaptureFixture) -> None:
    broker = broker_with_groups({"a": 1})
    commit(broker, {("a", 0): 1})
    broker.cluster.partition(TOPIC, 0).log.append_own(build_batch([Record(0, 0, b"\x00\x63later", b"\x00\x00value")]))
    assert fetch(broker.restart()) == {("a", 0): 1}
    assert [record.getMessage() for record in caplog.records] == [
        f"{TOPIC}-0: skipped 1 records of unknown types (99), which a newer version may have written"
    ]


def test_stopped_coordinator_ignores_events() -> None:
    broker = broker_with_groups({"a": 1})
    commit(broker, {("a", 0): 1})
    groups: Any = broker.services.coordinators.groups
    assert isinstance(groups, GroupCoordinator)
    groups.stop()
    broker.cluster.delete_topic("a")
    broker.clock.advance(10**7)
    with pytest.raises(NotCoordinator):
        BrokerInMemory().services.coordinators.groups.fetch("readers", require_stable=False)
    assert fetch(broker) == {("a", 0): 1}


def test_tombstones_are_built_once(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = broker_with_groups({"a": 500}, {"offsets.topic.num.partitions": "1"})
    for group in ("one", "two", "three", "four", "five"):
        commit(broker, {("a", index): index for index in range(500)}, group=group)
    partition = broker.cluster.partition(TOPIC, 0)
    first_offset = partition.log.log_end_offset
    built: list[int] = []

    def counting(frame: RecordFrame, records: Sequence[CoordinatorRecord], *arguments: Any) -> bytearray:
        built.append(len(records))
        return batch_of(frame, records, *arguments)

    monkeypatch.setattr(stored_topic, "batch_of", counting)
    broker.cluster.delete_topic("a")
    broker.clock.advance(0)

    assert partition.log.log_end_offset - first_offset == sum(built) == 2500
    assert max(built) <= stored_topic.RECORDS_A_BATCH
