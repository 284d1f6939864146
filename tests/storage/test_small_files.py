"""Checkpoints, partition.metadata, meta.properties, snapshots, the marker and the lock: layouts as Kafka 4.3.1 wrote them, and damage."""

from __future__ import annotations

import errno
import subprocess
import sys
import uuid
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minibroker.errors import ConfigurationError, CorruptLogError
from minibroker.storage import directory_files, producer_snapshot
from minibroker.storage.checkpoint_file import LeaderEpochCheckpoint, OffsetCheckpoint
from minibroker.storage.directory_files import DirectoryLock, MetaProperties, mark_clean_shutdown, take_clean_shutdown
from minibroker.storage.files import RealFiles, replace_file
from minibroker.storage.log_file_names import delete_folder_name, file_name, parse_file_name, parse_folder_name
from minibroker.storage.producer_snapshot import ProducerEntry
from tests.support.faulty_files import FaultyFiles
from tests.support.golden_storage import golden_folder, golden_log_dir_file

files = RealFiles()


# Checkpoints


@pytest.mark.parametrize("name", ["recovery-point-offset-checkpoint", "replication-offset-checkpoint", "log-start-offset-checkpoint"])
def test_offset_checkpoints_match_kafka(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(golden_log_dir_file(name))
    checkpoint = OffsetCheckpoint(files, str(path))
    offsets = checkpoint.read()
    if name != "log-start-offset-checkpoint":
        assert offsets == {("rolled", 0): 153, ("idempotent", 0): 79, ("one-segment", 0): 46, ("empty", 0): 0}
    path.unlink()
    checkpoint.write(offsets)
    assert path.read_bytes() == golden_log_dir_file(name)


def test_missing_or_empty_checkpoint_is_empty(tmp_path: Path) -> None:
    checkpoint = OffsetCheckpoint(files, str(tmp_path / "c"))
    assert checkpoint.read() == {}
    (tmp_path / "c").touch()
    assert checkpoint.read() == {}


@pytest.mark.parametrize(
    "text", [b"1\n0\n", b"0\n2\na 0 1\n", b"0\nx\n", b"0\n1\na 0\n", b"0\n1\na 0 -1\n", b"0\n1\na b 1\n", b"\xff\xfe", b"0", b"0\n1\n\n"]
)
def test_garbage_checkpoint_is_refused(text: bytes, tmp_path: Path) -> None:
    (tmp_path / "c").write_bytes(text)
    with pytest.raises(CorruptLogError, match="/c"):
        OffsetCheckpoint(files, str(tmp_path / "c")).read()


def test_replace_file_is_atomic(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    for operation in ("write", "sync", "rename"):
        faulty = FaultyFiles()
        faulty.fail(operation, errno.EIO)
        with pytest.raises(OSError, match="Input/output"):
            replace_file(faulty, str(path), b"new", sync=True)
        assert path.read_bytes() == b"old"
    replace_file(files, str(path), b"new", sync=True)
    assert path.read_bytes() == b"new"


def test_new_files_are_not_executable(tmp_path: Path) -> None:
    replace_file(files, str(tmp_path / "file"), b"", sync=False)
    assert (tmp_path / "file").stat().st_mode & 0o111 == 0


# Leader epochs


def test_leader_epoch_checkpoint_matches_kafka(tmp_path: Path) -> None:
    path = tmp_path / "leader-epoch-checkpoint"
    LeaderEpochCheckpoint(files, str(path)).assign(0, 0)
    assert path.read_bytes() == golden_folder("empty-0")["leader-epoch-checkpoint"]


@given(steps=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=12), asked=st.integers(-1, 40), end=st.integers(0, 40))
def test_epoch_end_offsets_match_a_list_model(steps: list[tuple[int, int]], asked: int, end: int) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        checkpoint = LeaderEpochCheckpoint(files, f"{folder}/leader-epoch-checkpoint")
        model: dict[int, int] = {}
        epoch = offset = 0
        for epoch_step, offset_step in steps:
            epoch, offset = epoch + epoch_step, offset + offset_step
            checkpoint.assign(epoch, offset)
            if epoch > max(model, default=-1):
                model = {known: start for known, start in model.items() if start < offset} | {epoch: offset}
        assert checkpoint.entries == sorted(model.items())
        end = max(end, offset)
        known = [each for each in model if each <= asked]
        later = [start for each, start in model.items() if each > asked]
        is_unknown = asked < 0 or not model or asked > max(model)
        expected = (-1, -1) if is_unknown else (max(known, default=asked), min(later, default=end))
        assert checkpoint.end_offset_for(asked, end) == expected
        again = LeaderEpochCheckpoint(files, checkpoint.path)
        again.load()
        assert again.entries == checkpoint.entries
        again.truncate_from_end(offset)
        assert all(start < offset for _, start in again.entries)


# partition.metadata


def test_partition_metadata_matches_kafka(tmp_path: Path) -> None:
    path = tmp_path / "partition.metadata"
    path.write_bytes(golden_folder("rolled-0")["partition.metadata"])
    topic_id = directory_files.read_topic_id(files, str(path))
    assert topic_id is not None
    path.unlink()
    assert directory_files.read_topic_id(files, str(path)) is None
    directory_files.write_topic_id(files, str(path), topic_id)
    assert path.read_bytes() == golden_folder("rolled-0")["partition.metadata"]


@given(st.uuids())
def test_uuid_round_trip(value: uuid.UUID) -> None:
    assert directory_files.parse_uuid(directory_files.format_uuid(value)) == value


@pytest.mark.parametrize("text", [b"junk", b"", b"\0\0", b"version: 0\ntopic_id: AAA", b"version: x\n"])
def test_partition_metadata_after_power_loss_is_ignored(text: bytes, tmp_path: Path) -> None:
    (tmp_path / "m").write_bytes(text)
    assert directory_files.read_topic_id(files, str(tmp_path / "m")) is None


def test_later_version_of_partition_metadata_is_refused(tmp_path: Path) -> None:
    (tmp_path / "m").write_bytes(b"version: 1\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ")
    with pytest.raises(CorruptLogError, match="/m"):
        directory_files.read_topic_id(files, str(tmp_path / "m"))


# meta.properties


def test_meta_properties_match_kafka(tmp_path: Path) -> None:
    path = tmp_path / "meta.properties"
    golden = golden_log_dir_file("meta.properties")
    path.write_bytes(golden)
    meta = directory_files.read_meta_properties(files, str(path))
    assert meta == MetaProperties("AAAAAAAAAAAAAAAAAAAAAQ", 1, "MPQNKnwbTYOf66YZ8KA3Lg")
    directory_files.write_meta_properties(files, str(path), meta, now_ms=1_795_253_735_000)
    assert path.read_bytes() == golden


def test_meta_properties_of_other_versions(tmp_path: Path) -> None:
    path = tmp_path / "meta.properties"
    assert directory_files.read_meta_properties(files, str(path)) is None
    path.write_text("version=0\nbroker.id=7\n! comment\ncluster.id=a\\:b\n")
    assert directory_files.read_meta_properties(files, str(path)) == MetaProperties("a:b", 7)
    for text in ("", "version=2\n", "version=1\nnode.id=x\n"):
        path.write_text(text)
        with pytest.raises(ConfigurationError, match=r"meta\.properties"):
            directory_files.read_meta_properties(files, str(path))


def test_directory_of_another_cluster_or_node_is_refused() -> None:
    found = MetaProperties("A", 1)
    directory_files.check_owner("dir", found, cluster_id="A", node_id=1)
    directory_files.check_owner("dir", found, cluster_id=None, node_id=1)
    with pytest.raises(ConfigurationError, match="belongs to cluster A"):
        directory_files.check_owner("dir", found, cluster_id="B", node_id=1)
    with pytest.raises(ConfigurationError, match="belongs to node 1"):
        directory_files.check_owner("dir", found, cluster_id="A", node_id=2)


# Snapshots


def test_producer_snapshots_match_kafka() -> None:
    data = golden_folder("idempotent-0")["00000000000000000079.snapshot"]
    entries = producer_snapshot.decode(data)
    assert [(entry.producer_id, entry.last_sequence, entry.last_offset, entry.offset_delta) for entry in entries] == [
        (0, 39, 77, 2),
        (1, 38, 78, 0),
    ]
    assert producer_snapshot.encode(entries) == data
    assert producer_snapshot.encode([]) == golden_folder("rolled-0")["00000000000000000028.snapshot"]


def test_damaged_producer_snapshot_is_detected() -> None:
    data = producer_snapshot.encode([ProducerEntry(5, 1, 2, 3, 0, 4), ProducerEntry(6, 1, 2, 3, 0, 4, 7, 8)])
    assert [entry.current_txn_first_offset for entry in producer_snapshot.decode(data)] == [-1, 8]
    for position in range(len(data)):
        flipped = bytearray(data)
        flipped[position] ^= 0x10
        with pytest.raises(CorruptLogError):
            producer_snapshot.decode(bytes(flipped))
        with pytest.raises(CorruptLogError):
            producer_snapshot.decode(data[:position])
    with pytest.raises(CorruptLogError):
        producer_snapshot.decode(data + b"\0")


# The marker and the lock


def test_clean_shutdown_marker_matches_kafka_and_is_consumed(tmp_path: Path) -> None:
    path = tmp_path / ".kafka_cleanshutdown"
    assert not take_clean_shutdown(files, str(path))
    mark_clean_shutdown(files, str(path), broker_epoch=13)
    assert path.read_bytes() == golden_log_dir_file(".kafka_cleanshutdown")
    assert take_clean_shutdown(files, str(path))
    assert not path.exists()


def test_log_directory_lock_is_exclusive(tmp_path: Path) -> None:
    """FAULTS 20: in this process, in another one, and with the kind of lock that the JVM takes."""
    path = str(tmp_path / ".lock")
    lock = DirectoryLock(files, path)
    with pytest.raises(ConfigurationError, match="another broker"):
        DirectoryLock(files, path)
    script = (
        "import fcntl, sys\n"
        "from minibroker.storage.directory_files import DirectoryLock\n"
        "from minibroker.storage.files import RealFiles\n"
        "if sys.argv[2] == 'posix': fcntl.lockf(open(sys.argv[1], 'r+b'), fcntl.LOCK_EX | fcntl.LOCK_NB)\n"
        "else: DirectoryLock(RealFiles(), sys.argv[1])\n"
    )

    def try_elsewhere(kind: str) -> int:
        return subprocess.run([sys.executable, "-c", script, path, kind], capture_output=True, check=False).returncode

    assert try_elsewhere("ours") != 0
    lock.release()
    lock.release()
    assert try_elsewhere("ours") == 0
    assert try_elsewhere("posix") == 0
    lock = DirectoryLock(files, path)
    assert try_elsewhere("posix") != 0
    lock.release()


# Names


def test_file_and_folder_names() -> None:
    assert file_name(42, ".log") == "00000000000000000042.log"
    assert parse_file_name("00000000000000000042.timeindex") == (42, ".timeindex")
    for name in ("42.log", "00000000000000000042.log.deleted", "00000000000000000042", "leader-epoch-checkpoint", "x" * 20 + ".log"):
        assert parse_file_name(name) is None
    assert parse_folder_name("a-b.c-12") == ("a-b.c", 12)
    for name in ("orders", "-1", "orders-", "orders-x", "orders-0.abc-delete"):
        with pytest.raises(ValueError, match="not a folder"):
            parse_folder_name(name)
    assert delete_folder_name("orders-0", "0" * 32) == "orders-0." + "0" * 32 + "-delete"
    assert len(delete_folder_name("o" * 249 + "-100", "0" * 32)) == 255
