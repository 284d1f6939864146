"""Death and loss of power before every change of the disk, while the metadata log takes snapshots, rolls and loses what they replace."""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random

import pytest

from minibroker.cluster.metadata.metadata_store import MetadataStore
from minibroker.cluster.metadata.trimming import TrimmingLimits
from minibroker.storage.files import RealFiles
from tests.cluster.crashing import Died, DoomedFiles, MortalFiles
from tests.cluster.metadata.test_snapshot import config, metadata, names, store_in
from tests.support.losing_files import Loss

LIMITS = TrimmingLimits(snapshot_bytes=250, retention_bytes=1200)
COUNT = 16


def work(folder: Path, files: RealFiles) -> tuple[int, bool]:
    """Set a config to 1, 2, 3, ...; the last value that was acknowledged, and whether death came."""
    acknowledged = 0
    store: MetadataStore | None = None
    try:
        store = store_in(folder, LIMITS, files)
        for number in range(1, COUNT):
            store.commit([config(number)])
            acknowledged = number
    except Died:
        return acknowledged, True
    finally:
        if store is not None:
            store.log.close()
    return acknowledged, False


def check(folder: Path, acknowledged: int) -> None:
    """The last acknowledged value is there, or the one that was on its way; twice, and then there is more."""
    store = store_in(folder, LIMITS)
    value = int(store.image.config_of(2, "orders").get("retention.ms", 0))
    assert acknowledged <= value <= acknowledged + 1
    store.log.close()
    assert names(folder, ".part") == []
    assert store_in(folder, LIMITS).image.to_records() == store.image.to_records()
    acknowledged, died = work(folder, RealFiles())
    assert (acknowledged, died) == (COUNT - 1, False)
    assert store_in(folder, LIMITS).image.config_of(2, "orders") == {"retention.ms": str(COUNT - 1)}


def test_crash_before_every_disk_change(tmp_path: Path) -> None:
    lives, died = 0, True
    while died:
        folder = tmp_path / str(lives)
        acknowledged, died = work(folder, MortalFiles(lives))
        if died and lives % 4 == 0:
            for second in range(0, 12, 3):
                work(folder, MortalFiles(second))
            check_any(folder)
        else:
            check(folder, acknowledged)
        shutil.rmtree(folder)
        lives += 1
    assert lives > 50


def check_any(folder: Path) -> None:
    """After several deaths, of which each began again with 1: it opens, and goes on."""
    store_in(folder, LIMITS).log.close()
    work(folder, RealFiles())
    store = store_in(folder, LIMITS)
    assert store.image.config_of(2, "orders") == {"retention.ms": str(COUNT - 1)}
    assert len(names(folder, ".checkpoint")) <= 3
    assert sum(path.stat().st_size for path in metadata(folder).iterdir()) < 4000
    store.log.close()


@pytest.mark.parametrize("loss", Loss)
def test_power_loss_before_every_disk_change(tmp_path: Path, loss: Loss) -> None:
    lives, died = 0, True
    while died:
        place = tmp_path / str(lives)
        place.mkdir()
        files = DoomedFiles(place / "before", lives)
        acknowledged, died = work(place / "before", files)
        files.lose_power(place / "after", Random(lives), loss)
        check(place / "after", acknowledged)
        shutil.rmtree(place)
        lives += 3
    assert lives > 50
