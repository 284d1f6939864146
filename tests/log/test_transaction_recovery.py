"""Transactions after a crash: open ones are open, aborted ones aborted, whatever is left of indexes and snapshots (FAULTS 1, 5, 14)."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from minibroker.clock import ManualClock
from minibroker.log.log_config import LogConfig
from minibroker.log.partition_log import PartitionLog
from minibroker.records.any_format import decode_records
from minibroker.records.batch import RecordBatch
from minibroker.records.control import ControlType, EndTransactionMarker
from minibroker.storage.files import Files, RealFiles
from minibroker.storage.transaction_index import AbortedTxn
from tests.log.conftest import OpenLog
from tests.support.compacting import COMPACT, compact, end_transaction, put
from tests.support.faulty_files import FaultyFiles
from tests.support.log_batches import batch_of, idempotent_batch, read_batches
from tests.support.losing_files import LosingFiles, Loss
from tests.support.transactional_logs import committed_values, fill

SMALL = {"segment_bytes": 1200, "index_interval_bytes": 200}


class Told(NamedTuple):
    """What batches say of transactions, told one after the other."""

    open_transactions: dict[int, int]  #: first offsets by producer id
    aborted: list[AbortedTxn]

    @classmethod
    def by(cls, batches: Sequence[RecordBatch]) -> Told:
        ongoing: dict[int, int] = {}
        aborted: list[AbortedTxn] = []
        for batch in batches:
            if batch.is_control:
                begun = ongoing.pop(batch.producer_id, None)
                if begun is not None and EndTransactionMarker.from_record(next(decode_records(batch))).control_type is ControlType.ABORT:
                    stable = min(ongoing.values(), default=batch.base_offset + 1)
                    aborted.append(AbortedTxn(batch.producer_id, begun, batch.base_offset, stable))
            elif batch.is_transactional:
                ongoing.setdefault(batch.producer_id, batch.base_offset)
        return cls(ongoing, aborted)

    def touching(self, first_offset: int, last_offset: int) -> list[tuple[int, int]]:
        return [(entry[0], entry[1]) for entry in self.aborted if entry[1] <= last_offset and entry[2] >= first_offset]


def check(log: PartitionLog) -> None:
    """The log and its index say what its batches say, for every range of offsets."""
    told = Told.by(read_batches(log))
    assert {each.producer_id: each.first_offset for each in log.producers.list_open_transactions()} == told.open_transactions
    assert [each.first_offset for each in log.producers.list_open_transactions()] == sorted(told.open_transactions.values())
    assert log.last_stable_offset == min(told.open_transactions.values(), default=log.log_end_offset)
    assert entries_of(log) == told.aborted
    for first_offset in range(0, log.last_stable_offset, 3):
        for last_offset in range(first_offset, log.last_stable_offset, 7):
            assert sorted(log.aborted_transactions(first_offset, last_offset)) == sorted(told.touching(first_offset, last_offset))


def entries_of(log: PartitionLog) -> list[AbortedTxn]:
    for segment in log.segments:
        log.aborted_transactions(segment.base_offset, segment.base_offset)  # repairs it
    return [entry for segment in log.segments for entry in segment.transaction_index.entries]


def crash(log: PartitionLog) -> None:
    """As SIGKILL leaves it."""
    log._release("killed")


def index_files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*.txnindex"))}


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("lost", ["nothing", "*.snapshot", "*.txnindex", "*.[st]*"])
def test_killed_log_is_recovered(seed: int, lost: str, open_log: OpenLog, tmp_path: Path) -> None:
    log = open_log(**SMALL)
    fill(log, seed)
    check(log)
    found, files = log.producers.active(), index_files(tmp_path / "orders-0")
    assert len(files) > 2
    crash(log)
    for path in (tmp_path / "orders-0").glob(lost):
        path.unlink()
    log = open_log(**SMALL)
    check(log)
    assert log.producers.active() == found
    assert index_files(tmp_path / "orders-0") == files
    log.close()
    log = open_log(**SMALL, clean_shutdown=True, recovery_point=log.log_end_offset)
    check(log)
    assert log.producers.active() == found


@pytest.mark.parametrize("seed", range(3))
def test_log_flushed_up_to_its_middle_is_recovered(seed: int, open_log: OpenLog, tmp_path: Path) -> None:
    """What recovery does not read is taken from snapshot and index."""
    log = open_log(**SMALL)
    fill(log, seed)
    log.flusher.flush()
    recovery_point = log.flusher.recovery_point
    log.append(batch_of(b"between"))
    for producer_id in range(4):
        if log.producers.first_open_offset(producer_id) is not None:
            end_transaction(log, producer_id, ControlType.ABORT, epoch=9)
    log.append(idempotent_batch(7, 0, is_transactional=True))
    crash(log)
    log = open_log(**SMALL, recovery_point=recovery_point)
    check(log)
    assert log.last_stable_offset == log.log_end_offset - 1


def test_last_batch_torn_at_every_byte(open_log: OpenLog, tmp_path: Path) -> None:
    """A marker that is cut off leaves its transaction open, and no entry; records that are cut off open none."""
    log = open_log()
    log.append(idempotent_batch(1, 0, is_transactional=True))
    log.append(idempotent_batch(2, 0, is_transactional=True))
    sizes = [log.segments.size]
    end_transaction(log, 1, ControlType.ABORT)
    sizes.append(log.segments.size)
    log.append(idempotent_batch(1, 1, is_transactional=True))
    sizes.append(log.segments.size)
    end_transaction(log, 2, ControlType.COMMIT)
    log.close(clean=False)
    folder = tmp_path / "orders-0"
    data = (folder / "00000000000000000000.log").read_bytes()
    shutil.copytree(folder, tmp_path / "saved")
    for size in range(sizes[0], len(data)):
        shutil.rmtree(folder)
        shutil.copytree(tmp_path / "saved", folder)
        (folder / "00000000000000000000.log").write_bytes(data[:size])
        for _ in range(2):
            log = open_log()
            is_aborted, is_open_again = size >= sizes[1], size >= sizes[2]
            assert (log.producers.first_open_offset(1), log.producers.first_open_offset(2)) == (
                3 if is_open_again else None if is_aborted else 0,
                1,
            )
            assert log.last_stable_offset == (1 if is_aborted else 0)
            assert entries_of(log) == ([(1, 0, 2, 1)] if is_aborted else [])
            assert (folder / "00000000000000000000.txnindex").exists() == is_aborted
            crash(log)
        log = open_log()
        assert end_transaction(log, 2, ControlType.ABORT) == log.log_end_offset - 1
        check(log)
        crash(log)


@pytest.mark.parametrize("is_emptied", [True, False], ids=["emptied", "removed"])
@pytest.mark.parametrize("is_clean", [True, False], ids=["stopped", "flushed and killed"])
@pytest.mark.parametrize("seed", range(2))
def test_missing_transaction_index_is_rebuilt(seed: int, is_emptied: bool, is_clean: bool, open_log: OpenLog, tmp_path: Path) -> None:
    """One of them, or all; whatever is fetched, a consumer of committed records never gets an aborted one."""
    log = open_log(**SMALL)
    fill(log, seed)
    log.flusher.flush()
    starts = range(0, log.last_stable_offset, 13)
    expected = committed_values(log, 0, 1 << 20)
    log.close(clean=is_clean)
    names = sorted(index_files(tmp_path / "orders-0"))
    shutil.copytree(tmp_path / "orders-0", tmp_path / "saved")
    for lost in (names, *([name] for name in names)):
        for name in lost:
            path = tmp_path / "orders-0" / name
            path.write_bytes(b"") if is_emptied else path.unlink()
        for start in starts:
            log = open_log(**SMALL, clean_shutdown=is_clean, recovery_point=log.log_end_offset)
            for max_bytes in (1, 700):
                found = committed_values(log, start, max_bytes)
                assert found == {offset: value for offset, value in expected.items() if offset >= start}
            crash(log)
        shutil.rmtree(tmp_path / "orders-0")
        shutil.copytree(tmp_path / "saved", tmp_path / "orders-0")


def test_compaction_rebuilds_a_missing_transaction_index(open_log: OpenLog, tmp_path: Path) -> None:
    """It would keep an aborted value, and nothing of the committed one that it stands behind."""
    log = open_log(cleanup_policy=COMPACT)
    put(log, (b"k", b"committed"), (b"l", b"other"))
    transactional: dict[str, Any] = {"producer_id": 1, "producer_epoch": 0, "is_transactional": True}
    put(log, (b"k", b"aborted"), base_sequence=0, **transactional)
    end_transaction(log, 1, ControlType.ABORT)
    put(log, (b"m", b"m"), base_sequence=1, roll=True, **transactional)
    end_transaction(log, 1, ControlType.COMMIT)
    put(log, (b"n", b"n"), roll=True)
    put(log, (b"o", b"o"))
    expected = committed_values(log, 0, 1 << 20)
    whole = index_files(tmp_path / "orders-0")
    log.close()
    for name in whole:
        (tmp_path / "orders-0" / name).unlink()
    log = open_log(cleanup_policy=COMPACT, clean_shutdown=True, recovery_point=log.log_end_offset)

    compact(log)

    assert committed_values(log, 0, 1 << 20) == expected == {0: b"committed", 1: b"other", 4: b"m", 6: b"n", 7: b"o"}
    assert list(index_files(tmp_path / "orders-0").values()) == list(whole.values())


@pytest.mark.parametrize("ends", [ControlType.ABORT, ControlType.COMMIT])
def test_long_transaction_with_a_missing_index_is_scanned_once(ends: ControlType, open_log: OpenLog, tmp_path: Path) -> None:
    log = open_log(**SMALL)
    log.append(idempotent_batch(1, 0, is_transactional=True))
    end_transaction(log, 1, ControlType.COMMIT)
    batches = [log.append(idempotent_batch(1, sequence, bytes(200), is_transactional=True)) for sequence in range(1, 101)]
    end_transaction(log, 1, ends)
    log.close()
    for path in (tmp_path / "orders-0").glob("*.txnindex"):
        path.unlink()
    files = FaultyFiles()
    log = open_log(**SMALL, files=files, clean_shutdown=True, recovery_point=log.log_end_offset)

    counts = []
    for each in batches:
        before = files.counts.get("read_at", 0)
        found = log.aborted_transactions(each.base_offset, each.last_offset)
        assert [(one.producer_id, one.first_offset) for one in found] == [(1, each.base_offset)] * (ends is ControlType.ABORT)
        counts.append(files.counts["read_at"] - before)
    assert len(log.segments) > 15
    assert sorted(counts)[90] < 10, "it walks to the marker each time"


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "one byte short": lambda data: data[:-1],
    "zeros": lambda data: bytes(len(data)),
    "zeros behind": lambda data: data + bytes(340),
    "garbage": lambda data: random.Random(1).randbytes(len(data)),
    "doubled": lambda data: data + data,
    "of another segment": lambda data: data[:18] + bytes(8) + data[26:],
}


@pytest.mark.parametrize("kind", DAMAGES)
@pytest.mark.parametrize("is_clean", [True, False], ids=["stopped", "flushed and killed"])
def test_damaged_transaction_index_is_rebuilt(kind: str, is_clean: bool, open_log: OpenLog, tmp_path: Path) -> None:
    log = open_log(**SMALL)
    fill(log, 1)
    log.flusher.flush()
    log.close(clean=is_clean)
    whole = index_files(tmp_path / "orders-0")
    for name, data in whole.items():
        (tmp_path / "orders-0" / name).write_bytes(DAMAGES[kind](data))
    log = open_log(**SMALL, clean_shutdown=is_clean, recovery_point=log.log_end_offset)
    check(log)
    assert index_files(tmp_path / "orders-0") == whole


def test_damaged_transaction_index_of_the_active_segment(open_log: OpenLog, tmp_path: Path) -> None:
    log = open_log()
    log.append(idempotent_batch(1, 0, is_transactional=True))
    end_transaction(log, 1, ControlType.ABORT)
    log.append(idempotent_batch(1, 1, is_transactional=True))
    log.close()
    for work in ("append", "flush"):
        path = tmp_path / "orders-0" / "00000000000000000000.txnindex"
        path.write_bytes(b"garbage")
        log = open_log(clean_shutdown=True, recovery_point=log.log_end_offset)
        if work == "append":
            end_transaction(log, 1, ControlType.ABORT)
        else:
            log.append(batch_of(b"more"))
            log.flusher.flush()
        assert entries_of(log) == [(1, 0, 1, 2), (1, 2, 3, 4)]
        check(log)
        log.close()


def test_log_start_offset_in_the_middle_of_transactions(open_log: OpenLog) -> None:
    """What their first offsets were, the snapshot at the first segment's start tells."""
    log = open_log(**SMALL)
    fill(log, 3, 80)
    start = log.segments.nth(3).base_offset
    log.advance_log_start_offset(start)
    aborted = [entry for entry in entries_of(log) if entry[2] >= start]
    crash(log)
    log = open_log(**SMALL, log_start_offset=start)
    assert entries_of(log) == aborted


