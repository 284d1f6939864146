"""What a checkpoint says, and whether it fits to an archive. No Spark: its files are written by hand, as Spark writes them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from minibroker.spark.archive.files import LocalTableFiles
from minibroker.spark.archive.manifest import ArchivedTopic
from minibroker.spark.archive.streaming import Batch, Checkpoint, agrees
from minibroker.spark.failures import SourceError
from minibroker.spark.sources.ranges import PartitionRange

LINE = '{"batchWatermarkMs":0,"batchTimestampMs":1700000000000,"conf":{}}'


def checkpoint(path: Path, *ends: tuple[int, int], committed: int, first: tuple[int, int] = (0, 0)) -> Checkpoint:
    """With a batch for each pair of offsets, of which so many are done."""

    def offsets(pair: tuple[int, int]) -> str:
        return json.dumps({"t": {"0": pair[0], "1": pair[1]}})

    for folder in ("offsets", "commits", "sources/0"):
        (path / folder).mkdir(parents=True)
    (path / "metadata").write_text('{"id":"query"}')
    (path / "sources" / "0" / "0").write_text(f"\0v1\n{offsets(first)}")
    for number, end in enumerate(ends):
        (path / "offsets" / str(number)).write_text(f"v1\n{LINE}\n{offsets(end)}")
        (path / "offsets" / f".{number}.crc").write_text("checksum")
    for number in range(committed):
        (path / "commits" / str(number)).write_text('v1\n{"nextBatchWatermarkMs":0}')
    return Checkpoint(LocalTableFiles(), str(path), {})


def archived(*ends: int) -> dict[str, ArchivedTopic]:
    ranges = tuple(PartitionRange("t", partition, 0, end) for partition, end in enumerate(ends) if end)
    return {"t": ArchivedTopic("t", "id", "cluster", "t", ranges)}


def test_batches(tmp_path: Path) -> None:
    found = checkpoint(tmp_path, (5, 3), (9, 3), committed=1, first=(2, 0))
    assert found.batch(0) == Batch(0, {("t", 0): 2, ("t", 1): 0}, {("t", 0): 5, ("t", 1): 3})
    assert found.latest() == found.batch(1)
    assert found.batch(1).ranges() == (PartitionRange("t", 0, 5, 9),)
    assert (found.is_committed(0), found.is_committed(1), found.query_id()) == (True, False, "query")
    nothing = Checkpoint(LocalTableFiles(), f"{tmp_path}/nothing", {("t", 0): 7})
    assert (nothing.latest(), nothing.first(), nothing.query_id()) == (None, {("t", 0): 7}, "")


def test_a_new_partition_begins_at_0(tmp_path: Path) -> None:
    found = checkpoint(tmp_path, (5, 3), committed=1)
    (tmp_path / "offsets" / "1").write_text(f'v1\n{LINE}\n{{"t": {{"0": 5, "1": 3, "2": 4}}}}')
    assert found.batch(1).ranges() == (PartitionRange("t", 2, 0, 4),)


@pytest.mark.parametrize("text", ["", "v1\n{}", "v2\n{}\n{}", "v1\n{}\nnone", 'v1\n{}\n{"t": 3}'])
def test_a_damaged_checkpoint(tmp_path: Path, text: str) -> None:
    found = checkpoint(tmp_path, (5, 3), committed=1)
    (tmp_path / "offsets" / "1").write_text(text)
    with pytest.raises(SourceError, match="offsets/1 is not a file of a checkpoint"):
        found.latest()


@pytest.mark.parametrize(
    ("committed", "ends", "fits"),
    [
        (2, (9, 3), True),  # all is done
        (1, (9, 3), True),  # the archive has the batch, Spark does not know it
        (1, (5, 3), True),  # the batch was planned, and is not archived
        (1, (7, 3), False),  # another job has archived a part of it
        (1, (12, 3), False),  # and more
        (2, (12, 8), False),
    ],
)
def test_who_is_how_far(tmp_path: Path, committed: int, ends: tuple[int, int], *, fits: bool) -> None:
    found = checkpoint(tmp_path, (5, 3), (9, 3), committed=committed)
    assert agrees(found, archived(*ends), frozenset("t"), is_ours=True) is fits
    if not fits:
        with pytest.raises(SourceError, match="does not match the archive's end"):
            agrees(found, archived(*ends), frozenset("t"), is_ours=False)


def test_a_checkpoint_that_knows_of_more_than_the_archive(tmp_path: Path) -> None:
    found = checkpoint(tmp_path, (5, 3), (9, 3), committed=2)
    for ends in ((5, 3), (0, 3), (9, 0)):
        with pytest.raises(SourceError, match="is it the checkpoint of another archive"):
            agrees(found, archived(*ends), frozenset("t"), is_ours=True)


def test_other_topics(tmp_path: Path) -> None:
    found = checkpoint(tmp_path, (5, 3), committed=1)
    assert not agrees(found, archived(5, 3), frozenset({"t", "u"}), is_ours=True)
    assert agrees(Checkpoint(LocalTableFiles(), f"{tmp_path}/none", {}), archived(5, 3), frozenset("t"), is_ours=False)
