"""Cluster: what outlives a stop, a crash at each point of an operation, and damage to single partitions."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path
from uuid import UUID

import pytest

from minibroker.background import InlineBackground
from minibroker.clock import ManualClock
from minibroker.cluster.cluster import Cluster
from minibroker.cluster.metadata.frame import MetadataOperation, run
from minibroker.cluster.metadata.metadata_log import FOLDER, METADATA_TOPIC_ID, MetadataLog
from minibroker.config.broker_config import BrokerConfig
from minibroker.errors import (
    ConfigurationError,
    InvalidTopicException,
    KafkaStorageError,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from minibroker.schemas.internal.setting_records import FeatureLevelRecord
from minibroker.storage.directory_files import read_topic_id
from minibroker.storage.files import RealFiles
from tests.support.broker_in_memory import BrokerInMemory, records
from tests.support.compiled import skip_if_compiled
from tests.support.faulty_files import FaultyFiles
from tests.support.log_batches import read_values


def state_of(cluster: Cluster) -> object:
    """Everything that must outlive a restart."""
    return {
        name: (topic.topic_id, dict(topic.config), [(each.index, each.log.log_end_offset) for each in topic.partitions])
        for name, topic in cluster.topics.items()
    }


def busy_broker() -> BrokerInMemory:
    broker = BrokerInMemory(topics={"orders": 3, "a-b": 1, "gone": 2})
    broker.cluster.create_topic("configured", configs={"retention.ms": "-1", "cleanup.policy": "compact"})
    broker.append("orders", 1, records(10))
    broker.append("a-b", 0, records(3))
    broker.cluster.configs.alter_topic("configured", {"cleanup.policy": "compact", "segment.bytes": "1000"})
    run(broker.cluster.create_partitions_in_steps("a-b", 2))
    broker.cluster.delete_topic("gone")
    return broker


@pytest.mark.parametrize("clean", [True, False], ids=["stopped", "killed"])
def test_topics_and_records_survive_a_restart(clean: bool) -> None:
    broker = busy_broker()
    before = state_of(broker.cluster)
    for _ in range(3):
        broker = broker.restart(clean=clean)
        assert state_of(broker.cluster) == before
    assert read_values(broker.cluster.partition("orders", 1).log) == {index: b"v%d" % index for index in range(10)}


def recorded_leader(broker: BrokerInMemory) -> int:
    """What the metadata log says of partition 0, to an Apache Kafka that opens the directory."""
    return int(broker.cluster.image.partition_record(broker.cluster.partition("orders", 0)).leader)


def test_leader_epoch_rises_after_an_unclean_stop_and_a_resignation() -> None:
    broker = BrokerInMemory(topics={"orders": 1})
    broker.append("orders", 0, records(2))
    assert recorded_leader(broker) == 1
    for _ in range(2):  # the second stop finds nothing to end
        broker = broker.restart(clean=True)
        assert (recorded_leader(broker), broker.cluster.partition("orders", 0).leader_epoch) == (-1, 1)
    broker = broker.restart(clean=False)
    partition = broker.cluster.partition("orders", 0)
    assert (recorded_leader(broker), partition.leader_epoch, partition.log.leader_epoch) == (1, 2, 2)
    broker.append("orders", 0, records(2))
    assert partition.log.end_offset_for_epoch(0).end_offset == 2
    broker = broker.restart(clean=True)
    assert (recorded_leader(broker), broker.cluster.partition("orders", 0).leader_epoch) == (-1, 3)


@pytest.mark.parametrize(("level", "last_known"), [(0, []), (1, [1])])
def test_clean_stop_records_the_last_leader_for_elr(level: int, last_known: list[int]) -> None:
    """Kafka would elect no leader otherwise: it empties the ISR of a broker that never registered."""
    broker = BrokerInMemory(topics={"orders": 1})
    broker.cluster.image.features["eligible.leader.replicas.version"] = level
    partition = broker.cluster.partition("orders", 0)
    broker.cluster.metadata.resign([partition])
    record = broker.cluster.image.partition_record(partition)
    assert (record.leader, list(record.isr), list(record.last_known_elr or [])) == (-1, [1], last_known)
    broker.cluster.metadata.raise_leader_epochs([partition])
    record = broker.cluster.image.partition_record(partition)
    assert (record.leader, list(record.isr), list(record.last_known_elr or [])) == (1, [1], [])


def test_clean_stop_resigns_all_leaderships_with_one_sync(tmp_path: Path) -> None:
    syncs: list[int] = []

    class Counting(RealFiles):
        def sync(self, descriptor: int) -> None:
            syncs.append(descriptor)
            super().sync(descriptor)

    broker = BrokerInMemory(topics={"orders": 3}, folder=tmp_path, files=Counting())
    broker.clock.advance(1000)
    before, size = len(syncs), (tmp_path / "__cluster_metadata-0" / "00000000000000000000.log").stat().st_size
    broker.cluster.metadata.resign(broker.cluster.topics["orders"].partitions)
    assert len(syncs) == before + 1
    broker.cluster.metadata.resign(broker.cluster.topics["orders"].partitions)
    assert len(syncs) == before + 1
    assert size < (tmp_path / "__cluster_metadata-0" / "00000000000000000000.log").stat().st_size


def test_failing_metadata_log_does_not_prevent_a_stop(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    files = FaultyFiles()
    broker = BrokerInMemory(topics={"orders": 1}, folder=tmp_path, files=files)
    broker.append("orders", 0, records(2))
    files.fail("write", errno.ENOSPC, path_part="__cluster_metadata-0/")
    broker.cluster.close()
    assert "could not end the leaderships in the metadata log" in caplog.text
    again = BrokerInMemory(folder=tmp_path)
    assert again.cluster.partition("orders", 0).log.log_end_offset == 2


def test_look_ups() -> None:
    cluster = BrokerInMemory(topics={"orders": 2}).cluster
    topic = cluster.topic("orders")
    assert cluster.partition_by_id(topic.topic_id, 1) is cluster.partition("orders", 1)
    assert cluster.topic_by_id(topic.topic_id) is topic
    for index in (-1, 2):
        with pytest.raises(UnknownTopicOrPartition):
            cluster.partition("orders", index)
        with pytest.raises(UnknownTopicOrPartition):
            cluster.partition_by_id(topic.topic_id, index)
    with pytest.raises(UnknownTopicOrPartition):
        cluster.topic("nope")
    with pytest.raises(UnknownTopicId):
        cluster.topic_by_id(METADATA_TOPIC_ID)


def test_folders_contain_the_topic_id() -> None:
    broker = BrokerInMemory(topics={"orders": 1})
    assert read_topic_id(RealFiles(), str(broker.folder / "orders-0" / "partition.metadata")) == broker.cluster.topics["orders"].topic_id


@pytest.mark.parametrize("name", ["..", "a/b", "", ".", "x" * 250, "ü", "__cluster_metadata/../x"])
def test_topic_name_cannot_escape_the_directory(name: str, tmp_path: Path) -> None:
    broker = BrokerInMemory(folder=tmp_path / "data")
    before = sorted(path.name for path in broker.folder.parent.iterdir())
    with pytest.raises(InvalidTopicException):
        broker.cluster.auto_create_topic(name)
    with pytest.raises(InvalidTopicException):
        broker.cluster.create_topic(name)
    assert sorted(path.name for path in broker.folder.parent.iterdir()) == before
    assert [path.name for path in broker.folder.iterdir() if path.is_dir()] == ["__cluster_metadata-0"]


def test_auto_creation() -> None:
    broker = BrokerInMemory(config={"num.partitions": "2", "topic.partition.count.map": "clicks:5"})
    assert len(broker.cluster.auto_create_topic("orders").partitions) == 2
    assert len(broker.cluster.auto_create_topic("clicks").partitions) == 5
    assert broker.cluster.auto_create_topic("orders") is broker.cluster.topics["orders"]
    with pytest.raises(UnknownTopicOrPartition):
        broker.cluster.auto_create_topic("__consumer_offsets")
    with pytest.raises(UnknownTopicOrPartition):
        BrokerInMemory(config={"auto.create.topics.enable": "false"}).cluster.auto_create_topic("orders")


def test_partitions_are_spread_over_directories(tmp_path: Path) -> None:
    config = {"log.dirs": f"{tmp_path}/a,{tmp_path}/b,{tmp_path}/c"}
    broker = BrokerInMemory(topics={"orders": 6}, config=config, folder=tmp_path)
    assert [len(directory.logs) for directory in broker.cluster.log_directories] == [2, 2, 2]
    broker.append("orders", 4, records(5))
    broker.cluster.close()

    again = BrokerInMemory(config=config, folder=tmp_path)
    assert again.cluster.partition("orders", 4).log.log_end_offset == 5
    again.cluster.close()

    without = BrokerInMemory(config={"log.dirs": f"{tmp_path}/a,{tmp_path}/b"}, folder=tmp_path)
    offline = [partition.index for partition in without.cluster.topics["orders"].partitions if partition.online_log is None]
    assert offline == [2, 5]
    with pytest.raises(KafkaStorageError, match=r"not among log\.dirs"):
        _ = without.cluster.partition("orders", 2).log


def test_damaged_metadata_file_takes_one_partition_offline(caplog: pytest.LogCaptureFixture) -> None:
    broker = BrokerInMemory(topics={"orders": 2})
    broker.append("orders", 1, records(5))
    (broker.folder / "orders-0" / "partition.metadata").write_text("version: 9")

    broker = broker.restart(clean=False)

    with pytest.raises(KafkaStorageError, match=r"partition\.metadata"):
        _ = broker.cluster.partition("orders", 0).log
    assert broker.cluster.partition("orders", 1).log.log_end_offset == 5
    assert "orders-0 is offline" in caplog.text
    broker.cluster.close()
    assert not (broker.folder / ".kafka_cleanshutdown").exists()


def test_folder_of_another_topic_is_not_changed() -> None:
    broker = BrokerInMemory(topics={"orders": 1})
    foreign = "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAYA"
    (broker.folder / "orders-0" / "partition.metadata").write_text(foreign)
    (broker.folder / "kept-0").mkdir()
    (broker.folder / "kept-0" / "partition.metadata").write_text(foreign)

    broker = broker.restart()

    with pytest.raises(KafkaStorageError, match="topic id"):
        _ = broker.cluster.partition("orders", 0).log
    assert (broker.folder / "orders-0" / "partition.metadata").read_text() == foreign
    assert (broker.folder / "kept-0").exists()


@pytest.mark.parametrize("recreated", [False, True], ids=["gone", "recreated"])
def test_crash_between_the_record_and_the_removal_of_a_topic(recreated: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    skip_if_compiled()
    broker = BrokerInMemory(topics={"orders": 2})
    broker.append("orders", 0, records(5))
    with monkeypatch.context() as patch:
        patch.setattr(RealFiles, "rename", lambda *_: None)
        broker.cluster.delete_topic("orders")
    assert (broker.folder / "orders-0").exists()
    if recreated:
        shutil.copytree(broker.folder / "orders-0", broker.folder / "saved")
        broker.cluster.create_topic("orders")
        shutil.rmtree(broker.folder / "orders-0")
        (broker.folder / "saved").rename(broker.folder / "orders-0")

    broker = broker.restart(clean=False)

    assert not (broker.folder / "orders-1").exists()
    if recreated:
        assert broker.cluster.partition("orders", 0).log.log_end_offset == 0
    else:
        assert "orders" not in broker.cluster.topics
        assert not (broker.folder / "orders-0").exists()


def test_leftovers_of_deleted_topics_are_removed_at_start() -> None:
    broker = BrokerInMemory(topics={"orders": 2})
    broker.cluster.delete_topic("orders")
    assert len(list(broker.folder.glob("*-delete"))) == 2
    broker = broker.restart(clean=False)
    assert not list(broker.folder.glob("*-delete"))


def test_partition_without_a_folder_is_offline() -> None:
    files = FaultyFiles()
    broker = BrokerInMemory(files=files)
    files.fail("make_directory", errno.EACCES, path_part="orders-1", times=10)
    files.fail("open", errno.ENOSPC, path_part="orders-1", times=10)
    topic = broker.cluster.create_topic("orders", partition_count=3)
    assert [partition.online_log is None for partition in topic.partitions] == [False, True, False]


def test_checkpoints_are_written_periodically() -> None:
    broker = BrokerInMemory(topics={"orders": 1})
    broker.append("orders", 0, records(7))
    broker.cluster.partition("orders", 0).log.flusher.flush()
    broker.clock.advance(60_000)
    assert (broker.folder / "recovery-point-offset-checkpoint").read_text() == "0\n1\norders 0 7\n"
    assert (broker.folder / "replication-offset-checkpoint").read_text() == "0\n1\norders 0 7\n"
    assert (broker.folder / "log-start-offset-checkpoint").read_text() == "0\n0\n"


def test_metadata_log_in_its_own_directory(tmp_path: Path) -> None:
    config = {"log.dirs": str(tmp_path / "data"), "metadata.log.dir": str(tmp_path / "metadata")}
    broker = BrokerInMemory(topics={"orders": 1}, config=config, folder=tmp_path)
    assert (tmp_path / "metadata" / "__cluster_metadata-0").is_dir()
    assert not (tmp_path / "data" / "__cluster_metadata-0").exists()
    broker.cluster.close()
    assert "orders" in BrokerInMemory(config=config, folder=tmp_path).cluster.topics


def test_refused_start_releases_the_lock(tmp_path: Path) -> None:
    broker = BrokerInMemory(topics={"orders": 1}, folder=tmp_path)
    broker.cluster.close()
    log = tmp_path / "__cluster_metadata-0" / "00000000000000000000.log"
    good = log.read_bytes()
    log.write_bytes(b"\xff" + good[1:])
    config = BrokerConfig({"log.dirs": str(tmp_path)})
    with pytest.raises(ConfigurationError, match="damaged"):
        Cluster.open(config, RealFiles(), ManualClock(), InlineBackground())
    log.write_bytes(good)
    Cluster.open(config, RealFiles(), ManualClock(), InlineBackground()).close()


def test_newer_metadata_version_is_refused(tmp_path: Path) -> None:
    log = MetadataLog(RealFiles(), str(tmp_path / FOLDER), node_id=1, directory_id=UUID(int=77), clock=ManualClock())
    list(log.replay())
    log.append_all([MetadataOperation([FeatureLevelRecord(name="metadata.version", feature_level=31)])])
    log.close()
    with pytest.raises(ConfigurationError, match=r"metadata\.version 31"):
        BrokerInMemory(folder=tmp_path)


@pytest.mark.parametrize("clean", [True, False], ids=["stopped", "killed"])
def test_recreated_topic_ignores_old_checkpoints(clean: bool) -> None:
    """The checkpoints on the disk still name the deleted topic's offsets: believed, they would cut acknowledged records."""
    broker = BrokerInMemory(topics={"orders": 2})
    for index in range(2):
        broker.append("orders", index, records(500))
        broker.cluster.partition("orders", index).advance_log_start_offset(450)
    broker.clock.advance(60_000)
    for _ in range(2):
        broker.cluster.delete_topic("orders")
        broker.cluster.create_topic("orders", partition_count=1)
        broker.append("orders", 0, records(100))
        broker = broker.restart(clean=clean)
        log = broker.cluster.partition("orders", 0).log
        assert (log.log_start_offset, log.log_end_offset) == (0, 100)
    run(broker.cluster.create_partitions_in_steps("orders", 2))
    assert broker.cluster.partition("orders", 1).log.log_start_offset == 0