# Power loss


@pytest.mark.parametrize("loss", Loss)
@pytest.mark.parametrize("seed", range(4))
def test_synced_transactions_survive_a_power_loss(loss: Loss, seed: int, tmp_path: Path, clock: ManualClock) -> None:
    """Flushed after each append: what recovery does not read again must be on the disk with its aborted transactions."""
    disk = LosingFiles(tmp_path / "data")
    log = opened(tmp_path / "data", disk, clock)
    rng = random.Random(seed)
    for sequence in range(rng.randint(20, 40)):
        log.append(idempotent_batch(1, sequence, rng.randbytes(100), is_transactional=True))
        log.flusher.flush()
        if rng.random() < 0.5:
            end_transaction(log, 1, ControlType.ABORT)
            log.flusher.flush()
    recovery_point, count = log.flusher.recovery_point, len(log.segments)
    data = b"".join(bytes(batch.data) for batch in read_batches(log))
    assert count > 2
    disk.lose_power(tmp_path / "after", rng, loss)
    log = opened(tmp_path / "after", RealFiles(), clock, recovery_point=recovery_point)
    assert log.log_end_offset == recovery_point
    assert b"".join(bytes(batch.data) for batch in read_batches(log)) == data
    check(log)


def opened(folder: Path, files: Files, clock: ManualClock, recovery_point: int = 0) -> PartitionLog:
    config = LogConfig(segment_bytes=1200)
    return PartitionLog.open(folder / "orders-0", config=config, files=files, clock=clock, recovery_point=recovery_point)
