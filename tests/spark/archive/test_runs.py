"""What a run says that the archive has with it. No Spark: nothing is read."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from minibroker.clock import ManualClock
from minibroker.spark.archive.files import LocalTableFiles
from minibroker.spark.archive.manifest import ArchivedTopic, Gap
from minibroker.spark.archive.runs import RunWriter
from minibroker.spark.archive.staging import Counted, Staged
from minibroker.spark.archive.store import ArchiveStore
from minibroker.spark.failures import SourceError
from minibroker.spark.sources.ranges import PartitionRange


class Source:
    """Only its topic ids are asked for."""

    def __init__(self, *topic_ids: str) -> None:
        self._topic_ids = iter(topic_ids)

    def topic_ids(self, topics: Sequence[str]) -> dict[str, str]:
        assert topics == ["t"]
        return {"t": next(self._topic_ids)}

    def __str__(self) -> str:
        return "somewhere"


class Writer(RunWriter):
    """Counts what it does not write."""

    def _stage(self, attempt: Any, topics: Any, ranges: Sequence[PartitionRange], make_frame: Any) -> Staged:
        self.store.files.write(f"{attempt.data}/x", b"x")
        return Staged((), {("t", each.partition): Counted(each.size, each.start_offset, each.end_offset - 1) for each in ranges})


def writer(path: Path, *topic_ids: str) -> Writer:
    store = ArchiveStore(LocalTableFiles(), str(path))
    source: Any = Source(*topic_ids)
    spark: Any = None
    return Writer(spark, store, store.open("parquet", "read_committed"), source, compression="zstd", clock=ManualClock())


def unread(spark: Any) -> Any:
    """What would read."""


PLANNED = (ArchivedTopic("t", "id", "cluster", "t"),)


def test_each_run_knows_all_before_it(tmp_path: Path) -> None:
    """Also those that are younger than the plan: a plan becomes several runs."""
    made = writer(tmp_path, "id", "id", "id")
    for start, gaps in ((0, [Gap("t", 1, 5, 7)]), (10, []), (20, [])):
        run = made.write(PLANNED, [PartitionRange("t", 0, start, start + 10)], gaps, unread)
        assert run.ranges[0].record_count == 10
    (topic,) = made.archived()
    assert topic.ranges == (PartitionRange("t", 0, 0, 30), PartitionRange("t", 1, 5, 7))
    assert [run.number for run in made.store.runs()] == [1, 2, 3]


def test_partitions_that_were_empty_are_known_as_such(tmp_path: Path) -> None:
    made = writer(tmp_path, "id", "id", "id")
    planned = (dataclasses.replace(PLANNED[0], ranges=(PartitionRange("t", 1, 4, 4),)),)
    made.write(PLANNED, [PartitionRange("t", 0, 0, 10)], [], unread)
    made.write(planned, [PartitionRange("t", 0, 10, 20)], [], unread)
    assert made.archived()[0].ranges == (PartitionRange("t", 0, 0, 20), PartitionRange("t", 1, 4, 4))
    made.write(planned, [PartitionRange("t", 1, 4, 9)], [], unread)
    assert made.archived()[0].ranges == (PartitionRange("t", 0, 0, 20), PartitionRange("t", 1, 4, 9))


def test_gaps_alone_are_a_run(tmp_path: Path) -> None:
    made = writer(tmp_path, "id")
    run = made.write(PLANNED, [], [Gap("t", 0, 5, 7)], unread)
    assert (run.ranges, run.files, made.archived()[0].reached(0)) == ((), (), 7)


def test_a_topic_that_is_created_anew_while_it_is_read(tmp_path: Path) -> None:
    made = writer(tmp_path, "other")
    with pytest.raises(SourceError, match="recreated"):
        made.write(PLANNED, [PartitionRange("t", 0, 0, 10)], [], unread)
    assert (made.archived(), list((tmp_path / "_minibroker" / "staging").iterdir())) == ((), [])
