"""Snapshots of the metadata log: written and read, preferred to the log, passed over when damaged; what they replace goes."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from minibroker.background import InlineBackground
from minibroker.clock import ManualClock
from minibroker.cluster.cluster import Cluster
from minibroker.cluster.metadata.batches import position_before
from minibroker.cluster.metadata.metadata_image import MetadataImage
from minibroker.cluster.metadata.metadata_reader import MetadataReader
from minibroker.cluster.metadata.metadata_store import MetadataStore
from minibroker.cluster.metadata.quorum import quorum_of
from minibroker.cluster.metadata.snapshot import BATCH_BYTES, Snapshot, SnapshotId, read_snapshot, snapshot_batches, write_snapshot
from minibroker.cluster.metadata.trimming import TrimmingLimits
from minibroker.config.broker_config import BrokerConfig
from minibroker.errors import ConfigurationError, UnknownTopicOrPartition
from minibroker.records.any_format import split_batches
from minibroker.schemas.internal import broker_records, security_records, setting_records, topic_records
from minibroker.schemas.internal.setting_records import ConfigRecord, FeatureLevelRecord, ProducerIdsRecord
from minibroker.schemas.internal.topic_records import PartitionChangeRecord, PartitionRecord, RemoveTopicRecord, TopicRecord
from minibroker.storage.files import RealFiles
from minibroker.wire.schema import NIL_UUID
from tests.support.broker_in_memory import BrokerInMemory, records
from tests.support.faulty_files import FaultyFiles

DIRECTORY_ID = UUID(int=77)
TOPIC_ID = UUID(int=1 << 100)
SMALL = TrimmingLimits(snapshot_bytes=400, retention_bytes=2500)


def store_in(
    folder: Path, limits: TrimmingLimits = SMALL, files: RealFiles | None = None, clock: ManualClock | None = None
) -> MetadataStore:
    store = MetadataStore(
        files or RealFiles(),
        str(folder),
        node_id=1,
        directory_id=DIRECTORY_ID,
        clock=clock or ManualClock(),
        background=InlineBackground(),
        limits=limits,
    )
    store.load()
    store.settle()
    return store


def metadata(folder: Path) -> Path:
    return folder / "__cluster_metadata-0"


def names(folder: Path, suffix: str) -> list[str]:
    return sorted(path.name for path in metadata(folder).iterdir() if path.suffix == suffix)


def config(number: int) -> ConfigRecord:
    return ConfigRecord(resource_type=2, resource_name="orders", name="retention.ms", value=str(number))


def test_snapshot_round_trip(tmp_path: Path) -> None:
    many = [config(number) for number in range(20_000)]
    path = str(tmp_path / SnapshotId(7, 3).name)
    written = Snapshot(quorum_of(1, DIRECTORY_ID), many, 1234)
    size = write_snapshot(RealFiles(), path, snapshot_batches(written, epoch=3, metadata_version=30, now_ms=5))
    found = read_snapshot(RealFiles(), path)
    assert (found.records, found.last_contained_log_timestamp) == (many, 1234)
    assert found.quorum.is_led_by(1, DIRECTORY_ID)
    batches = list(split_batches(Path(path).read_bytes()))
    assert [batch.is_control for batch in batches] == [True, False, False, False, True]
    assert [batch.base_offset for batch in batches[1:]] == [batch.next_offset for batch in batches[:-1]]
    assert max(batch.size for batch in batches) < 2 * BATCH_BYTES
    assert size == sum(batch.size for batch in batches)
    assert [file.name for file in tmp_path.iterdir()] == ["00000000000000000007-0000000003.checkpoint"]


def test_truncated_or_damaged_snapshot_is_refused(tmp_path: Path) -> None:
    path = tmp_path / SnapshotId(7, 3).name
    write_snapshot(
        RealFiles(),
        str(path),
        snapshot_batches(Snapshot(quorum_of(1, DIRECTORY_ID), [config(1)], 0), epoch=3, metadata_version=30, now_ms=5),
    )
    whole = path.read_bytes()
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        with pytest.raises(ConfigurationError, match=r"cut off|damaged"):
            read_snapshot(RealFiles(), str(path))
    for position in range(8, len(whole)):  # a base offset and an epoch are outside the CRC
        path.write_bytes(whole[:position] + bytes([whole[position] ^ 1]) + whole[position + 1 :])
        try:
            assert read_snapshot(RealFiles(), str(path)).records == [config(1)]
        except ConfigurationError:
            continue


def test_snapshot_records_rebuild_the_same_image() -> None:
    image = MetadataImage(1)
    change: dict[str, Any] = {"partition_id": 0, "topic_id": TOPIC_ID}
    partition: dict[str, Any] = {
        "replicas": [1],
        "isr": [1],
        "removing_replicas": [],
        "adding_replicas": [],
        "leader": 1,
        "leader_epoch": 0,
        "partition_epoch": 0,
    }
    for record in (
        FeatureLevelRecord(name="group.version", feature_level=1),
        FeatureLevelRecord(name="metadata.version", feature_level=30),
        FeatureLevelRecord(name="share.version", feature_level=1),
        FeatureLevelRecord(name="share.version", feature_level=0),
        register(1, epoch=13),
        register(2, epoch=14),
        broker_records.UnregisterBrokerRecord(broker_id=2, broker_epoch=14),
        broker_records.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=13, fenced=-1, cordoned_log_dirs=[]),
        TopicRecord(name="orders", topic_id=TOPIC_ID),
        PartitionRecord(partition_id=1, topic_id=TOPIC_ID, directories=[DIRECTORY_ID], **partition),
        PartitionRecord(partition_id=0, topic_id=TOPIC_ID, directories=[NIL_UUID], **partition),
        PartitionChangeRecord(**change, leader=-1, isr=[], eligible_leader_replicas=[1], last_known_elr=[1]),
        PartitionChangeRecord(**change, directories=[DIRECTORY_ID]),
        TopicRecord(name="gone", topic_id=UUID(int=5)),
        config(5),
        RemoveTopicRecord(topic_id=UUID(int=5)),
        quota("a", 5.0),
        quota("b", 6.0),
        quota("b", 0.0, remove=True),
        acl(1),
        acl(2),
        security_records.RemoveAccessControlEntryRecord(id=UUID(int=2)),
        scram("alice", 1),
        scram("alice", 2),
        security_records.RemoveUserScramCredentialRecord(name="alice", mechanism=2),
        token("t1"),
        token("t2"),
        security_records.RemoveDelegationTokenRecord(token_id="t2"),
        ProducerIdsRecord(broker_id=1, broker_epoch=13, next_producer_id=3000),
    ):
        image.apply(record)
    image.check_complete()
    again = MetadataImage(1)
    for record in image.to_records():
        again.apply(record)

    assert again.to_records() == image.to_records()
    found = image.to_records()
    assert len(found) == 12
    assert found[0] == FeatureLevelRecord(name="metadata.version", feature_level=30)
    (registered,) = (record for record in found if isinstance(record, broker_records.RegisterBrokerRecord))
    assert (registered.fenced, registered.cordoned_log_dirs, again.kept.broker_epoch(1)) == (False, [], 13)
    first = again.partition_record(again.topics["orders"].partitions[0])
    assert (first.isr, first.eligible_leader_replicas, first.leader, first.leader_epoch, first.partition_epoch) == ([], [1], -1, 1, 2)
    assert (again.topics["orders"].partitions[0].leader_epoch, again.topics["orders"].partitions[0].directory_id) == (1, DIRECTORY_ID)
    assert again.next_producer_id == 3000
    image.apply(topic_records.ClearElrRecord(topic_name="orders"))
    assert image.partition_record(image.topics["orders"].partitions[0]).eligible_leader_replicas is None


def test_missing_partition_is_refused() -> None:
    image = MetadataImage(1)
    image.apply(TopicRecord(name="orders", topic_id=TOPIC_ID))
    image.apply(PartitionRecord(partition_id=1, topic_id=TOPIC_ID, replicas=[1], isr=[1], removing_replicas=[], adding_replicas=[]))
    with pytest.raises(ConfigurationError, match="partition 1 of topic orders, but only 1 partitions"):
        image.check_complete()


def test_snapshots_are_taken_and_old_segments_deleted(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    for number in range(200):
        store.commit([config(number)])
    store.log.close()
    snapshots, segments = names(tmp_path, ".checkpoint"), names(tmp_path, ".log")
    assert len(snapshots) >= 2
    assert segments[0] > "00000000000000000100.log"
    assert sum(path.stat().st_size for path in metadata(tmp_path).iterdir()) < 6000
    reader = MetadataReader(RealFiles(), str(metadata(tmp_path)))
    assert len(list(reader.records())) < 20
    assert reader.snapshot is not None
    assert reader.snapshot.name == snapshots[-1]

    again = store_in(tmp_path)
    assert again.image.to_records() == store.image.to_records()
    assert again.log.log_end_offset == store.log.log_end_offset
    again.commit([config(1000)])
    again.log.close()
    assert store_in(tmp_path).image.config_of(2, "orders") == {"retention.ms": "1000"}


def test_snapshot_is_taken_after_the_interval_if_there_are_changes(tmp_path: Path) -> None:
    clock = ManualClock()
    limits = TrimmingLimits(snapshot_interval_ms=1000)
    store = store_in(tmp_path, limits, clock=clock)
    store.commit([config(1)])
    assert names(tmp_path, ".checkpoint") == []
    clock.advance(1000)
    store.commit([config(2)])
    store.commit([config(3)])
    assert len(names(tmp_path, ".checkpoint")) == 1
    store.log.close()
    assert store_in(tmp_path, limits).image.config_of(2, "orders") == {"retention.ms": "3"}


def test_old_snapshots_are_deleted_except_the_newest(tmp_path: Path) -> None:
    clock = ManualClock()
    store = store_in(tmp_path, TrimmingLimits(snapshot_bytes=1, retention_ms=1000, retention_bytes=-1), clock=clock)
    for number in range(3):
        store.commit([config(number)])
    first = names(tmp_path, ".checkpoint")
    assert len(first) == 3
    for name in first:
        os.utime(metadata(tmp_path) / name, (0, 0))
    store.commit([config(3)])
    assert len(names(tmp_path, ".checkpoint")) == 1
    assert names(tmp_path, ".checkpoint") > first


@pytest.mark.parametrize("operation", ["open", "write", "sync", "rename", "sync_directory"])
def test_failed_snapshot_is_retried(tmp_path: Path, operation: str, caplog: pytest.LogCaptureFixture) -> None:
    files = FaultyFiles()
    store = store_in(tmp_path, SMALL, files)
    part = "" if operation == "sync_directory" else "checkpoint"
    while not store._trimmer.is_due:
        store.commit([config(0)])
    files.fail(operation, errno.ENOSPC, path_part=part)
    store.commit([config(1)])
    assert "could not write a snapshot of the metadata log" in caplog.text
    for number in range(2, 40):
        store.commit([config(number)])
    store.log.close()
    assert names(tmp_path, ".checkpoint")
    again = store_in(tmp_path)
    assert again.image.config_of(2, "orders") == {"retention.ms": "39"}
    assert names(tmp_path, ".part") == []


def test_unfinished_and_deleted_snapshots_are_removed_at_start(tmp_path: Path) -> None:
    store_in(tmp_path).log.close()
    for name in ("00000000000000000009-0000000001.checkpoint.part", "00000000000000000007-0000000001.checkpoint.deleted"):
        (metadata(tmp_path) / name).write_bytes(b"half")
    store_in(tmp_path).log.close()
    assert sorted(path.name for path in metadata(tmp_path).iterdir() if "checkpoint." in path.name) == []


def test_damaged_snapshot_is_skipped_if_the_log_is_complete(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = store_in(tmp_path, TrimmingLimits(snapshot_bytes=400))
    for number in range(40):
        store.commit([config(number)])
    store.log.close()
    expected = store.image.to_records()
    for name in reversed(names(tmp_path, ".checkpoint")):
        (metadata(tmp_path) / name).write_bytes(b"nonsense")
        again = store_in(tmp_path)
        assert (again.image.to_records(), again.log.log_end_offset) == (expected, store.log.log_end_offset)
        again.log.close()
        assert name in caplog.text


def test_truncated_log_without_a_valid_snapshot_is_refused(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    for number in range(200):
        store.commit([config(number)])
    store.log.close()
    for name in names(tmp_path, ".checkpoint"):
        (metadata(tmp_path) / name).write_bytes(b"nonsense")
    with pytest.raises(ConfigurationError, match=r"starts at offset \d+, and no snapshot contains what was before; .*checkpoint: damaged"):
        store_in(tmp_path)


@pytest.mark.parametrize("lost", ["everything", "the last segment", "a part"])
def test_log_shorter_than_its_snapshot_restarts_after_it(tmp_path: Path, lost: str) -> None:
    store = store_in(tmp_path)
    for number in range(30):
        store.commit([config(number)])
    store._trimmer.take_snapshot(store.image.to_records())
    store.log.close()
    logs = sorted(metadata(tmp_path).glob("*.log"))
    if lost == "a part":
        logs[-1].write_bytes(logs[-1].read_bytes()[:100])
    for log in logs if lost == "everything" else logs[-1:] if lost == "the last segment" else []:
        log.unlink()

    again = store_in(tmp_path)
    assert (again.image.to_records(), again.log.log_end_offset) == (store.image.to_records(), store.log.log_end_offset)
    again.commit([config(9)])
    again.log.close()
    assert store_in(tmp_path).image.config_of(2, "orders") == {"retention.ms": "9"}


def test_bootstrap_records_start_the_log(tmp_path: Path) -> None:
    told = [FeatureLevelRecord(name="metadata.version", feature_level=25), scram("alice", 1)]
    batches = snapshot_batches(
        Snapshot(quorum_of(1, DIRECTORY_ID)._replace(kraft_version=0, voters=None), told, 0), epoch=0, metadata_version=25, now_ms=5
    )
    write_snapshot(RealFiles(), str(tmp_path / "bootstrap.checkpoint"), batches)
    store = store_in(tmp_path)
    assert store.image.to_records() == told
    assert store.log.metadata_version == 25
    store.log.close()
    assert store_in(tmp_path).image.to_records() == told


def test_folder_of_a_deleted_topic_is_moved_aside(tmp_path: Path) -> None:
    """Its directory was offline when it was deleted, say; a topic of its name must not be offline for that."""
    settings = {"metadata.log.max.record.bytes.between.snapshots": "1"}
    broker = BrokerInMemory(topics={"orders": 1}, folder=tmp_path, config=settings)
    broker.append("orders", 0, records(3))
    kept = tmp_path / "kept"
    (tmp_path / "orders-0").rename(kept)
    broker.cluster.delete_topic("orders")
    broker.cluster.create_topic("other", partition_count=1)
    broker.cluster.create_topic("orders", partition_count=1)
    broker.cluster.close()
    for path in (tmp_path / "orders-0").iterdir():
        path.unlink()
    (tmp_path / "orders-0").rmdir()
    kept.rename(tmp_path / "orders-0")

    cluster = Cluster.open(BrokerConfig({"log.dirs": str(tmp_path)} | settings), RealFiles(), ManualClock(), InlineBackground())
    assert cluster.partition("orders", 0).log.log_end_offset == 0
    (stray,) = tmp_path.glob("orders-0.*-stray")
    assert (stray / "00000000000000000000.log").stat().st_size > 0
    cluster.close()
    Cluster.open(BrokerConfig({"log.dirs": str(tmp_path)}), RealFiles(), ManualClock(), InlineBackground()).close()
    assert stray.exists()


def test_partition_of_other_nodes_is_offline(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    partition: dict[str, Any] = {"topic_id": TOPIC_ID, "isr": [2], "removing_replicas": [], "adding_replicas": []}
    partition |= {"leader": 2, "leader_epoch": 3}
    store.commit(
        [
            TopicRecord(name="orders", topic_id=TOPIC_ID),
            PartitionRecord(partition_id=0, replicas=[2, 1], directories=[NIL_UUID, DIRECTORY_ID], **partition),
            PartitionRecord(partition_id=1, replicas=[2, 3], directories=[NIL_UUID, NIL_UUID], **partition),
        ]
    )
    assert store.image.topics["orders"].partitions[0].directory_id == DIRECTORY_ID
    store.log.close()
    (tmp_path / "meta.properties").write_text("version=1\ncluster.id=c\nnode.id=1\ndirectory.id=AAAAAAAAAAAAAAAAAAAATQ\n")
    broker = BrokerInMemory(folder=tmp_path)
    assert broker.cluster.partition("orders", 0).log.log_end_offset == 0
    assert broker.cluster.partition("orders", 1).online_log is None
    assert not (tmp_path / "orders-1").exists()
    with pytest.raises(UnknownTopicOrPartition):
        broker.cluster.partition("orders", 2)


def test_position_search_stops_at_garbage(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    for number in range(3):
        store.commit([config(number)])
    store.log.close()
    data = (metadata(tmp_path) / "00000000000000000000.log").read_bytes()
    batches = list(split_batches(data))
    positions = [0]
    for batch in batches:
        positions.append(positions[-1] + batch.size)
    for index, batch in enumerate(batches):
        assert position_before(memoryview(data), batch.next_offset) == positions[index]
        assert position_before(memoryview(data), batch.base_offset) == positions[max(0, index - 1)]
    assert position_before(memoryview(data), 0) == 0
    assert position_before(memoryview(data + b"\xff" * 100), 1 << 60) == positions[-2]
    assert position_before(memoryview(data)[: positions[-1] - 1], 1 << 60) == positions[-3]


def register(broker_id: int, *, epoch: int) -> broker_records.RegisterBrokerRecord:
    return broker_records.RegisterBrokerRecord(
        broker_id=broker_id, incarnation_id=UUID(int=3), broker_epoch=epoch, end_points=[], features=[], rack=None, log_dirs=[DIRECTORY_ID]
    )


def quota(user: str, value: float, *, remove: bool = False) -> setting_records.ClientQuotaRecord:
    entity = [setting_records.QuotaEntity(entity_type="user", entity_name=user)]
    return setting_records.ClientQuotaRecord(entity=entity, key="producer_byte_rate", value=value, remove=remove)


def acl(number: int) -> security_records.AccessControlEntryRecord:
    return security_records.AccessControlEntryRecord(
        id=UUID(int=number),
        resource_type=2,
        resource_name="orders",
        pattern_type=3,
        principal="User:a",
        host="*",
        operation=3,
        permission_type=3,
    )


def scram(name: str, mechanism: int) -> security_records.UserScramCredentialRecord:
    return security_records.UserScramCredentialRecord(
        name=name, mechanism=mechanism, salt=b"salt", stored_key=b"stored", server_key=b"server", iterations=4096
    )


def token(token_id: str) -> security_records.DelegationTokenRecord:
    return security_records.DelegationTokenRecord(
        owner="User:a", requester="User:a", renewers=[], issue_timestamp=1, max_timestamp=9, expiration_timestamp=5, token_id=token_id
    )
