"""FAULTS 8: files that are removed while the broker runs. Its open files would take writes that no start finds."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from minibroker.cluster.directories import removal_watch
from minibroker.cluster.directories.removal_watch import CHECK_INTERVAL_MS
from minibroker.cluster.metadata.metadata_reader import FOLDER
from minibroker.errors import KafkaStorageError, LeaderNotAvailable
from minibroker.schemas import k00_produce as k00
from minibroker.schemas import k03_metadata as k03
from minibroker.storage.files import Files, RealFiles
from minibroker.testing.memory_files import MemoryFiles
from tests.support.broker_in_memory import BrokerInMemory, records
from tests.support.log_batches import read_values

LOST = KafkaStorageError.code
HIGH_WATERMARKS_MS = 5_000  #: replica.high.watermark.checkpoint.interval.ms
ACTIVE = "00000000000000000000.log"


def running(folder: Path, files: Files | None = None, partitions: int = 2) -> BrokerInMemory:
    """Ten records in each partition of `orders`, unless they are there."""
    broker = BrokerInMemory({"orders": partitions}, folder=folder, files=files)
    for partition in broker.cluster.topics["orders"].partitions:
        if not partition.log.log_end_offset:
            broker.append("orders", partition.index, records(10))
    return broker


def produce(broker: BrokerInMemory, index: int) -> int:
    """The error code of one produced record."""
    data = [k00.Partition(index=index, records=memoryview(bytearray(records(1))))]
    topic = k00.Topic(name="orders", topic_id=broker.cluster.topic("orders").topic_id, partition_data=data)
    pending = broker.begin(k00.Request(transactional_id=None, acks=-1, timeout_ms=1000, topic_data=[topic]))
    broker.clock.advance(0)
    code: int = pending.answer().responses[0].partition_responses[0].error_code
    return code


def leaders(broker: BrokerInMemory) -> list[tuple[int, int]]:
    """Error code and leader of each partition, as Metadata tells."""
    (topic,) = broker.ask(k03.Request(topics=[k03.Topic(name="orders")])).topics
    return [(each.error_code, each.leader_id) for each in topic.partitions]


def replace_by_copy(folder: Path) -> None:
    folder.rename(folder.with_name("moved"))
    shutil.copytree(folder.with_name("moved"), folder)


def move(folder: Path) -> None:
    folder.rename(folder.with_name("moved"))


@pytest.mark.parametrize(("change", "word"), [(shutil.rmtree, "removed"), (move, "removed"), (replace_by_copy, "replaced")])
@pytest.mark.parametrize("part", ["", FOLDER])
def test_removed_directory_goes_offline(
    part: str, change: Callable[[Path], None], word: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "data"
    broker = running(folder)
    calls: list[None] = []
    broker.cluster.logs.on_all_offline = lambda: calls.append(None)
    broker.clock.advance(CHECK_INTERVAL_MS)
    assert [produce(broker, index) for index in (0, 1)] == [0, 0]
    assert not caplog.records

    change(folder / part)
    broker.clock.advance(CHECK_INTERVAL_MS)

    assert [produce(broker, index) for index in (0, 1)] == [LOST, LOST]
    gone = f"{folder}/{part}".rstrip("/")
    assert f"{folder} is offline with its 2 partitions until the next start: {gone} was {word} while the broker was running" in caplog.text
    with pytest.raises(KafkaStorageError, match=f"metadata log is offline: {gone} was {word}"):
        broker.cluster.delete_topic("orders")
    broker.clock.advance(10 * CHECK_INTERVAL_MS)
    assert len(calls) == 1
    assert caplog.text.count("every log directory is offline") == 1


@pytest.mark.parametrize(
    ("change", "gone"),
    [
        (shutil.rmtree, "removed"),
        (lambda folder: (folder / ACTIVE).unlink(), "removed"),
        (replace_by_copy, "replaced"),
    ],
)
def test_removed_partition_folder_goes_offline_alone(
    change: Callable[[Path], None], gone: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    broker = running(tmp_path)
    woken: list[int] = []
    broker.cluster.partition("orders", 1).subscribe(lambda: woken.append(1))
    change(tmp_path / "orders-1")
    broker.clock.advance(CHECK_INTERVAL_MS)

    assert [produce(broker, index) for index in (0, 1)] == [0, LOST]
    assert leaders(broker) == [(0, 1), (LeaderNotAvailable.code, -1)]
    assert woken, "a Fetch that waits is answered"
    (record,) = caplog.records
    assert record.getMessage() == (
        f"orders-1 is offline until the next start, its log ended at offset 10: "
        f"{tmp_path}/orders-1/{ACTIVE} was {gone} while the broker was running"
    )
    broker.clock.advance(120_000)
    assert len(caplog.records) == 1
    broker.cluster.close()
    assert not (tmp_path / ".kafka_cleanshutdown").exists(), "the next start must look at each log"


def test_moved_folder_may_be_restored(tmp_path: Path) -> None:
    broker = running(tmp_path)
    move(tmp_path / "orders-1")
    broker.clock.advance(CHECK_INTERVAL_MS)
    broker.cluster.close()
    (tmp_path / "moved").rename(tmp_path / "orders-1")
    again = broker.restart()
    assert [len(read_values(partition.log)) for partition in again.cluster.topics["orders"].partitions] == [10, 10]


@pytest.mark.parametrize("is_noticed", [True, False])
def test_next_start_reports_missing_partitions_and_their_size(is_noticed: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """After SIGKILL, whether the broker had noticed or not: its high watermark is on the disk since a few seconds after the Produce."""
    broker = running(tmp_path)
    broker.clock.advance(HIGH_WATERMARKS_MS)
    shutil.rmtree(tmp_path / "orders-1")
    if is_noticed:
        broker.clock.advance(CHECK_INTERVAL_MS)
    caplog.clear()

    again = broker.restart(clean=False)
    (record,) = caplog.records
    assert (
        record.getMessage() == f"{tmp_path}/orders-1 is missing, and its log ended at offset 10 or later: partition orders-1 is now empty"
    )
    assert [partition.log.log_end_offset for partition in again.cluster.topics["orders"].partitions] == [10, 0]
    caplog.clear()
    again.restart(clean=False)
    assert not caplog.records, "once"


def test_each_check_is_bounded_and_all_logs_are_checked_in_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str | int] = []

    class Noting(RealFiles):
        def identity(self, place: str | int) -> tuple[int, int]:
            asked.append(place)
            return super().identity(place)

    monkeypatch.setattr(removal_watch, "LOGS_A_CHECK", 3)
    broker = running(tmp_path, Noting(), partitions=7)
    seen: set[str | int] = set()
    for count in (3, 3, 1):
        asked.clear()
        broker.clock.advance(CHECK_INTERVAL_MS)
        logs = [place for place in asked if str(place).endswith(ACTIVE)]
        assert len(logs) == count
        assert len(asked) <= 2 * count + 2, "its open file, the directory and the folder of the metadata log"
        seen.update(logs)
    assert len(seen) == 7


def test_deleted_rolled_or_unloaded_logs_are_not_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    broker = running(tmp_path, RealFiles(max_open_files=1))
    broker.cluster.create_topic("rolled", partition_count=1, configs={"segment.ms": "1000"})
    for seconds in (0, 5):
        broker.append("rolled", 0, records(1, timestamp=broker.clock.now_ms() + 1000 * seconds))
    assert len(list((tmp_path / "rolled-0").glob("*.log"))) == 2
    broker.cluster.create_topic("gone", partition_count=3)
    broker.clock.advance(CHECK_INTERVAL_MS)
    broker.cluster.delete_topic("gone")
    broker.clock.advance(60 * CHECK_INTERVAL_MS)
    assert [produce(broker, index) for index in (0, 1)] == [0, 0]
    assert not caplog.records


def test_in_memory_files_are_watched(tmp_path: Path) -> None:
    files = MemoryFiles()
    broker = running(tmp_path, files)
    broker.clock.advance(CHECK_INTERVAL_MS)
    assert produce(broker, 0) == 0
    files.remove(f"{tmp_path}/orders-0/{ACTIVE}")
    broker.clock.advance(CHECK_INTERVAL_MS)
    assert [produce(broker, index) for index in (0, 1)] == [LOST, 0]
