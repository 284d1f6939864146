"""Streams that archive, with real Spark: each batch is a run, whatever Spark's checkpoint knows of it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from minibroker.spark.archive import AVAILABLE_NOW, archive, follow, read_archive, read_manifest
from minibroker.spark.archive.store import ArchiveStore
from minibroker.spark.failures import SourceError
from minibroker.spark.sources.log_directory import LogDirectorySource
from tests.spark.archive.reading import archived, consumed
from tests.support.becoming import wait_until
from tests.support.broker_process import BrokerProcess
from tests.support.transactional_writer import TransactionalWriter

pytestmark = [pytest.mark.timeout(600)]


@pytest.fixture
def broker(tmp_path: Path) -> Any:
    (tmp_path / "broker").mkdir()
    with BrokerProcess(tmp_path / "broker", "--set", "num.partitions=2", "--set", "log.retention.ms=-1") as broker:
        yield broker


def test_batch_after_batch(spark: Any, broker: BrokerProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "archive")
    writer = TransactionalWriter(broker.bootstrap, "writer")

    def write(count: int) -> None:
        writer.committed("t", [b"%d" % number for number in range(count)])
        writer.aborted("t", [b"aborted"] * 3, partition=1)

    def run(**options: Any) -> list[Any]:
        with follow(spark, broker.bootstrap, path, ["t"], trigger=AVAILABLE_NOW, **options) as stream:
            stream.wait()
        assert archived(read_archive(spark, path)) == consumed(broker.bootstrap, "t")
        return [each[1:5] for run in stream.runs for each in run.ranges]

    write(5)
    assert run(max_offsets_per_trigger=6) == [(0, 0, 3, 3), (1, 0, 2, 0), (0, 3, 6, 2), (1, 2, 4, 0)]
    write(2)
    assert run() == [(0, 6, 9, 2), (1, 4, 8, 0)]
    assert run() == []
    (stream,) = {each.stream.query_id for each in read_manifest(spark, path).runs if each.stream}
    assert stream

    # a batch that is archived, of which Spark does not know: it died behind our commit
    write(3)
    commit = ArchiveStore.commit

    def dies(self: ArchiveStore, attempt: Any, run: Any) -> None:
        commit(self, attempt, run)
        raise SourceError("as if it died")

    monkeypatch.setattr(ArchiveStore, "commit", dies)
    with follow(spark, broker.bootstrap, path, ["t"], trigger=AVAILABLE_NOW) as failing, pytest.raises(SourceError, match="as if it died"):
        failing.wait()
    monkeypatch.undo()
    assert run() == []

    # another job archives in between: our own checkpoint begins anew, somebody's does not
    write(1)
    archive(spark, broker.bootstrap, path, ["t"])
    write(1)
    assert run() == [(0, 15, 17, 1), (1, 16, 20, 0)]
    write(1)
    given = str(tmp_path / "checkpoint")
    assert run(checkpoint=given) == [(0, 17, 19, 1), (1, 20, 24, 0)]
    write(1)
    archive(spark, broker.bootstrap, path, ["t"])
    with pytest.raises(SourceError, match=f"the checkpoint at {given} does not match the archive's end"):
        run(checkpoint=given)


def test_a_directory_that_grows(spark: Any, broker: BrokerProcess, tmp_path: Path) -> None:
    """By time, until it is stopped; nobody else may write meanwhile."""
    path = str(tmp_path / "archive")
    writer = TransactionalWriter(broker.bootstrap, "writer")
    writer.committed("t", [b"1"])
    wait_until((broker.data_dir / "t-1").is_dir, "the folder of the second partition is missing")  # the broker creates it a moment later
    source = LogDirectorySource(str(broker.data_dir))
    with follow(spark, source, path, ["t"], trigger="200 milliseconds") as stream:
        with pytest.raises(SourceError, match="another job"):
            archive(spark, source, path, ["t"])
        deadline = time.monotonic() + 240
        while len(stream.runs) < 2:
            assert not stream.wait(1)
            assert time.monotonic() < deadline
            if len(stream.runs) == 1 and len(consumed(broker.bootstrap, "t")) == 1:
                writer.committed("t", [b"2"])
    assert archived(read_archive(spark, path)) == consumed(broker.bootstrap, "t")
    assert archive(spark, source, path, ["t"]).runs == ()
