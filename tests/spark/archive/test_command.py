"""`minibroker spark archive`, with the session that tests share; and archives as sources of other pipelines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from minibroker.spark.archive import ArchiveStream
from minibroker.spark.archive.store import ArchiveStore
from minibroker.spark.failures import SourceError
from minibroker.spark.sources.ranges import PartitionRange
from minibroker.spark.sources.table import TableSource
from tests.clients.adapters import CLIENTS, Sent
from tests.support.broker_process import BrokerProcess

pytestmark = [pytest.mark.timeout(600)]

T = 1_700_000_000_000


def test_archive_show_and_read(spark: Any, pipelines: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "archive")
    with BrokerProcess(tmp_path, "--set", "log.retention.ms=-1") as broker:
        rows = [Sent(None, b"%d" % number, (), T + number) for number in range(10)]
        CLIENTS["confluent-kafka"].write(broker.bootstrap, "t", rows)
        ending = f"@{T + 6}"
        result = pipelines("archive", "t", "--to", path, "-b", broker.bootstrap, "--ending", ending, "-o", "json")
        assert json.loads(result.out) == [
            {
                "run": 1,
                "topic": "t",
                "partition": 0,
                "start_offset": 0,
                "end_offset": 6,
                "record_count": 6,
                "first_offset": 0,
                "last_offset": 5,
                "is_gap": False,
            }
        ]
        with monkeypatch.context() as patching:
            patching.setattr(ArchiveStore, "publish", interrupted)
            assert pipelines("archive", "t", "--to", path, "-b", broker.bootstrap, code=130).out == ""
        result = pipelines("archive", "t", "--to", path, "--data-dir", str(broker.data_dir))
        assert "Run 2 had been interrupted after its commit: finished." in result.err
        assert "0 records, 0 B, in 0 runs" in result.err

        CLIENTS["confluent-kafka"].write(broker.bootstrap, "t", rows[:2])
        wait = ArchiveStream.wait
        with monkeypatch.context() as patching:
            patching.setattr(ArchiveStream, "wait", lambda self, timeout_s: interrupted() if self.runs else wait(self, timeout_s))
            result = pipelines(
                "archive", "t", "--to", path, "-b", broker.bootstrap, "--follow", "--every", "1 second", "-o", "jsonl", code=130
            )
        (run,) = map(json.loads, result.out.splitlines())
        assert (run["run"], run["record_count"]) == (3, 2)

        for wrong, says in (
            (["oders", "--to", path], "there is no topic oders in the cluster"),
            (["t", "--to", f"{tmp_path}/data"], f"{tmp_path}/data is not empty and not an archive"),
            (
                ["t", "--to", path, "--starting", "earliest"],
                "t-0 [0, 12) is archived already: leave it out, or skip it with --overlap skip",
            ),
            (["t", "--to", path, "--isolation-level", "read_uncommitted"], "was created with read_committed"),
            (["t", "--to", path, "--starting", '{"t": {"0": 13}}'], "t-0 has no offset 13: it has 0 up to, but not including, 12"),
            (["--runs", "--to", f"{tmp_path}/nothing"], f"there is no archive at {tmp_path}/nothing"),
        ):
            result = pipelines("archive", *wrong, "-b", broker.bootstrap, code=1)
            assert says in result.err, result.err
            assert result.err.count("\n") == 1
    for wrong in (["--every", "1 minute"], ["--follow", "--ending", "@2026-01-01"], ["--ending", "tomorrow"]):
        pipelines("archive", "t", "--to", path, *wrong, code=2)
    result = pipelines("archive", "--runs", "--to", path)
    assert [line.split() for line in result.out.splitlines()[1:]] == [
        ["1", "t", "0", "0", "6", "6"],
        ["2", "t", "0", "6", "10", "4"],
        ["3", "t", "0", "10", "12", "2"],
    ]
    assert "12 records" in result.err

    source = TableSource(path)
    assert source.covered(spark, ["t"]).ranges == (PartitionRange("t", 0, 0, 12),)
    assert len(source.covered(spark).topic_ids["t"]) == 22
    assert sorted(row.offset for row in source.frame(spark, [PartitionRange("t", 0, 5, 8)]).collect()) == [5, 6, 7]
    with pytest.raises(SourceError, match="has no record of topic u"):
        source.covered(spark, ["u"])
    (tmp_path / "half" / "_temporary").mkdir(parents=True)
    with pytest.raises(SourceError, match="is half written: the job that wrote it died, or is still running"):
        TableSource(str(tmp_path / "half")).frame(spark)


def interrupted(*_: Any) -> None:
    raise KeyboardInterrupt