def test_checkpoints_keep_entries_of_offline_partitions() -> None:
    broker = BrokerInMemory(topics={"orders": 2})
    broker.append("orders", 0, records(10))
    broker.cluster.partition("orders", 0).advance_log_start_offset(7)
    broker.cluster.close()
    metadata = broker.folder / "orders-0" / "partition.metadata"
    kept = metadata.read_bytes()
    metadata.write_bytes(b"version: 9")
    hurt = BrokerInMemory(folder=broker.folder)
    assert hurt.cluster.partition("orders", 0).online_log is None
    hurt.clock.advance(60_000)
    hurt.cluster.close()
    metadata.write_bytes(kept)
    assert BrokerInMemory(folder=broker.folder).cluster.partition("orders", 0).log.log_start_offset == 7


def test_failed_derived_file_does_not_change_the_metadata_log() -> None:
    files = FaultyFiles()
    first = BrokerInMemory(topics={"orders": 1}, files=files)
    first.cluster.close()
    broker = BrokerInMemory(folder=first.folder, files=files)
    files.fail("rename", errno.ENOSPC, path_part="__cluster_metadata-0/leader-epoch-checkpoint")
    broker.cluster.create_topic("second", partition_count=1)
    broker.cluster.create_topic("third", partition_count=1)
    assert set(broker.restart().cluster.topics) == {"orders", "second", "third"}


@pytest.mark.parametrize("content", [b"", bytes(43)])
def test_empty_partition_metadata_is_rewritten(content: bytes, caplog: pytest.LogCaptureFixture) -> None:
    """It is not synced: a power loss may leave that, and the records are synced."""
    broker = BrokerInMemory(topics={"orders": 1})
    broker.append("orders", 0, records(10))
    (broker.folder / "orders-0" / "partition.metadata").write_bytes(content)
    again = broker.restart(clean=False)
    assert again.cluster.partition("orders", 0).log.log_end_offset == 10
    assert "rewritten" in caplog.text


def test_full_disk_at_start_is_refused_in_one_line() -> None:
    files = FaultyFiles()
    broker = BrokerInMemory(topics={"orders": 1}, files=files)
    broker.cluster.close(clean=False)
    files.fail("write", errno.ENOSPC, times=9, path_part="__cluster_metadata-0")
    with pytest.raises(ConfigurationError, match="No space left"):
        BrokerInMemory(folder=broker.folder, files=files)
    files.heal()
    BrokerInMemory(folder=broker.folder, files=files)
