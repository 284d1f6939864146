"""FAULTS 8: a disk that fails takes its log directory offline, and nothing else; nothing it did not keep is acknowledged."""

from __future__ import annotations

import errno
from pathlib import Path
from unittest.mock import patch

import pytest

from minibroker.errors import ConfigurationError, KafkaStorageError, LeaderNotAvailable
from minibroker.schemas import k00_produce as k00
from minibroker.schemas import k03_metadata as k03
from minibroker.schemas import k35_describe_log_dirs as k35
from tests.support.broker_in_memory import BrokerInMemory, records
from tests.support.faulty_files import FaultyFiles
from tests.support.log_batches import read_values

LOST = KafkaStorageError.code


def two_directories(tmp_path: Path, files: FaultyFiles, **config: str) -> BrokerInMemory:
    """Partition 0 lives in a, 1 in b; ten records in each."""
    paths = f"{tmp_path}/a,{tmp_path}/b"
    broker = BrokerInMemory(folder=tmp_path, files=files, config={"log.dirs": paths} | {k.replace("_", "."): v for k, v in config.items()})
    if "orders" not in broker.cluster.topics:
        broker.cluster.create_topic("orders", partition_count=2)
        for index in range(2):
            broker.append("orders", index, records(10))
    return broker


def produce(broker: BrokerInMemory, index: int) -> int:
    """The error code of one produced batch."""
    data = [k00.Partition(index=index, records=memoryview(bytearray(records(1))))]
    topic = k00.Topic(name="orders", topic_id=broker.cluster.topic("orders").topic_id, partition_data=data)
    pending = broker.begin(k00.Request(transactional_id=None, acks=-1, timeout_ms=1000, topic_data=[topic]))
    broker.clock.advance(0)  # the end of the turn, when the group commit begins
    code: int = pending.answer().responses[0].partition_responses[0].error_code
    return code


def leaders(broker: BrokerInMemory) -> list[tuple[int, int, int]]:
    """Error code, leader and number of offline replicas of each partition, as Metadata tells."""
    (topic,) = broker.ask(k03.Request(topics=None)).topics
    return [(each.error_code, each.leader_id, len(each.offline_replicas)) for each in topic.partitions]


