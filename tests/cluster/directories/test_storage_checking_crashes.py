"""`storage check` calls nothing damage that a broker of ours leaves: killed before any change of the disk, compacted, cut by retention."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from minibroker.log.findings import ERROR
from tests.cluster.crashing import MortalFiles, live, start
from tests.cluster.directories.test_storage_checking import check, words
from tests.support.broker_in_memory import BrokerInMemory, records
from tests.support.log_batches import batch_of, idempotent_batch


def test_crash_leaves_no_damage(tmp_path: Path) -> None:
    lives, died = 1, True
    while died:
        folder = tmp_path / str(lives)
        _, _, died = live(folder, MortalFiles(lives))
        if (folder / "meta.properties").exists():
            assert [each for each in words(check(folder), folder) if each.startswith(ERROR)] == [], f"died after {lives} changes"
        start(folder).close()
        assert words(check(folder), folder) == [], f"died after {lives} changes, started and stopped"
        shutil.rmtree(folder)
        lives += 2
    assert lives > 100


@pytest.mark.parametrize("is_clean", [True, False])
def test_compaction_and_retention_leave_no_damage(is_clean: bool, tmp_path: Path) -> None:
    broker = BrokerInMemory(folder=tmp_path, config={"log.index.interval.bytes": "150"})
    cluster = broker.cluster
    small = {"segment.bytes": "400"}
    cluster.create_topic("states", partition_count=1, configs=small | {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"})
    cluster.create_topic("events", partition_count=1, configs=small | {"retention.bytes": "900"})
    producer_id = cluster.metadata.allocate_producer_id()
    for number in range(60):
        now_ms = broker.clock.now_ms()
        broker.append("states", 0, records(3, first=number % 4, timestamp=now_ms))
        cluster.partition("states", 0).log.append(idempotent_batch(producer_id, number, b"%d" % number, timestamp=now_ms))
        cluster.partition("events", 0).log.append(batch_of(b"x" * 50, timestamp=now_ms))
        broker.clock.advance(7_000)
    broker.clock.advance(400_000)
    assert cluster.partition("events", 0).log.log_start_offset > 0
    states = cluster.partition("states", 0).log
    cluster.close(clean=is_clean)
    assert "states 0 " in (tmp_path / "cleaner-offset-checkpoint").read_text()
    assert sum(path.stat().st_size for path in (tmp_path / "states-0").glob("*.log")) < 60 * states.segments.active.size
    found = words(check(tmp_path), tmp_path)
    assert [each for each in found if is_clean or each.startswith(ERROR)] == []
