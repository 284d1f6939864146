"""Archives in Delta Lake, in a Spark of its own: python -m tests.spark.archive.delta_program BOOTSTRAP FOLDER.

Delta needs extensions that a running session cannot get, and jars that not every mirror has.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from minibroker.spark.archive import AVAILABLE_NOW, archive, delta, follow, read_archive, read_manifest
from minibroker.spark.archive.store import ArchiveStore
from minibroker.spark.failures import SourceError
from minibroker.spark.session import kafka_session
from minibroker.spark.sources.table import TableSource
from tests.spark.archive.reading import archived, consumed
from tests.support.transactional_writer import TransactionalWriter


def main() -> None:
    """Each step on top of the one before."""
    bootstrap, folder = sys.argv[1:]
    path = str(Path(folder) / "archive")
    writer = TransactionalWriter(bootstrap, "writer")
    writer.committed("t", [b"a"] * 5)
    writer.aborted("t", [b"aborted"])
    spark = session()
    assert archive(spark, bootstrap, path, ["t"], format="delta").record_count == 5
    check(spark, bootstrap, path)
    for dies in (before_the_records, behind_the_records):
        writer.committed("t", [b"b"] * 3)
        dies(spark, bootstrap, path)
        writer.committed("t", [b"c"] * 3)  # the next job finds more than the one that died
        archive(spark, bootstrap, path, ["t"], format="delta")
        check(spark, bootstrap, path)
    with follow(spark, bootstrap, path, ["t"], trigger=AVAILABLE_NOW, format="delta") as stream:
        stream.wait()
    writer.committed("t", [b"d"] * 3)
    with follow(spark, bootstrap, path, ["t"], trigger=AVAILABLE_NOW, format="delta") as stream:
        stream.wait()
    check(spark, bootstrap, path)
    assert [run.record_count for run in stream.runs] == [3]
    with pytest.raises(SourceError, match="is in delta, not in parquet"):
        archive(spark, bootstrap, path, ["t"])
    print([run.record_count for run in read_manifest(spark, path).runs])
    spark.stop()


def session() -> Any:
    """With Delta."""
    conf = {"spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "1", "spark.databricks.delta.snapshotPartitions": "1"}
    spark = kafka_session("delta", master="local[2]", conf={**conf, **delta.CONF}, packages=delta.PACKAGES)
    spark.sparkContext.setLogLevel("OFF")
    return spark


def check(spark: Any, bootstrap: str, path: str) -> None:
    """The table is what a consumer is given; so is what sources make of it."""
    expected = consumed(bootstrap, "t")
    assert archived(read_archive(spark, path)) == archived(spark.read.format("delta").load(path)) == expected
    assert archived(TableSource(path).frame(spark)) == expected
    assert read_manifest(spark, path).record_count == len(expected)


def before_the_records(spark: Any, bootstrap: str, path: str) -> None:
    """Dies between intent and records."""
    die(delta.DeltaRunWriter, "_save", lambda: archive(spark, bootstrap, path, ["t"], format="delta"))


def behind_the_records(spark: Any, bootstrap: str, path: str) -> None:
    """Dies between records and manifest."""
    die(ArchiveStore, "commit", lambda: archive(spark, bootstrap, path, ["t"], format="delta"))


def die(owner: type, name: str, work: Callable[[], object]) -> None:
    """Work, with a method that does not come back."""
    method = getattr(owner, name)

    def dies(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    setattr(owner, name, dies)
    try:
        work()
    except KeyboardInterrupt:
        return
    finally:
        setattr(owner, name, method)
    raise AssertionError("it was not called")


if __name__ == "__main__":
    main()
