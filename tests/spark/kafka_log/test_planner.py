"""How far the batches of a stream go."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")

from minibroker.clock import ManualClock
from minibroker.log.log_config import LogConfig
from minibroker.log.partition_log import PartitionLog
from minibroker.records.control import ControlType
from minibroker.spark.failures import OptionError
from minibroker.spark.kafka_log.options import AbortedRange, ReadOptions, parse_options
from minibroker.spark.kafka_log.plan import StreamPlanner
from minibroker.storage.files import RealFiles
from tests.support.compacting import end_transaction
from tests.support.log_batches import batch_of, idempotent_batch


@pytest.fixture
def logs(tmp_path: Path) -> list[PartitionLog]:
    return [
        PartitionLog.open(tmp_path / f"orders-{partition}", config=LogConfig(), files=RealFiles(), clock=ManualClock())
        for partition in range(2)
    ]


def options_of(path: Path, **options: str) -> ReadOptions:
    return parse_options({"path": str(path), "startingOffsets": "earliest", **options}, is_streaming=True)


def planner(path: Path, **options: str) -> StreamPlanner:
    return StreamPlanner(RealFiles(), options_of(path, **options))


def test_batches_are_as_small_as_asked(logs: list[PartitionLog], tmp_path: Path) -> None:
    """Shared as what is there is spread; everyone who has something gets on."""
    stream = planner(tmp_path, maxOffsetsPerTrigger="12")
    start = stream.initial_offsets()
    assert start == {"orders": {"0": 0, "1": 0}}
    for number in range(30):
        logs[0].append(batch_of(b"%d" % number))
    for number in range(2):
        logs[1].append(batch_of(b"%d" % number))
    seen = []
    while (end := stream.latest_offsets()) != start:
        stream.plan(start, end)
        seen.append((end["orders"]["0"], end["orders"]["1"]))
        start = end
    assert seen == [(11, 1), (22, 2), (30, 2)]


def test_the_first_batch_after_a_restart_is_as_small(logs: list[PartitionLog], tmp_path: Path) -> None:
    """With the checkpoint of the query, whose last batch ended at 4 and 0; one more source of another kind was in it."""
    for number in range(30):
        logs[0].append(batch_of(b"%d" % number))
    offsets = tmp_path / "checkpoint" / "offsets"
    options = {"maxOffsetsPerTrigger": "10", "checkpointLocation": f"file://{tmp_path}/checkpoint", "subscribe": "orders"}
    assert planner(tmp_path, **options).latest_offsets() == {"orders": {"0": 30, "1": 0}}
    offsets.mkdir(parents=True)
    for batch, end in [(9, 2), (10, 4)]:
        (offsets / str(batch)).write_text(f'v1\n{{"batchWatermarkMs":0}}\n{{"other":{{"0":7}}}}\n{{"orders":{{"0":{end},"1":0}}}}\n-')
    (offsets / ".11.tmp").touch()
    stream = planner(tmp_path, **options)
    assert stream.latest_offsets() == {"orders": {"0": 14, "1": 0}}
    stream.plan({"orders": {"0": 4, "1": 0}}, {"orders": {"0": 14, "1": 0}})
    assert stream.latest_offsets() == {"orders": {"0": 24, "1": 0}}
    (offsets / "12").write_text('v1\n{}\n{"orders":{"0":1}}\n{"orders":{"0":1}}')
    assert planner(tmp_path, **options).latest_offsets() == {"orders": {"0": 30, "1": 0}}
    with pytest.raises(OptionError, match="not a local folder"):
        planner(tmp_path, **{**options, "checkpointLocation": "hdfs://namenode/checkpoint"}).latest_offsets()


def test_a_new_partition_begins_at_its_beginning(logs: list[PartitionLog], tmp_path: Path) -> None:
    stream = planner(tmp_path, startingOffsets="latest")
    logs[0].append(batch_of(b"before"))
    start = stream.initial_offsets()
    assert start == {"orders": {"0": 1, "1": 0}}
    new = PartitionLog.open(tmp_path / "orders-2", config=LogConfig(), files=RealFiles(), clock=ManualClock())
    new.append(batch_of(b"new", b"newer"))
    end = stream.latest_offsets()
    assert end == {"orders": {"0": 1, "1": 0, "2": 2}}
    (planned,) = stream.plan(start, end)
    assert (planned.partition, planned.start_offset, planned.end_offset) == (2, 0, 2)


def test_what_is_gone_is_told(logs: list[PartitionLog], tmp_path: Path) -> None:
    logs[0].append(batch_of(b"v"))
    logs[1].append(batch_of(b"v"))
    logs[1].close()
    (tmp_path / "orders-1").rename(tmp_path / "orders-1.00000000000000000000000000000000-delete")
    start, end = {"orders": {"0": 0, "1": 0}}, {"orders": {"0": 1, "1": 1}}
    with pytest.raises(OptionError, match="orders-1 is gone"):
        planner(tmp_path).plan(start, end)
    assert [each.partition for each in planner(tmp_path, failOnDataLoss="false").plan(start, end)] == [0]


def test_a_log_that_became_shorter_is_told(logs: list[PartitionLog], tmp_path: Path) -> None:
    logs[0].append(batch_of(b"v"))
    with pytest.raises(OptionError, match="orders-0 ends at offset 1, but the stream was at 5"):
        planner(tmp_path).plan({"orders": {"0": 3, "1": 0}}, {"orders": {"0": 5, "1": 0}})


def test_a_growing_log_is_not_walked_through_again(tmp_path: Path) -> None:
    """What the last look found is where the next one begins, as long as it is still there."""
    files = CountingFiles()
    log = PartitionLog.open(tmp_path / "orders-0", config=LogConfig(), files=RealFiles(), clock=ManualClock())
    stream = StreamPlanner(files, options_of(tmp_path, isolationLevel="read_committed"))
    for number in range(2000):
        log.append(batch_of(b"%d" % number * 100))
    assert stream.latest_offsets() == {"orders": {"0": 2000}}
    walked = files.bytes_read
    log.append(idempotent_batch(7, 0, b"open", is_transactional=True))
    assert stream.latest_offsets() == {"orders": {"0": 2000}}
    end_transaction(log, 7, ControlType.ABORT)
    log.append(batch_of(b"last"))
    assert stream.latest_offsets() == {"orders": {"0": 2003}}
    assert files.bytes_read - walked < walked / 20
    (planned,) = stream.plan({"orders": {"0": 2000}}, {"orders": {"0": 2003}})
    assert planned.aborted == (AbortedRange(7, 2000, 2001),)
    assert len(files.handles) == 1


def test_a_topic_that_was_made_anew_is_walked_through(tmp_path: Path) -> None:
    def filled(count: int) -> None:
        log = PartitionLog.open(tmp_path / "orders-0", config=LogConfig(), files=RealFiles(), clock=ManualClock())
        for number in range(count):
            log.append(batch_of(b"%d" % number * count))
        log.close()

    stream = StreamPlanner(RealFiles(), options_of(tmp_path))
    filled(3)
    assert stream.latest_offsets() == {"orders": {"0": 3}}
    shutil.rmtree(tmp_path / "orders-0")
    filled(7)
    assert stream.latest_offsets() == {"orders": {"0": 7}}


class CountingFiles(RealFiles):
    """Counts what is read of `.log` files."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes_read = 0

    def read_at(self, descriptor: int, size: int, position: int, /) -> bytes:
        data = os.pread(descriptor, size, position)
        self.bytes_read += len(data)
        return data
