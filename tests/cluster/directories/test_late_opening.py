"""A topic of many partitions: it is all there at once, and its files come turn by turn."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from minibroker.clock import ManualClock, ManualTimer
from minibroker.cluster.directories.deferred import OPENED_AT_ONCE, RETRY_MS, TURN_MS
from minibroker.errors import KafkaStorageError
from minibroker.schemas import k03_metadata as k03
from minibroker.schemas import k10_find_coordinator as k10
from minibroker.schemas import k35_describe_log_dirs as k35
from tests.support.broker_in_memory import BrokerInMemory, records
from tests.support.faulty_files import FaultyFiles

COUNT = 5 * OPENED_AT_ONCE


@pytest.fixture
def broker() -> Iterator[BrokerInMemory]:
    broker = BrokerInMemory()
    broker.cluster.create_topic("orders", partition_count=COUNT)
    yield broker
    broker.cluster.close(clean=False)


def _folders(folder: Path) -> set[int]:
    return {int(path.name.rpartition("-")[2]) for path in folder.glob("orders-*")}


class _Turns(ManualClock):
    """A clock whose next turn comes when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.due: list[Callable[[], None]] = []

    def call_later_ms(self, delay_ms: int, callback: Callable[[], None]) -> ManualTimer:
        if delay_ms:
            return super().call_later_ms(delay_ms, callback)
        self.due.append(callback)
        return ManualTimer(callback)


def test_each_step_opens_a_few_logs() -> None:
    clock = _Turns()
    broker = BrokerInMemory(clock=clock)
    broker.cluster.create_topic("orders", partition_count=COUNT)
    for turns in range(1, 6):
        assert _folders(broker.folder) == set(range(turns * OPENED_AT_ONCE))
        if turns < 5:
            clock.due.pop(0)()
    assert not clock.due
    assert all(partition.online_log is not None for partition in broker.cluster.topics["orders"].partitions)


