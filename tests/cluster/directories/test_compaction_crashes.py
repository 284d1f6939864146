"""FAULTS 7: death, and loss of power, before every change of the disk while a table is written, compacted, and compacted again.

Whoever reads it from the start gets the last value of each key, at the offset where it was written, and of what was deleted nothing; and
so does the broker that starts again, dies half way through its start, compacts, and starts once more.

A run tries every third of these changes, others each time: CRASH_SEED repeats those of a run, MINIBROKER_SOAK=1 tries all.
"""

from __future__ import annotations

import copy
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from minibroker.cluster.cluster import Cluster
from minibroker.log.partition_log import PartitionLog
from minibroker.records.any_format import decode_records
from minibroker.records.builder import build_batch
from minibroker.records.compression import Compression
from minibroker.records.record import Record
from minibroker.storage.files import RealFiles
from tests.cluster.crashing import Died, DoomedFiles, MortalFiles, bury, start
from tests.support.log_batches import read_batches
from tests.support.losing_files import Loss
from tests.support.soak import first_of, stride

NAME = "table"
HORIZON_MS = 30_000
FEWER = stride(3)
CONFIG = {
    "cleanup.policy": "compact",
    "segment.bytes": "300",
    "min.cleanable.dirty.ratio": "0",
    "delete.retention.ms": str(HORIZON_MS),
    "file.delete.delay.ms": "1000",
}


class Written(NamedTuple):
    """A record at its offset."""

    key: bytes
    value: bytes | None


Step = Callable[[Cluster, list[Written]], object]


def put(*records: tuple[bytes, bytes | None], codec: Compression = Compression.NONE) -> Step:
    """One batch, flushed before it is acknowledged."""

    def step(cluster: Cluster, written: list[Written]) -> None:
        written += [Written(*record) for record in records]
        now_ms = cluster.clock.now_ms()
        data = build_batch([Record(0, now_ms, key, value) for key, value in records], compression=codec)
        partition = cluster.partition(NAME, 0)
        partition.append(memoryview(data))
        partition.log.flusher.flush()

    return step


def compact(cluster: Cluster, _: list[Written]) -> None:
    cluster.logs.cleaner.compact([cluster.partition(NAME, 0).log])


def wait(milliseconds: int) -> Step:
    return lambda cluster, _: cluster.clock.advance(milliseconds)  # type: ignore[attr-defined]  # a ManualClock


def work() -> list[Step]:
    """Overwritten values, tombstones that expire, segments that become one or empty, a topic that is compacted no more, an orderly stop."""
    value = b"x" * 40
    return [
        lambda cluster, _: cluster.create_topic(NAME, partition_count=1, configs=dict(CONFIG)),
        put((b"a", b"1" + value), (b"b", b"1" + value), (b"c", b"1")),
        put((b"a", b"2" + value), (b"gone", b"1"), (b"d", b"1" + value), codec=Compression.GZIP),
        put((b"b", b"2" + value), (b"gone", None), (b"d", b"2" + value)),
        put((b"a", b"3" + value), (b"a", b"4" + value)),
        put((b"a", b"5" + value), (b"b", b"3" + value), (b"e", b"1")),
        compact,
        wait(2000),
        put((b"f", b"1" + value), (b"late", b"1" + value), (b"d", b"3" + value)),
        put((b"late", None), (b"f", b"2" + value), (b"g", b"1" + value)),
        put((b"g", b"2" + value), (b"h", b"1" + value)),
        compact,
        wait(HORIZON_MS + 2000),
        put((b"i", b"1" + value * 4)),
        put((b"i", b"2" + value * 4)),
        compact,
        wait(2000),
        lambda cluster, _: cluster.configs.alter_topic(NAME, CONFIG | {"cleanup.policy": "delete"}),
        put((b"j", b"1" + value * 4)),
        put((b"j", b"2" + value * 4)),
        lambda cluster, _: cluster.close(),
    ]


