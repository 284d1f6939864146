"""The process dies before each single file operation of a day's work, then, now and then, once more while it starts again.

Whatever was acknowledged is there with its id, config and records; the operation that was under way is there whole or not at all;
nothing is left over of what was deleted.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from minibroker.background import InlineBackground
from minibroker.clock import ManualClock
from minibroker.cluster.cluster import Cluster
from minibroker.config.broker_config import BrokerConfig
from minibroker.storage.files import READ_ONLY, RealFiles
from tests.support.log_batches import batch_of, idempotent_batch, read_values

if TYPE_CHECKING:
    from typing_extensions import Buffer

Topic = tuple[dict[str, str], list[list[bytes]]]  #: configs, values of each partition
State = dict[str, Topic]
Step = Callable[[Cluster, State], object]


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
        RealFiles.rename(source, target)

    def remove(self, path: str) -> None:
        self._live()
        super().remove(path)

    def make_directory(self, path: str) -> None:
        self._live()
        super().make_directory(path)

    def remove_directory(self, path: str) -> None:
        self._live()
        super().remove_directory(path)

    def sync(self, descriptor: int) -> None:  # type: ignore[override]
        pass

    def sync_directory(self, path: str) -> None:
        pass


def start(folder: Path, lives: int = 1 << 40, clock: ManualClock | None = None) -> Cluster:
    config = BrokerConfig(
        {
            "log.dirs": str(folder),
            "listeners": "PLAINTEXT://localhost:9092",
            "log.index.interval.bytes": "1",
            "log.segment.delete.delay.ms": "1000",
        }
    )
    return Cluster.open(config, MortalFiles(lives), clock or ManualClock(), InlineBackground())


def bury(cluster: Cluster) -> None:
    """What the system does with the descriptors of a process that died."""
    for topic in cluster.topics.values():
        for partition in topic.partitions:
            if partition.online_log is not None:
                partition.online_log._release("dead")
    for directory in cluster.log_directories:
        directory.release()
    cluster._store.log.close()


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
        assert cluster.partition(name, index).append(batch_of(value)).base_offset == len(values) - 1

    return step


def alter(name: str, key: str, value: str) -> Step:
    def step(cluster: Cluster, state: State) -> None:
        state[name][0][key] = value
        cluster.alter_topic_config(name, dict(state[name][0]))

    return step


def grow(name: str, count: int) -> Step:
    def step(cluster: Cluster, state: State) -> None:
        state[name][1].extend([] for _ in range(count - len(state[name][1])))
        cluster.create_partitions(name, count)

    return step


def forget(name: str, index: int, offset: int) -> Step:
    return lambda cluster, _: cluster.partition(name, index).advance_log_start_offset(offset)


def wait(milliseconds: int) -> Step:
    return lambda cluster, _: cluster._clock.advance(milliseconds)  # type: ignore[attr-defined]  # a ManualClock


def work() -> list[Step]:
    """Rolls, deletions of records and topics, names that come back, checkpoints in between, and an orderly stop."""
    return [
        create("orders", 2, segment_bytes="200"),
        *(produce("orders", 0, b"%d" % number * 60) for number in range(5)),
        alter("orders", "retention.ms", "-1"),
        forget("orders", 0, 4),
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


def live(folder: Path, lives: int) -> tuple[State, State, bool]:
    """State before and after the operation that death interrupted, and whether it came at all."""
    before: State = {}
    after: State = {}
    try:
        cluster = start(folder, lives)
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
            assert list(values) == list(range(first, partition.log.log_end_offset))
            partitions.append([b"%d" % number * 60 for number in range(first)] + list(values.values()))
        state[name] = (dict(topic.config), partitions)
    return state


@pytest.mark.parametrize("again_every", [0, 3])
def test_dying_before_every_change_of_the_disk(again_every: int, tmp_path: Path) -> None:
    lives, died = 0, True
    while died:
        folder = tmp_path / str(lives)
        before, after, died = live(folder, lives)
        if again_every and lives % again_every == 0:
            for second in range(0, 40, 9):
                try:
                    bury(start(folder, second))
                except Died:
                    continue
        cluster = start(folder)
        assert found(cluster) in (before, after), f"died after {lives} changes"
        first = cluster.allocate_producer_id()
        for name, (_, partitions) in found(cluster).items():
            for index, values in enumerate(partitions):
                appended = cluster.partition(name, index).append(idempotent_batch(first, 0, b"x"))
                assert appended.base_offset == len(values)
        cluster.close()
        check_folder(folder, start(folder))
        lives += 1
    assert lives > 100


def check_folder(folder: Path, cluster: Cluster) -> None:
    known = {f"{partition.topic}-{partition.index}" for topic in cluster.topics.values() for partition in topic.partitions}
    assert {path.name for path in folder.iterdir() if path.is_dir()} == known | {"__cluster_metadata-0"}
    assert not [path for path in folder.rglob("*") if path.suffix in {".deleted", ".tmp"}]
    cluster.close()