class _SlowDisk(FaultyFiles):
    """Takes some time to open a new log."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__()
        self._clock = clock
        self.folder_ms = 0  #: time that a new folder takes

    def make_directory(self, path: str) -> None:
        self._clock.jump(self.folder_ms)
        super().make_directory(path)


@pytest.mark.parametrize(("folder_ms", "opened"), [(TURN_MS, 1), (2, 3), (0, OPENED_AT_ONCE)])
def test_a_step_opens_fewer_logs_on_a_slow_disk(folder_ms: int, opened: int) -> None:
    clock = _Turns()
    files = _SlowDisk(clock)
    broker = BrokerInMemory(clock=clock, files=files)
    files.folder_ms = folder_ms
    broker.cluster.create_topic("orders", partition_count=COUNT)
    for turns in range(1, 4):
        assert len(_folders(broker.folder)) == turns * opened
        clock.due.pop(0)()


def test_accessing_a_log_opens_it(broker: BrokerInMemory) -> None:
    last = COUNT - 1
    assert broker.cluster.partition("orders", last).is_unopened
    assert broker.append("orders", last, records(3)).base_offset == 0
    assert _folders(broker.folder) == {*range(OPENED_AT_ONCE), last}
    broker.clock.advance(10)
    assert broker.cluster.partition("orders", last).log.log_end_offset == 3
    assert _folders(broker.folder) == set(range(COUNT))


def test_every_partition_has_a_leader_immediately(broker: BrokerInMemory) -> None:
    topics = [k03.Topic(name="orders")]
    [topic] = broker.ask(k03.Request(topics=topics, allow_auto_topic_creation=False), 9).topics
    assert [partition.error_code for partition in topic.partitions] == [0] * COUNT


def test_log_directories_list_unopened_partitions(broker: BrokerInMemory) -> None:
    [directory] = broker.ask(k35.Request(topics=None)).results
    assert sum(len(topic.partitions) for topic in directory.topics) == COUNT


def test_topic_deleted_before_opening_leaves_no_folder(broker: BrokerInMemory) -> None:
    broker.cluster.delete_topic("orders")
    broker.cluster.create_topic("orders", partition_count=1)
    broker.clock.advance(60_000)
    assert _folders(broker.folder) == {0}


def test_configuration_changed_before_opening_applies(broker: BrokerInMemory) -> None:
    broker.cluster.configs.alter_topic("orders", {"retention.ms": "7"})
    configs = [partition.log.config for partition in broker.cluster.topics["orders"].partitions]
    assert configs[0].retention_ms == 7
    assert all(config is configs[0] for config in configs)  # 5,000 partitions do not have one each


@pytest.mark.parametrize("clean", [True, False])
def test_stop_before_opening_loses_no_partition(broker: BrokerInMemory, clean: bool) -> None:
    again = broker.restart(clean=clean)
    assert _folders(broker.folder) == set(range(COUNT))
    assert all(partition.online_log is not None for partition in again.cluster.topics["orders"].partitions)
    again.cluster.close()


def test_disk_failure_takes_unopened_partitions_offline() -> None:
    files = FaultyFiles()
    broker = BrokerInMemory(files=files)
    broker.cluster.create_topic("orders", partition_count=COUNT)
    files.fail("open", errno.EIO, times=1000)
    partition = broker.cluster.partition("orders", COUNT - 1)
    with pytest.raises(KafkaStorageError):
        _ = partition.log
    assert not partition.is_online


def test_temporary_error_is_retried() -> None:
    """Too few descriptors: who asks is told so, and finds it open the next time; without being asked it opens a second later."""
    files = FaultyFiles()
    broker = BrokerInMemory(files=files)
    files.fail("open", errno.EMFILE, times=1000, path_part="orders-")
    broker.cluster.create_topic("orders", partition_count=COUNT)
    asked, others = broker.cluster.partition("orders", COUNT - 1), broker.cluster.partition("orders", 0)
    for _ in range(2):
        with pytest.raises(KafkaStorageError, match="Too many open files"):
            _ = asked.log
    assert asked.is_online
    broker.clock.advance(5 * RETRY_MS)
    assert all(partition.is_unopened for partition in broker.cluster.topics["orders"].partitions)
    files.heal()
    assert broker.append("orders", COUNT - 1, records(3)).base_offset == 0
    assert others.is_unopened
    broker.clock.advance(RETRY_MS)
    assert all(partition.online_log is not None for partition in broker.cluster.topics["orders"].partitions)
    assert _folders(broker.folder) == set(range(COUNT))


@pytest.mark.parametrize("operation", ["open", "rename"])
@pytest.mark.parametrize("clean", [True, False])
def test_interrupted_opening_is_resumed(operation: str, clean: bool) -> None:
    """Also a try by the next start: nothing is set aside, nothing is left over."""
    succeeding, failed = 0, True
    while failed:
        files = FaultyFiles()
        brokers = [BrokerInMemory(files=files), BrokerInMemory(files=files)]
        for broker in brokers:
            files.fail(operation, errno.EMFILE, after=succeeding, times=1000, path_part="orders-0")
            broker.cluster.create_topic("orders", partition_count=1)
            failed = broker.cluster.partition("orders", 0).is_unopened
            files.heal()
        again, restarted = brokers[0], brokers[1].restart(clean=clean)
        again.clock.advance(RETRY_MS)
        for broker in (again, restarted):
            assert broker.append("orders", 0, records(3)).base_offset == 0
            assert sorted(path.name for path in broker.folder.iterdir() if path.is_dir()) == ["__cluster_metadata-0", "orders-0"]
            broker.cluster.close(clean=False)
        succeeding += 1
    assert succeeding > 1


def test_stop_with_unopened_partitions_is_unclean() -> None:
    files = FaultyFiles()
    broker = BrokerInMemory(files=files)
    files.fail("open", errno.EMFILE, times=1000, path_part="orders-")
    broker.cluster.create_topic("orders", partition_count=2)
    broker.cluster.close()
    assert not (broker.folder / ".kafka_cleanshutdown").exists()
    files.heal()
    broker.clock.advance(10 * RETRY_MS)
    assert not any((folder / "00000000000000000000.log").exists() for folder in broker.folder.glob("orders-*"))  # it is closed


def test_first_group_only_waits_for_its_own_partition() -> None:
    broker = BrokerInMemory(config={"offsets.topic.num.partitions": "50", "transaction.state.log.num.partitions": "50"})
    for key_type in (k10.GROUP, k10.TRANSACTION):
        [found] = broker.ask(k10.Request(key_type=key_type, coordinator_keys=["readers"])).coordinators
        assert found.error_code == 0
    opened = [path for path in broker.folder.glob("__*_*-*") if "metadata" not in path.name]
    assert len(opened) <= 2 * (OPENED_AT_ONCE + 1)


@pytest.mark.parametrize("clean", [True, False])
def test_lazily_opened_partitions_have_no_files_before_first_use(clean: bool) -> None:
    broker = BrokerInMemory()
    cluster = broker.cluster
    cluster.create_topics([cluster.new_topic("orders", partition_count=COUNT)], at_first_use=True)
    cluster.create_topic("others", partition_count=1)
    broker.clock.advance(60_000)
    assert _folders(broker.folder) == set()
    assert (broker.folder / "others-0").is_dir()
    assert broker.append("orders", 3, records(2)).base_offset == 0
    assert _folders(broker.folder) == {3}
    again = broker.restart(clean=clean)
    assert _folders(broker.folder) == set(range(COUNT))
    assert again.cluster.partition("orders", 3).log.log_end_offset == 2
    again.cluster.close()


def test_log_directories_list_lazily_opened_partitions() -> None:
    broker = BrokerInMemory()
    broker.cluster.create_topics([broker.cluster.new_topic("orders", partition_count=COUNT)], at_first_use=True)
    [directory] = broker.ask(k35.Request(topics=None)).results
    assert sum(len(topic.partitions) for topic in directory.topics) == COUNT
