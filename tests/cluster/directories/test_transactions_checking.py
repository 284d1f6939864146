"""`storage check` on logs with transactions: nothing is wrong with whole ones, of ours and of Apache Kafka; what is damaged is said."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from minibroker.clock import ManualClock
from minibroker.log.findings import ERROR, WARNING
from minibroker.log.log_config import LogConfig
from minibroker.log.partition_log import PartitionLog
from minibroker.storage import producer_snapshot
from minibroker.storage.files import RealFiles
from minibroker.storage.producer_snapshot import ProducerEntry
from minibroker.storage.transaction_index import ENTRY_SIZE
from tests.cluster.directories.test_storage_checking import check
from tests.support.golden_storage import restore_golden_folder
from tests.support.transactional_logs import fill

GOLDEN = ("transactional-0", "stamped-0", "open-0")


def as_of_a_directory(folder: Path, *, clean: bool) -> Path:
    """What makes a lone folder one of a log directory."""
    (folder / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAABQ")
    if clean:
        (folder.parent / ".kafka_cleanshutdown").write_text("{}")
    return folder


def filled(parent: Path, seed: int, *, clean: bool = True) -> Path:
    config = LogConfig(segment_bytes=1200, index_interval_bytes=200)
    log = PartitionLog.open(parent / "orders-0", config=config, files=RealFiles(), clock=ManualClock())
    log.assign_leader_epoch(0)
    fill(log, seed)
    log.close(clean=clean)
    return as_of_a_directory(parent / "orders-0", clean=clean)


@pytest.mark.parametrize("name", GOLDEN)
def test_no_findings_in_kafka_folders(name: str, tmp_path: Path) -> None:
    assert check(as_of_a_directory(restore_golden_folder(name, tmp_path), clean=True)) == []


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("clean", [True, False], ids=["stopped", "killed"])
def test_no_findings_in_minibroker_folders(seed: int, clean: bool, tmp_path: Path) -> None:
    assert check(filled(tmp_path, seed, clean=clean)) == []


def entries_of(path: Path) -> list[ProducerEntry]:
    return producer_snapshot.decode(path.read_bytes())


Change = Callable[[list[ProducerEntry]], list[ProducerEntry]]
CHANGES: dict[str, tuple[Change, str]] = {
    "an open transaction is forgotten": (
        lambda entries: [each for each in entries if each.current_txn_first_offset < 0],
        "the open transaction of producer",
    ),
    "one is invented": (
        lambda entries: [
            each._replace(current_txn_first_offset=3) if each.current_txn_first_offset < 0 and each.coordinator_epoch >= 0 else each
            for each in entries
        ],
        "has first offset of a transaction 3, but -1 in the log",
    ),
    "another offset": (
        lambda entries: [
            each._replace(current_txn_first_offset=each.current_txn_first_offset - 1) if each.current_txn_first_offset > 0 else each
            for each in entries
        ],
        "has first offset of a transaction",
    ),
    "another coordinator": (
        lambda entries: [each._replace(coordinator_epoch=9) if each.last_sequence < 0 else each for each in entries],
        "has coordinator epoch 9, but 0 in the log",
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_inconsistent_snapshot_is_found(change: str, tmp_path: Path) -> None:
    folder = as_of_a_directory(restore_golden_folder("transactional-0", tmp_path), clean=True)
    make, words = CHANGES[change]
    found = 0
    for path in sorted(folder.glob("*.snapshot")):
        data = path.read_bytes()
        entries = entries_of(path)
        if make(entries) != entries:
            path.write_bytes(producer_snapshot.encode(make(entries)))
            problems = [finding.problem for finding in check(folder) if finding.path == str(path)]
            found += any(words in problem for problem in problems)
            path.write_bytes(data)
    assert found > 0
    assert check(folder) == []


def test_every_changed_transaction_index_entry_is_found(tmp_path: Path) -> None:
    """Also in later segments, where the snapshot tells what is open at their beginning."""
    folder = as_of_a_directory(restore_golden_folder("transactional-0", tmp_path), clean=True)
    for path in sorted(folder.glob("*.txnindex")):
        data = path.read_bytes()
        for position in range(0, len(data), ENTRY_SIZE):
            for damaged in (
                data[:position] + data[position + ENTRY_SIZE :],
                *(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :] for at in range(position + 9, position + ENTRY_SIZE, 8)),
            ):
                path.write_bytes(damaged)
                assert {(finding.severity, finding.path) for finding in check(folder)} == {(ERROR, str(path))}
        path.write_bytes(data)


def test_index_rebuilt_at_the_next_start_is_a_warning(tmp_path: Path) -> None:
    folder = filled(tmp_path, 2, clean=False)
    for path in folder.glob("*.txnindex"):
        path.unlink()
    findings = check(folder)
    assert findings
    assert {finding.severity for finding in findings} == {WARNING}
