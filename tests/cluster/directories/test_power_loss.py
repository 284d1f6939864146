"""FAULTS 2 for a whole broker: the power goes before each single change of the disk of a day's work.

What was synced is left, and of the rest nothing, or whatever chance leaves (tests/support/losing_files.py). With
log.flush.interval.messages=1 nothing that was acknowledged is missing: no topic, no config, no record; nothing that was deleted is back.

A run tries every third of these changes, others each time: CRASH_SEED repeats those of a run, MINIBROKER_SOAK=1 tries all.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random

import pytest

from minibroker.cluster.cluster import Cluster
from tests.cluster.crashing import DoomedFiles, found, live, start
from tests.support.log_batches import batch_of, idempotent_batch, read_values
from tests.support.losing_files import Loss
from tests.support.soak import first_of, stride

FEWER = stride(3)


@pytest.mark.parametrize("loss", Loss)
def test_power_loss_before_every_disk_change(loss: Loss, tmp_path: Path) -> None:
    """Strictly before every one, and so that chance decides before every other one, if all are tried."""
    stride = (1 if loss is Loss.STRICT else 2) * FEWER
    lives, died = first_of(stride), True
    while died:
        place = tmp_path / str(lives)
        place.mkdir()
        files = DoomedFiles(place / "before", lives)
        before, after, died = live(place / "before", files)
        files.lose_power(place / "after", Random(lives), loss)
        cluster = start(place / "after")
        assert found(cluster) in (before, after), f"{loss}: the power went after {lives} changes"
        go_on(cluster)
        shutil.rmtree(place)
        lives += stride
    assert lives > 100


def go_on(cluster: Cluster) -> None:
    """Appends follow, under a producer id that nobody had."""
    producer_id = cluster.metadata.allocate_producer_id()
    for topic in cluster.topics.values():
        for partition in topic.partitions:
            end_offset = partition.log.log_end_offset
            assert partition.append(idempotent_batch(producer_id, 0, b"x")).base_offset == end_offset
    cluster.close()


@pytest.mark.parametrize("left", [b"", b"version: 0\ntopic_id: WaNbr", bytes(43)])
def test_folder_with_a_lost_topic_id_keeps_its_records(left: bytes, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    cluster = start(tmp_path)
    cluster.create_topic("orders", partition_count=1)
    cluster.partition("orders", 0).append(batch_of(b"kept"))
    cluster.close()
    (tmp_path / "orders-0" / "partition.metadata").write_bytes(left)
    again = start(tmp_path)
    assert read_values(again.partition("orders", 0).log) == {0: b"kept"}
    assert "partition.metadata is missing or damaged: it is rewritten" in caplog.text
    again.close()
    start(tmp_path).close()


def test_new_topic_does_not_adopt_an_existing_folder(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Of a topic that was deleted, when the power went before its folder had lost its name and had kept its id."""
    cluster = start(tmp_path)
    cluster.create_topic("orders", partition_count=1)
    cluster.partition("orders", 0).append(batch_of(b"old"))
    (tmp_path / "orders-0").rename(tmp_path / "returned")
    cluster.delete_topic("orders")
    (tmp_path / "returned").rename(tmp_path / "orders-0")
    (tmp_path / "orders-0" / "partition.metadata").unlink()
    cluster.create_topic("orders", partition_count=1)
    assert read_values(cluster.partition("orders", 0).log) == {}
    (stray,) = tmp_path.glob("orders-0.*-stray")
    assert (stray / f"{0:020}.log").stat().st_size
    assert "belongs to no topic of the metadata log: renaming it to" in caplog.text
    cluster.close()