def live(folder: Path, files: RealFiles) -> tuple[list[Written], list[Written], bool]:
    """What was written before and after the step that death interrupted, and whether it came."""
    before: list[Written] = []
    after: list[Written] = []
    try:
        cluster = start(folder, files)
    except Died:
        return [], [], True
    try:
        for step in work():
            before = copy.copy(after)
            step(cluster, after)
    except Died:
        bury(cluster)
        return before, after, True
    return after, after, False


def latest(written: list[Written]) -> dict[bytes, bytes]:
    return {key: value for key, value in dict(written).items() if value is not None}


def check(log: PartitionLog, *histories: list[Written]) -> None:
    """The records are of one history, each at its offset, and make its table."""
    found = {record.offset: record for batch in read_batches(log) for record in decode_records(batch)}
    (written,) = (history for history in histories if len(history) == log.log_end_offset)
    assert [*found] == sorted(found)
    assert all((record.key, record.value) == written[offset] for offset, record in found.items())
    assert latest([Written(record.key or b"", record.value) for record in found.values()]) == latest(written)
    for batch in read_batches(log):
        assert batch.check_crc()


def check_folder(folder: Path, before: list[Written], after: list[Written], *, dies_again: bool) -> None:
    """What a broker makes of what is left."""
    for lives in range(0, 30, 4) if dies_again else ():
        try:
            bury(start(folder, MortalFiles(lives)))
        except Died:
            continue
    cluster = start(folder)
    if NAME not in cluster.topics:
        assert not before
        cluster.close()
        return
    log = cluster.partition(NAME, 0).log
    histories = (before, after) if len(before) != len(after) else (after,)
    check(log, *histories)
    cluster.logs.cleaner.compact([log])
    check(log, *histories)
    end_offset = log.log_end_offset
    cluster.clock.advance(120_000)  # type: ignore[attr-defined]  # a ManualClock
    cluster.close()
    assert not [path.name for path in (folder / f"{NAME}-0").iterdir() if path.suffix in {".cleaned", ".swap", ".deleted"}]
    again = start(folder)
    assert again.partition(NAME, 0).log.log_end_offset == end_offset
    check(again.partition(NAME, 0).log, *histories)
    again.close()


@pytest.mark.parametrize("dies_again", [False, True])
def test_crash_before_every_disk_change(dies_again: bool, tmp_path: Path) -> None:
    stride = (5 if dies_again else 1) * FEWER
    lives, died = first_of(stride), True
    while died:
        folder = tmp_path / str(lives)
        before, after, died = live(folder, MortalFiles(lives))
        check_folder(folder, before, after, dies_again=dies_again)
        shutil.rmtree(folder)
        lives += stride
    assert lives > 150


@pytest.mark.parametrize("loss", Loss)
def test_power_loss_before_every_disk_change(loss: Loss, tmp_path: Path) -> None:
    """Each kind of loss before every third one, if all are tried."""
    lives, died = [*Loss].index(loss) + len(Loss) * first_of(FEWER), True
    while died:
        place = tmp_path / str(lives)
        place.mkdir()
        files = DoomedFiles(place / "before", lives)
        before, after, died = live(place / "before", files)
        files.lose_power(place / "after", Random(lives), loss)
        check_folder(place / "after", before, after, dies_again=False)
        shutil.rmtree(place)
        lives += len(Loss) * FEWER
    assert lives > 150


def test_simulated_work_compacts_records(tmp_path: Path) -> None:
    """What is left in the end, so that the tests above are about something."""
    before, after, died = live(tmp_path / "data", MortalFiles(1 << 40))
    assert (before, died) == (after, False)
    cluster = start(tmp_path / "data")
    found = [record for batch in read_batches(cluster.partition(NAME, 0).log) for record in decode_records(batch)]
    assert len(found) < len(after) - 8
    assert not [record for record in found if record.key in {b"gone", b"late"}]
    cluster.close()
