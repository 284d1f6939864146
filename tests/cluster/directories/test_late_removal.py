"""A topic of many open logs: it is gone at once, and its folders lose their names turn by turn."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from minibroker.cluster.cluster import Cluster
from minibroker.cluster.directories.deferred import TURN_MS
from minibroker.errors import UnknownTopicOrPartition
from minibroker.schemas import k19_create_topics as k19
from minibroker.schemas import k20_delete_topics as k20
from minibroker.schemas import k35_describe_log_dirs as k35
from minibroker.wire.schema import NIL_UUID
from tests.cluster.crashing import Died, MortalFiles, bury, start
from tests.support.broker_in_memory import BrokerInMemory, records
from tests.support.faulty_files import FaultyFiles
from tests.support.turns import shortest_slices, turn, turns

COUNT, AT_ONCE = 20, 3
SNAPSHOTS = "metadata.log.max.record.bytes.between.snapshots"


@pytest.fixture(autouse=True)
def few_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("minibroker.cluster.directories.deferred.REMOVED_AT_ONCE", AT_ONCE)


@pytest.fixture
def files() -> FaultyFiles:
    return FaultyFiles()


@pytest.fixture
def broker(files: FaultyFiles) -> Iterator[BrokerInMemory]:
    broker = BrokerInMemory(files=files, config={SNAPSHOTS: "1"})
    create(broker.cluster)
    yield broker
    broker.cluster.close(clean=False)


def create(cluster: Cluster) -> None:
    cluster.create_topic("orders", partition_count=COUNT)
    cluster.logs.finish_opening()


def named(folder: Path) -> set[int]:
    """Partitions whose folders have their names."""
    return {int(path.name.removeprefix("orders-")) for path in folder.glob("orders-*") if path.suffix == ""}


def leftovers(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.name.endswith(("-delete", "-stray"))]


def delete(broker: BrokerInMemory) -> None:
    topics = [k20.Topic(name="orders", topic_id=NIL_UUID)]
    assert [each.error_code for each in broker.ask(k20.Request(topics=topics, timeout_ms=1000)).responses] == [0]


def test_each_step_removes_a_few_folders(broker: BrokerInMemory, files: FaultyFiles) -> None:
    partition = broker.cluster.partition("orders", COUNT - 1)
    delete(broker)
    assert named(broker.folder) == set(range(AT_ONCE, COUNT))
    with pytest.raises(UnknownTopicOrPartition):
        _ = partition.log
    [directory] = broker.ask(k35.Request(topics=None)).results
    assert not directory.topics
    for first in range(2 * AT_ONCE, COUNT + AT_ONCE, AT_ONCE):
        turn(broker)
        assert named(broker.folder) == set(range(first, COUNT))
    opened = files.counts["open"]
    turn(broker)
    assert files.counts["open"] == opened


def test_each_step_removes_fewer_folders_on_a_slow_disk(broker: BrokerInMemory, monkeypatch: pytest.MonkeyPatch) -> None:
    rename = broker.cluster.logs._files.rename

    def slow(source: str, target: str) -> None:
        broker.clock.jump(TURN_MS)
        rename(source, target)

    monkeypatch.setattr(broker.cluster.logs._files, "rename", slow)
    delete(broker)
    for removed in range(1, COUNT):
        assert named(broker.folder) == set(range(removed, COUNT))
        turn(broker)


def test_recreated_topic_replaces_pending_folders_of_the_old_one(broker: BrokerInMemory) -> None:
    old = broker.cluster.topics["orders"].topic_id
    broker.append("orders", COUNT - 1, records(3))
    delete(broker)
    broker.cluster.create_topic("orders", partition_count=COUNT)
    assert broker.append("orders", COUNT - 1, records(2)).base_offset == 0
    broker.clock.advance(10)
    new = broker.cluster.topics["orders"]
    assert new.topic_id != old
    assert named(broker.folder) == set(range(COUNT))
    assert [each.log.log_end_offset for each in new.partitions] == [0] * (COUNT - 1) + [2]
    again = broker.restart()
    assert [each.log.log_end_offset for each in again.cluster.topics["orders"].partitions] == [0] * (COUNT - 1) + [2]
    again.cluster.close()


def test_old_folder_name_is_synced_away_before_a_new_log_uses_it(broker: BrokerInMemory, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    for method, path_of in (("rename", 0), ("sync_directory", 0), ("make_directory", 0)):
        original = getattr(broker.cluster.logs._files, method)

        def note(*arguments: str, method: str = method, path_of: int = path_of, original: object = original) -> object:
            if arguments[path_of] in {str(broker.folder), f"{broker.folder}/orders-{COUNT - 1}"}:
                seen.append(method)
            return original(*arguments)  # type: ignore[operator]

        monkeypatch.setattr(broker.cluster.logs._files, method, note)
    delete(broker)
    broker.cluster.create_topic("orders", partition_count=COUNT)
    seen.clear()
    broker.append("orders", COUNT - 1, records(1))
    assert seen[:3] == ["rename", "sync_directory", "make_directory"]


@pytest.mark.parametrize("clean", [True, False])
def test_stop_between_two_steps_leaves_no_folders(broker: BrokerInMemory, clean: bool) -> None:
    delete(broker)
    again = broker.restart(clean=clean)
    assert not named(again.folder)
    assert not leftovers(again.folder)
    again.cluster.close()


def test_no_snapshot_is_taken_before_the_last_folder_is_renamed(broker: BrokerInMemory, tmp_path: Path) -> None:
    delete(broker)
    snapshots = list(broker.cluster.metadata.log.snapshots)
    broker.cluster.create_topic("more", partition_count=1)
    assert broker.cluster.metadata.log.snapshots == snapshots
    crashed = tmp_path / "crashed"
    shutil.copytree(broker.folder, crashed)
    cluster = start(crashed)
    assert not named(crashed)
    assert not leftovers(crashed)
    cluster.close()
    broker.clock.advance(10)
    broker.cluster.create_topic("after", partition_count=1)
    assert broker.cluster.metadata.log.snapshots != snapshots


def test_crash_before_every_disk_change(tmp_path: Path) -> None:
    died, lives = True, 0
    while died:
        folder, died = tmp_path / str(lives), False
        cluster = start(folder, files := MortalFiles(1 << 40))
        cluster.create_topic("orders", partition_count=4 * AT_ONCE)
        cluster.logs.finish_opening()
        files.lives = lives
        try:
            cluster.delete_topic("orders")
            cluster.create_topic("orders", partition_count=1)
            cluster.close()
        except Died:
            died = True
            bury(cluster)
        again = start(folder)
        assert named(folder) == {each.index for topic in again.topics.values() for each in topic.partitions}
        assert not leftovers(folder)
        again.close()
        lives += 1
    assert lives > 4 * AT_ONCE


def test_removal_stops_when_the_directory_fails(broker: BrokerInMemory) -> None:
    delete(broker)
    left = named(broker.folder)
    broker.cluster.logs._take_offline(broker.cluster.log_directories[0], OSError(5, "gone"))
    broker.clock.advance(10)
    assert named(broker.folder) == left


def test_topics_are_deleted_and_looked_up_in_steps(broker: BrokerInMemory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("minibroker.handlers.k20_delete_topics.STEP_PARTITIONS", 10)
    names = [f"t-{number}" for number in range(12)]
    topics = [k19.Topic(name=name, num_partitions=5, replication_factor=-1, assignments=[], configs=[]) for name in names]
    assert {each.error_code for each in broker.ask(k19.Request(topics=topics, timeout_ms=1000)).topics} == {0}
    shortest_slices(broker)
    pending = broker.begin(k20.Request(topics=[k20.Topic(name=name, topic_id=NIL_UUID) for name in names], timeout_ms=1000))
    assert set(names) - set(broker.cluster.topics) == set(names[:2])
    broker.cluster.delete_topic(names[-1])
    before = 9
    for _ in turns(broker, pending):
        now = len(broker.cluster.topics.keys() & set(names))
        assert before - now <= 2
        before = now
    codes = [each.error_code for each in pending.answer().responses]
    assert codes == [0] * 11 + [UnknownTopicOrPartition.code]
