"""MetadataLog: what was appended comes back, torn tails are cut, damage is never cut, failed writes leave nothing."""

from __future__ import annotations

import errno
import json
import logging
import random
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from minibroker.clock import ManualClock
from minibroker.cluster.metadata.frame import MetadataOperation, decode_frame
from minibroker.cluster.metadata.metadata_log import METADATA_TOPIC_ID, MetadataLog
from minibroker.cluster.metadata.metadata_reader import MetadataReader
from minibroker.errors import ConfigurationError, KafkaStorageError
from minibroker.records.any_format import decode_records, split_batches
from minibroker.records.batch import RecordBatch, assign_offsets
from minibroker.schemas.internal.metadata_records import AbortTransactionRecord, BeginTransactionRecord
from minibroker.schemas.internal.setting_records import FeatureLevelRecord, ProducerIdsRecord
from minibroker.storage.directory_files import read_topic_id
from minibroker.storage.files import RealFiles
from tests.cluster.metadata.test_frame import BATCHES
from tests.support.faulty_files import FaultyFiles

LOG = "00000000000000000000.log"
DIRECTORY_ID = UUID(int=77)


def producer_ids(*ends: int) -> list[ProducerIdsRecord]:
    return [ProducerIdsRecord(broker_id=1, next_producer_id=end) for end in ends]


def opened(folder: Path, files: RealFiles | None = None) -> tuple[MetadataLog, list[Any]]:
    log = MetadataLog(files or RealFiles(), str(folder), node_id=1, directory_id=DIRECTORY_ID, clock=ManualClock())
    return log, list(log.replay())


def filled(folder: Path, *operations: list[ProducerIdsRecord]) -> Path:
    log, _ = opened(folder)
    for records in operations:
        log.append_all([MetadataOperation(records)])
    log.close()
    return folder / LOG


def test_appended_records_are_replayed(tmp_path: Path) -> None:
    filled(tmp_path, producer_ids(1, 2), producer_ids(3))
    log, records = opened(tmp_path)
    assert records == producer_ids(1, 2, 3)
    assert (log.log_end_offset, log.leader_epoch) == (6, 1)  # a leader change, kraft.version, voters; then three records
    assert read_topic_id(RealFiles(), str(tmp_path / "partition.metadata")) == METADATA_TOPIC_ID
    log.close()


def test_each_writing_process_starts_a_new_leader_epoch(tmp_path: Path) -> None:
    file = filled(tmp_path, producer_ids(1))
    opened(tmp_path)[0].close()  # writes nothing: no epoch
    filled(tmp_path, producer_ids(2), producer_ids(3))

    batches = list(split_batches(file.read_bytes()))

    assert [(batch.partition_leader_epoch, batch.is_control) for batch in batches] == [
        (1, True),
        (1, False),
        (2, True),
        (2, False),
        (2, False),
    ]
    assert [batch.base_offset for batch in batches] == [0, 3, 4, 5, 6]
    assert json.loads((tmp_path / "quorum-state").read_text())["leaderEpoch"] == 2
    assert (tmp_path / "leader-epoch-checkpoint").read_text() == "0\n2\n1 0\n2 4\n"


