"""The process dies before each single file operation of a day's work, then, now and then, once more while it starts again.

Whatever was acknowledged is there with its id, config and records; the operation that was under way is there whole or not at all;
nothing is left over of what was deleted.

A run tries every third of these operations, others each time: CRASH_SEED repeats those of a run, MINIBROKER_SOAK=1 tries all.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from minibroker.cluster.cluster import Cluster
from tests.cluster.crashing import Died, MortalFiles, bury, found, live, start
from tests.support.log_batches import idempotent_batch
from tests.support.soak import first_of, stride

STRIDE = stride(3)


@pytest.mark.parametrize("again_every", [0, 3])
def test_crash_before_every_disk_change(again_every: int, tmp_path: Path) -> None:
    lives, died = first_of(STRIDE), True
    while died:
        folder = tmp_path / str(lives)
        before, after, died = live(folder, MortalFiles(lives))
        if again_every and lives // STRIDE % again_every == 0:
            for second in range(0, 40, 9):
                try:
                    bury(start(folder, MortalFiles(second)))
                except Died:
                    continue
        cluster = start(folder)
        assert found(cluster) in (before, after), f"died after {lives} changes"
        first = cluster.metadata.allocate_producer_id()
        for name, (_, partitions) in found(cluster).items():
            for index, values in enumerate(partitions):
                appended = cluster.partition(name, index).append(idempotent_batch(first, 0, b"x"))
                assert appended.base_offset == len(values)
        cluster.close()
        check_folder(folder, start(folder))
        shutil.rmtree(folder)
        lives += STRIDE
    assert lives > 100


def test_topics_of_one_request_are_created_and_deleted_in_order(tmp_path: Path) -> None:
    """One write for all of them: torn, it leaves the first ones."""
    names = ["orders", "clicks", "payments"]
    seen: set[int] = set()
    for do, begins in (("create_topics", 0), ("delete_topics", 3)):
        died, lives = True, 0
        while died:
            folder, died = tmp_path / f"{do}-{lives}", False
            start(folder).close()
            cluster = start(folder, files := MortalFiles(1 << 40))
            wanted = [cluster.new_topic(name, partition_count=2, configs={"retention.ms": "7"}) for name in names]
            if begins:
                cluster.create_topics(wanted)
            files.lives = lives
            try:
                if begins:
                    cluster.delete_topics([cluster.topic(name) for name in names])
                else:
                    cluster.create_topics(wanted)
            except Died:
                died = True
            bury(cluster)
            cluster = start(folder)
            left = list(cluster.topics)
            assert left == (names[len(names) - len(left) :] if begins else names[: len(left)])
            assert all((len(topic.partitions), topic.config) == (2, {"retention.ms": "7"}) for topic in cluster.topics.values())
            cluster.metadata.allocate_producer_id()
            cluster.close()
            check_folder(folder, start(folder))
            seen.add(len(left))
            lives += 1
        assert len(left) == 3 - begins
    assert {0, 3} < seen  # and a torn write


def check_folder(folder: Path, cluster: Cluster) -> None:
    known = {f"{partition.topic}-{partition.index}" for topic in cluster.topics.values() for partition in topic.partitions}
    assert {path.name for path in folder.iterdir() if path.is_dir()} == known | {"__cluster_metadata-0"}
    assert not [path for path in folder.rglob("*") if path.suffix in {".deleted", ".tmp"}]
    cluster.close()
