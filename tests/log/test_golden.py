"""Against the folders of a real Apache Kafka 4.3.1: the same batches in the same order make the same files, byte for byte."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from minibroker.clock import ManualClock
from minibroker.log.log_config import LONG_MAX, LogConfig
from minibroker.log.partition_log import PartitionLog
from minibroker.records.any_format import decode_records, split_batches
from minibroker.records.batch import ATTRIBUTES_POSITION, LOG_APPEND_TIME_FLAG, MAX_TIMESTAMP_POSITION, RecordBatch
from minibroker.records.builder import sum_batch
from minibroker.records.control import EndTransactionMarker
from minibroker.storage.files import RealFiles
from tests.support.golden_storage import golden_folder, restore_golden_folder
from tests.support.log_batches import read_batches

TRANSACTIONAL = ["transactional-0", "stamped-0", "open-0"]
FOLDERS = ["rolled-0", "idempotent-0", "one-segment-0", "empty-0", *TRANSACTIONAL]
CONFIG = LogConfig(index_interval_bytes=200, segment_ms=LONG_MAX, message_timestamp_before_max_ms=LONG_MAX)
SMALL = CONFIG._replace(segment_bytes=3000)


def config_of(folder: str) -> LogConfig:
    config = CONFIG if folder in {"one-segment-0", "empty-0", "open-0"} else SMALL
    return config._replace(message_timestamp_type="LogAppendTime") if folder == "stamped-0" else config


def logs_of(files: dict[str, bytes]) -> bytes:
    return b"".join(data for name, data in sorted(files.items()) if name.endswith(".log"))


def open_log(folder: Path, clock: ManualClock | None = None, **arguments: bool | int) -> PartitionLog:
    config = config_of(folder.name)
    return PartitionLog.open(
        folder,
        config=config,
        files=RealFiles(),
        clock=clock or ManualClock(),
        producer_id_expiration_ms=LONG_MAX,
        **arguments,  # type: ignore[arg-type]  # clean_shutdown and recovery_point
    )


def as_sent(batch: RecordBatch) -> bytearray:
    """The batch before a broker wrote its offset, and the time of its append if it did, into it."""
    sent = bytearray(batch.data)
    sent[:8] = bytes(8)
    if batch.timestamp_type:
        sent[ATTRIBUTES_POSITION + 1] &= ~LOG_APPEND_TIME_FLAG
        sent[MAX_TIMESTAMP_POSITION : MAX_TIMESTAMP_POSITION + 8] = batch.base_timestamp.to_bytes(
            8, "big"
        )  # its first record was the newest
        sum_batch(sent)
    return sent


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


@pytest.mark.parametrize("name", FOLDERS)
def test_same_appends_write_the_same_files_as_kafka(name: str, tmp_path: Path) -> None:
    golden = golden_folder(name)
    clock = ManualClock()
    log = open_log(tmp_path / name, clock)
    log.assign_leader_epoch(0)
    for batch in split_batches(logs_of(golden)):
        clock.advance(max(batch.max_timestamp - clock.now_ms(), 0) if name in TRANSACTIONAL else 0)
        if batch.is_control and batch.timestamp_type:
            log.append_own(as_sent(batch))  # Kafka made it some milliseconds before it stamped it
        elif batch.is_control:
            marker = EndTransactionMarker.from_record(next(decode_records(batch)))
            ids = {"producer_id": batch.producer_id, "producer_epoch": batch.producer_epoch}
            log.end_transaction(marker, **ids, transaction_version=0)
        else:
            log.append(memoryview(as_sent(batch)))
    log.close()

    made = contents(tmp_path / name)
    golden.pop("partition.metadata")
    assert made == golden


@pytest.mark.parametrize("name", FOLDERS)
@pytest.mark.parametrize("clean_shutdown", [True, False], ids=["clean", "recovered"])
def test_kafka_folder_is_unchanged_after_open_and_close(name: str, clean_shutdown: bool, tmp_path: Path) -> None:
    folder = restore_golden_folder(name, tmp_path)
    log = open_log(folder, clean_shutdown=clean_shutdown)
    batches = read_batches(log)
    assert b"".join(bytes(batch.data) for batch in batches) == logs_of(golden_folder(name))
    assert log.log_end_offset == (batches[-1].next_offset if batches else 0)
    log.close()

    assert contents(folder) == golden_folder(name)


@pytest.mark.parametrize("name", FOLDERS)
def test_rebuilt_indexes_and_snapshots_match_kafka(name: str, tmp_path: Path) -> None:
    folder = restore_golden_folder(name, tmp_path)
    for pattern in ("*.index", "*.timeindex", "*.txnindex", "*.snapshot", "leader-epoch-checkpoint"):
        for file in folder.glob(pattern):
            file.unlink()
    log = open_log(folder)
    log.assign_leader_epoch(0)
    log.close()

    assert contents(folder) == golden_folder(name)


@pytest.mark.parametrize("name", FOLDERS)
def test_preallocated_indexes_of_a_killed_kafka_are_readable(name: str, tmp_path: Path) -> None:
    folder = restore_golden_folder(name, tmp_path)
    for file in [*folder.glob("*.index"), *folder.glob("*.timeindex")]:
        file.write_bytes(file.read_bytes() + bytes(4096 * 12))
    log = open_log(folder, clean_shutdown=True)
    assert b"".join(bytes(batch.data) for batch in read_batches(log, max_bytes=300)) == logs_of(golden_folder(name))
    times = [record.timestamp for batch in read_batches(log) for record in decode_records(batch)]
    for timestamp in sorted(times)[::7]:
        found = log.timestamps.offset_for_timestamp(timestamp)
        assert found is not None
        assert found.offset == next(offset for offset, each in enumerate(times) if each >= timestamp)
    shutil.rmtree(folder)
