"""A day's work of a broker as steps that are acknowledged one by one, and a process that dies before any change of the disk.

Who interrupts it finds in `State` what was acknowledged: topics with their configs and the values of each partition.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from minibroker.background import InlineBackground
from minibroker.clock import ManualClock
from minibroker.cluster.cluster import Cluster
from minibroker.cluster.metadata.frame import run
from minibroker.config.broker_config import BrokerConfig
from minibroker.storage.files import READ_ONLY, RealFiles
from tests.support.log_batches import batch_of, read_values
from tests.support.losing_files import LosingFiles

if TYPE_CHECKING:
    from typing_extensions import Buffer

Topic = tuple[dict[str, str], list[list[bytes]]]  #: configs, values of each partition
State = dict[str, Topic]
Step = Callable[[Cluster, State], object]
LAST_FORGOTTEN = 4  #: log start offset of the one partition whose records are deleted, in the end


class Died(BaseException):
    """SIGKILL, as far as one process can play it."""


class MortalFiles(RealFiles):
    """Dies before its `lives`-th change of the disk; a write is torn."""

    def __init__(self, lives: int) -> None:
        super().__init__()
        self.lives = lives

    def _live(self) -> None:
        self.lives -= 1
        if self.lives < 0:
            raise Died

    def open(self, path: str, flags: int) -> int:
        if flags != READ_ONLY:
            self._live()
        return super().open(path, flags)

    def write(self, descriptor: int, data: Buffer, /) -> int:
        if self.lives == 0:
            RealFiles.write(descriptor, memoryview(data)[: len(memoryview(data)) // 2])
        self._live()
        return RealFiles.write(descriptor, data)

    def truncate(self, descriptor: int, size: int) -> None:
        self._live()
        RealFiles.truncate(descriptor, size)

    def rename(self, source: str, target: str) -> None:  # type: ignore[override]
        self._live()
        super().rename(source, target)

    def remove(self, path: str) -> None:
        self._live()
        super().remove(path)

    def make_directory(self, path: str) -> None:
        self._live()
        super().make_directory(path)

    def remove_directory(self, path: str) -> None:
        self._live()
        super().remove_directory(path)

    def sync(self, descriptor: int) -> None:
        pass

    def sync_directory(self, path: str) -> None:
        pass


class DoomedFiles(MortalFiles, LosingFiles):
    """Dies before its `lives`-th change of the disk, and the power goes with it."""

    def __init__(self, folder: Path, lives: int) -> None:
        LosingFiles.__init__(self, folder)
        self.lives = lives

    sync = LosingFiles.sync
    sync_directory = LosingFiles.sync_directory


def start(folder: Path, files: RealFiles | None = None) -> Cluster:
    """A broker without sockets on `folder`; nothing is synced unless `files` do."""
    config = BrokerConfig(
        {
            "log.dirs": str(folder),
            "listeners": "PLAINTEXT://localhost:9092",
            "log.index.interval.bytes": "1",
            "log.segment.delete.delay.ms": "1000",
        }
    )
    return Cluster.open(config, MortalFiles(1 << 40) if files is None else files, ManualClock(), InlineBackground())


def bury(cluster: Cluster) -> None:
    """What the system does with the descriptors of a process that died."""
    for topic in cluster.topics.values():
        for partition in topic.partitions:
            if partition.online_log is not None:
                partition.online_log._release("dead")
    for directory in cluster.log_directories:
        directory.release()
    cluster.metadata.log.close()


def create(name: str, count: int, **configs: str) -> Step:
    def step(cluster: Cluster, state: State) -> None:
        given = {key.replace("_", "."): value for key, value in configs.items()}
        state[name] = (given, [[] for _ in range(count)])
        cluster.create_topic(name, partition_count=count, configs=dict(given))

    return step


def delete(name: str) -> Step:
    def step(cluster: Cluster, state: State) -> None:
        del state[name]
        cluster.delete_topic(name)

    return step


def produce(name: str, index: int, value: bytes) -> Step:
    def step(cluster: Cluster, state: State) -> None:
        values = state[name][1][index]
        values.append(value)
        partition = cluster.partition(name, index)
        assert partition.append(batch_of(value)).base_offset == len(values) - 1
        partition.log.flusher.flush()  # as with log.flush.interval.messages=1, before the acknowledgement

    return step


def alter(name: str, key: str, value: str) -> Step:
    def step(cluster: Cluster, state: State) -> None:
        state[name][0][key] = value
        cluster.configs.alter_topic(name, dict(state[name][0]))

    return step


def grow(name: str, count: int) -> Step:
    def step(cluster: Cluster, state: State) -> None:
        state[name][1].extend([] for _ in range(count - len(state[name][1])))
        run(cluster.create_partitions_in_steps(name, count))

    return step


def forget(name: str, index: int, offset: int) -> Step:
    return lambda cluster, _: cluster.partition(name, index).advance_log_start_offset(offset)


def starts_at(name: str, index: int, offset: int) -> Step:
    """A check, not a step: retention has done its work."""

    def step(cluster: Cluster, _: State) -> None:
        assert cluster.partition(name, index).log.log_start_offset == offset

    return step


def wait(milliseconds: int) -> Step:
    return lambda cluster, _: cluster.clock.advance(milliseconds)  # type: ignore[attr-defined]  # a ManualClock


def work() -> list[Step]:
    """Rolls, retention, deletions of records and topics, names that come back, checkpoints in between, and an orderly stop."""
    return [
        create("orders", 2, segment_bytes="200"),
        *(produce("orders", 0, b"%d" % number * 60) for number in range(5)),
        alter("orders", "retention.ms", "-1"),
        alter("orders", "retention.bytes", "300"),
        starts_at("orders", 0, 2),
        forget("orders", 0, LAST_FORGOTTEN),
        wait(60_000),
        grow("orders", 3),
        produce("orders", 2, b"third"),
        delete("orders"),
        create("orders", 1),
        produce("orders", 0, b"new"),
        wait(1_000),
        produce("orders", 0, b"newer"),
        create("other", 1),
        delete("other"),
        lambda cluster, _: cluster.close(),
    ]


def live(folder: Path, files: RealFiles) -> tuple[State, State, bool]:
    """State before and after the operation that death interrupted, and whether it came at all."""
    before: State = {}
    after: State = {}
    try:
        cluster = start(folder, files)
    except Died:
        return {}, {}, True
    try:
        for step in work():
            before = copy.deepcopy(after)
            step(cluster, after)
    except Died:
        bury(cluster)
        return before, after, True
    return after, after, False


def found(cluster: Cluster) -> State:
    """What is there; records that were deleted, and may be there again, are filled in with what the work wrote."""
    state: State = {}
    for name, topic in cluster.topics.items():
        partitions = []
        for partition in topic.partitions:
            values: dict[int, Any] = read_values(partition.log)
            first = partition.log.log_start_offset
            assert first <= LAST_FORGOTTEN
            assert list(values) == list(range(first, partition.log.log_end_offset))
            partitions.append([b"%d" % number * 60 for number in range(first)] + list(values.values()))
        state[name] = (dict(topic.config), partitions)
    return state