def directories(broker: BrokerInMemory) -> list[tuple[str, int]]:
    """Name and error code of each, as DescribeLogDirs tells."""
    return [(Path(each.log_dir).name, each.error_code) for each in broker.ask(k35.Request(topics=None)).results]


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC, errno.EROFS])
@pytest.mark.parametrize("operation", ["write", "sync"])
def test_other_directory_stays_online(operation: str, code: int, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    files = FaultyFiles()
    broker = two_directories(tmp_path, files, log_flush_interval_messages="1")
    assert [produce(broker, index) for index in range(2)] == [0, 0]
    files.fail(operation, code, path_part="b/orders-1/")

    assert produce(broker, 1) == LOST
    assert produce(broker, 1) == LOST, "the failure was the only one, and still nothing is taken for done"

    assert f"{tmp_path}/b is offline with its 1 partitions" in caplog.text
    assert produce(broker, 0) == 0
    assert leaders(broker) == [(0, 1, 0), (LeaderNotAvailable.code, -1, 1)]
    assert directories(broker) == [("a", 0), ("b", LOST)]
    broker.cluster.create_topic("new", partition_count=4)
    assert sorted(path.name for path in tmp_path.glob("?/new-*") if path.parent.name == "b") == []
    broker.clock.advance(120_000)
    broker.cluster.close()
    assert not (tmp_path / "b" / ".kafka_cleanshutdown").exists()

    files.heal()
    again = two_directories(tmp_path, files)
    for index, least in ((0, 12), (1, 11)):
        assert len(read_values(again.cluster.partition("orders", index).log)) >= least
    assert directories(again) == [("a", 0), ("b", 0)]


def test_errors_other_than_disk_failures_fail_only_the_request(tmp_path: Path) -> None:
    """Without a walk over all partitions: clients can cause such errors with each request."""
    files = FaultyFiles()
    broker = two_directories(tmp_path, files)
    files.fail("write", errno.EINVAL, path_part="b/orders-1/")
    with patch.object(broker.cluster.logs, "partitions", side_effect=AssertionError):
        assert [produce(broker, 1) for _ in range(2)] == [LOST, 0]
    assert directories(broker) == [("a", 0), ("b", 0)]


def test_broker_answers_without_any_online_directory(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    files = FaultyFiles()
    broker = two_directories(tmp_path, files)
    files.fail("write", errno.EIO, times=2, path_part="orders-")
    assert [produce(broker, index) for index in (0, 1, 0, 1)] == [LOST] * 4
    assert "every log directory is offline" in caplog.text
    assert leaders(broker) == [(LeaderNotAvailable.code, -1, 1)] * 2
    with pytest.raises(KafkaStorageError):
        broker.cluster.create_topic("new", partition_count=1)
    assert "new" not in broker.cluster.topics
    broker.cluster.close()


@pytest.mark.parametrize("lost", ["a", "b"])
def test_topic_recreated_in_another_directory_stays_there(lost: str, tmp_path: Path) -> None:
    """The folder of its predecessor comes back with the disk, and is not taken for it."""
    files = FaultyFiles()
    broker = two_directories(tmp_path, files)
    files.fail("write", errno.EIO, path_part=f"{lost}/orders-")
    assert LOST in [produce(broker, index) for index in range(2)]
    broker.cluster.delete_topic("orders")
    broker.cluster.create_topic("orders", partition_count=2)
    for index in range(2):
        broker.append("orders", index, records(3))
    broker.cluster.close()
    again = two_directories(tmp_path, files)
    assert [len(read_values(again.cluster.partition("orders", index).log)) for index in range(2)] == [3, 3]
    assert not [path for path in (tmp_path / lost).iterdir() if path.name.startswith("orders")]


def test_unusable_directory_is_offline_at_start(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """As in Apache Kafka; its partitions are not begun anew elsewhere, and are back with it."""
    two_directories(tmp_path, FaultyFiles()).cluster.close()
    (tmp_path / "b").rename(tmp_path / "kept")
    (tmp_path / "b").write_text("no folder")

    broker = two_directories(tmp_path, FaultyFiles())
    assert f"{tmp_path}/b is offline with its partitions until the next start" in caplog.text
    assert leaders(broker) == [(0, 1, 0), (LeaderNotAvailable.code, -1, 1)]
    assert directories(broker) == [("a", 0), ("b", LOST)]
    assert [produce(broker, index) for index in range(2)] == [0, LOST]
    broker.cluster.create_topic("new", partition_count=3)
    broker.clock.advance(120_000)
    assert [partition.log.log_end_offset for partition in broker.cluster.topics["new"].partitions] == [0, 0, 0]
    broker.cluster.close()

    (tmp_path / "b").unlink()
    (tmp_path / "kept").rename(tmp_path / "b")
    again = two_directories(tmp_path, FaultyFiles())
    assert [len(read_values(partition.log)) for partition in again.cluster.topics["orders"].partitions] == [11, 10]
    assert directories(again) == [("a", 0), ("b", 0)]


@pytest.mark.parametrize("operation", ["open", "rename", "remove", "read_at"])
def test_directory_failing_during_claim_is_offline(operation: str, tmp_path: Path) -> None:
    two_directories(tmp_path, FaultyFiles()).cluster.close()
    files = FaultyFiles()
    files.fail(operation, errno.EIO, path_part=f"{tmp_path}/b/")
    broker = two_directories(tmp_path, files)
    assert directories(broker)[0] == ("a", 0)
    assert produce(broker, 0) == 0
    assert produce(broker, 1) == (LOST if directories(broker)[1] == ("b", LOST) else 0)


@pytest.mark.parametrize("broken", [("a",), ("a", "b")])
def test_missing_metadata_log_refuses_to_start(broken: tuple[str, ...], tmp_path: Path) -> None:
    two_directories(tmp_path, FaultyFiles()).cluster.close()
    for name in broken:
        (tmp_path / name).rename(tmp_path / f"{name}-kept")
        (tmp_path / name).write_text("no folder")
    with pytest.raises(ConfigurationError, match=r"log\.dirs: cannot use .*/a: "):
        two_directories(tmp_path, FaultyFiles())
    for name in broken:
        (tmp_path / name).unlink()
        (tmp_path / f"{name}-kept").rename(tmp_path / name)
    assert directories(two_directories(tmp_path, FaultyFiles())) == [("a", 0), ("b", 0)]