def test_batch_torn_at_every_byte_is_truncated(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = filled(tmp_path, producer_ids(1), producer_ids(2, 3))
    whole = file.read_bytes()
    last = list(split_batches(whole))[-1]
    start = len(whole) - last.size

    for size in range(start, len(whole)):
        file.write_bytes(whole[:size])
        log, records = opened(tmp_path)
        log.close()
        assert records == producer_ids(1)
        assert file.read_bytes() == whole[:start]
    assert "torn" in caplog.text


@pytest.mark.parametrize("tail", [b"\x00" * 500, b"\x00" * 7], ids=["preallocated", "a few zeros"])
def test_trailing_zeros_are_truncated(tmp_path: Path, tail: bytes) -> None:
    file = filled(tmp_path, producer_ids(1))
    whole = file.read_bytes()
    file.write_bytes(whole + tail)
    log, records = opened(tmp_path)
    log.close()
    assert (records, file.read_bytes()) == (producer_ids(1), whole)


def test_flipped_byte_in_the_last_batch_is_truncated(tmp_path: Path) -> None:
    file = filled(tmp_path, producer_ids(1), producer_ids(2))
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    log, records = opened(tmp_path)
    log.close()
    assert records == producer_ids(1)


def test_flipped_byte_before_complete_batches_refuses_to_start(tmp_path: Path) -> None:
    file = filled(tmp_path, producer_ids(1), producer_ids(2))
    data = bytearray(file.read_bytes())
    batches = list(split_batches(bytes(data)))
    data[batches[0].size + batches[1].size - 1] ^= 1
    file.write_bytes(data)
    with pytest.raises(ConfigurationError, match=f"damaged at position {batches[0].size} .* topics would be forgotten"):
        opened(tmp_path)
    assert file.read_bytes() == data


@pytest.mark.parametrize("position", [8, 9, 10, 16], ids=lambda position: f"byte {position}")
def test_damaged_header_before_complete_batches_refuses_to_start(tmp_path: Path, position: int) -> None:
    """The length of a damaged batch may point behind the file: then it looks torn, but what follows says that it is not."""
    file = filled(tmp_path, producer_ids(1), producer_ids(2))
    data = bytearray(file.read_bytes())
    data[position] ^= 0x7F
    file.write_bytes(data)
    with pytest.raises(ConfigurationError, match=r"damaged at position 0 .* topics would be forgotten"):
        opened(tmp_path)
    assert file.read_bytes() == data


@pytest.mark.parametrize("torn_at", [0, 1, 60, 100])
def test_failed_write_is_truncated(tmp_path: Path, torn_at: int) -> None:
    files = FaultyFiles()
    log, _ = opened(tmp_path, files)
    log.append_all([MetadataOperation(producer_ids(1))])
    before = (tmp_path / LOG).read_bytes()

    files.fail("write", errno.ENOSPC, path_part=LOG, torn_at=torn_at)
    with pytest.raises(KafkaStorageError):
        log.append_all([MetadataOperation(producer_ids(2))])
    assert (tmp_path / LOG).read_bytes() == before

    log.append_all([MetadataOperation(producer_ids(3))])
    log.close()
    assert opened(tmp_path)[1] == producer_ids(1, 3)


def test_failed_rollback_of_a_failed_sync_stops_writing(tmp_path: Path) -> None:
    files = FaultyFiles()
    log, _ = opened(tmp_path, files)
    log.append_all([MetadataOperation(producer_ids(1))])
    files.fail("sync", errno.EIO, path_part=LOG, times=2)
    with pytest.raises(KafkaStorageError):
        log.append_all([MetadataOperation(producer_ids(2))])
    with pytest.raises(KafkaStorageError, match="offline"):
        log.append_all([MetadataOperation(producer_ids(3))])


@pytest.mark.parametrize("seed", range(10))
def test_append_is_synced_before_it_returns(tmp_path: Path, seed: int) -> None:
    files = FaultyFiles()
    log, _ = opened(tmp_path / "log", files)
    log.append_all([MetadataOperation(producer_ids(1))])
    log.append_all([MetadataOperation(producer_ids(2))])
    log.close()
    files.lose_power(tmp_path / "log", random.Random(seed))
    assert opened(tmp_path / "log")[1] == producer_ids(1, 2)


def test_kafka_metadata_log_is_replayed_and_continued(tmp_path: Path) -> None:
    end = 0
    data = b""
    for captured in BATCHES:  # idle records in between were left out: number anew, outside the CRC
        copy = bytearray(captured)
        assign_offsets(memoryview(copy), end, 1)
        end = RecordBatch(copy).next_offset
        data += copy
    (tmp_path / LOG).write_bytes(data)
    state = {"leaderId": 1, "leaderEpoch": 4, "votedId": -1, "votedDirectoryId": "AAAAAAAAAAAAAAAAAAAAAA", "data_version": 1}
    (tmp_path / "quorum-state").write_text(json.dumps(state))

    log, records = opened(tmp_path)
    log.append_all([MetadataOperation(producer_ids(9))])
    log.close()

    assert FeatureLevelRecord(name="metadata.version", feature_level=30) in records
    assert json.loads((tmp_path / "quorum-state").read_text()) == {**state, "leaderEpoch": 5}
    assert opened(tmp_path)[1] == [*records, *producer_ids(9)]


def test_missing_leader_epochs_are_added_at_start(tmp_path: Path) -> None:
    filled(tmp_path, producer_ids(1))
    filled(tmp_path, producer_ids(2))
    (tmp_path / "leader-epoch-checkpoint").unlink()
    opened(tmp_path)[0].close()
    assert (tmp_path / "leader-epoch-checkpoint").read_text() == "0\n2\n1 0\n2 4\n"


def test_outdated_kafka_indexes_are_removed(tmp_path: Path) -> None:
    file = filled(tmp_path, producer_ids(1))
    indexes = [file.with_suffix(suffix) for suffix in (".index", ".timeindex")]
    for index in indexes:
        index.write_bytes(bytes(12))
    log, _ = opened(tmp_path)
    assert all(index.exists() for index in indexes)
    log.append_all([MetadataOperation(producer_ids(2))])
    assert not any(index.exists() for index in indexes)
    log.close()


def test_gap_before_the_log_is_refused(tmp_path: Path) -> None:
    (tmp_path / "00000000000000000100.log").write_bytes(b"")
    with pytest.raises(ConfigurationError, match="starts at offset 100, and no snapshot contains what was before"):
        opened(tmp_path)


def test_unfinished_kafka_metadata_transaction_is_aborted(tmp_path: Path) -> None:
    log, _ = opened(tmp_path)
    log.append_all([MetadataOperation([BeginTransactionRecord(name="Bootstrap records"), *producer_ids(1)])])
    log.close()
    log, records = opened(tmp_path)
    assert records == []
    log.append_all([MetadataOperation(producer_ids(2))])
    log.close()
    assert opened(tmp_path)[1] == producer_ids(2)
    *_, aborted, _ = split_batches((tmp_path / LOG).read_bytes())
    assert isinstance(decode_frame(next(decode_records(aborted)).value or b""), AbortTransactionRecord)


def test_segments_are_consecutive(tmp_path: Path) -> None:
    log = MetadataLog(RealFiles(), str(tmp_path), node_id=1, directory_id=DIRECTORY_ID, clock=ManualClock(), segment_bytes=300)
    list(log.replay())
    for end in range(10):
        log.append_all([MetadataOperation(producer_ids(end))])
    log.close()
    names = sorted(path.name for path in tmp_path.glob("*.log"))
    assert len(names) > 3
    assert opened(tmp_path)[1] == producer_ids(*range(10))
    (tmp_path / names[1]).unlink()
    with pytest.raises(ConfigurationError, match="a segment ends at offset"):
        opened(tmp_path)


def test_segment_that_cannot_be_created_is_not_used(tmp_path: Path) -> None:
    files = FaultyFiles()
    log = MetadataLog(files, str(tmp_path), node_id=1, directory_id=DIRECTORY_ID, clock=ManualClock(), segment_bytes=300)
    list(log.replay())
    log.append_all([MetadataOperation(producer_ids(1))])
    files.fail("sync_directory", errno.EIO)
    with pytest.raises(KafkaStorageError):
        log.append_all([MetadataOperation(producer_ids(2, 3))])
    log.append_all([MetadataOperation(producer_ids(4))])
    log.close()
    assert opened(tmp_path)[1] == producer_ids(1, 4)


@pytest.mark.parametrize("voters", [[2], [1, 2, 3]])
def test_log_of_other_voters_is_refused(tmp_path: Path, voters: list[int]) -> None:
    state = {"clusterId": "", "leaderId": 2, "leaderEpoch": 4, "votedId": -1, "appliedOffset": 0, "data_version": 0}
    (tmp_path / "quorum-state").write_text(json.dumps(state | {"currentVoters": [{"voterId": voter} for voter in voters]}))
    with pytest.raises(ConfigurationError, match=f"a quorum of nodes? {', '.join(map(str, voters))}: node 1 alone cannot"):
        opened(tmp_path)


def test_statically_configured_quorum_is_kept(tmp_path: Path) -> None:
    """data_version 0: whoever made the directory names its voters in the configuration."""
    state = {"clusterId": "", "leaderId": 1, "leaderEpoch": 4, "votedId": -1, "appliedOffset": 0, "currentVoters": [{"voterId": 1}]}
    (tmp_path / "quorum-state").write_text(json.dumps(state | {"data_version": 0}))
    file = filled(tmp_path, producer_ids(1))
    assert json.loads((tmp_path / "quorum-state").read_text()) == {**state, "leaderEpoch": 5, "data_version": 0}
    assert next(split_batches(file.read_bytes())).record_count == 1


def test_voter_follows_the_directory_id(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    filled(tmp_path, producer_ids(1))
    other = MetadataLog(RealFiles(), str(tmp_path), node_id=1, directory_id=UUID(int=78), clock=ManualClock())
    list(other.replay())
    assert "is not that of this directory" in caplog.text
    other.append_all([MetadataOperation(producer_ids(2))])
    other.close()
    caplog.clear()
    reader = MetadataReader(RealFiles(), str(tmp_path))
    assert list(reader.records()) == producer_ids(1, 2)
    assert reader.quorum.is_led_by(1, UUID(int=78))
    assert not reader.quorum.is_led_by(1, DIRECTORY_ID)


def test_reader_does_not_change_files(tmp_path: Path) -> None:
    file = filled(tmp_path, producer_ids(1))
    file.write_bytes(file.read_bytes() + b"torn")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    reader = MetadataReader(RealFiles(), str(tmp_path))
    assert list(reader.records()) == producer_ids(1)
    assert (reader.torn_bytes, reader.log_end_offset) == (4, 4)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert list(MetadataReader(RealFiles(), str(tmp_path / "none")).records()) == []
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("text", ["{", "[]", '{"leaderEpoch":"x"}'])
def test_invalid_quorum_state(tmp_path: Path, text: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    (tmp_path / "quorum-state").write_text(text)
    with pytest.raises(ConfigurationError, match="quorum-state: no quorum state"):
        opened(tmp_path)
