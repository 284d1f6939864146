"""After a crash: the log ends at its last whole valid batch, goes on without a gap, and reads the same (FAULTS 1, 3, 4, 5, 6, 13)."""

from __future__ import annotations

import logging
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from minibroker.clock import ManualClock, WallClock
from minibroker.errors import OutOfOrderSequenceNumber
from minibroker.log.log_config import LogConfig
from minibroker.log.partition_log import PartitionLog
from minibroker.records.builder import build_batch
from minibroker.records.record import Record
from minibroker.storage.files import RealFiles
from tests.log.conftest import OpenLog
from tests.support.log_batches import NOW_MS, batch_of, idempotent_batch, read_values
from tests.support.losing_files import LosingFiles, Loss

SMALL = {"segment_bytes": 1500, "index_interval_bytes": 200}


def fill(log: PartitionLog, count: int = 30) -> dict[int, bytes | None]:
    rng = random.Random(4)
    for _ in range(count):
        log.append(batch_of(*(rng.randbytes(rng.randrange(120)) for _ in range(rng.randint(1, 4)))))
    return read_values(log)


def crash(log: PartitionLog) -> None:
    """As SIGKILL leaves it: what was written is in the files, nothing is finished."""
    log._release("killed")


def test_acknowledged_records_survive_a_kill(open_log: OpenLog) -> None:
    log = open_log(**SMALL)
    values = fill(log)
    crash(log)
    log = open_log(**SMALL)
    assert read_values(log) == values
    assert log.append(batch_of(b"next")).base_offset == len(values)


def test_last_batch_torn_at_every_byte(open_log: OpenLog, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log = open_log()
    log.append(batch_of(b"one", b"two"))
    log.append(batch_of(b"three"))
    whole = log.segments.size
    log.append(batch_of(b"lost", b"lost too"))
    crash(log)
    path = tmp_path / "orders-0" / "00000000000000000000.log"
    data = path.read_bytes()
    saved = tmp_path / "saved"
    shutil.copytree(tmp_path / "orders-0", saved)
    for size in range(whole, len(data)):
        shutil.rmtree(tmp_path / "orders-0")
        shutil.copytree(saved, tmp_path / "orders-0")
        path.write_bytes(data[:size])
        caplog.clear()
        for _ in range(2):
            log = open_log()
            assert (log.log_end_offset, log.segments.size) == (3, whole)
            crash(log)
        assert len(caplog.records) == (size != whole)
        if size != whole:
            assert str(path) in caplog.text
            assert f"position {whole}" in caplog.text
        log = open_log()
        assert log.append(batch_of(b"next")).base_offset == 3
        assert read_values(log) == {0: b"one", 1: b"two", 2: b"three", 3: b"next"}
        crash(log)


@pytest.mark.parametrize("seed", range(8))
def test_flipped_byte_in_the_unflushed_part(seed: int, open_log: OpenLog, caplog: pytest.LogCaptureFixture) -> None:
    rng = random.Random(seed)
    log = open_log(**SMALL)
    values = fill(log)
    segments = list(log.segments)
    victim = rng.choice(segments)
    offset_in_file = rng.randrange(victim.size)
    crash(log)
    data = bytearray(Path(victim.log.path).read_bytes())
    data[offset_in_file] ^= 1 << rng.randrange(8)
    Path(victim.log.path).write_bytes(data)

    log = open_log(**SMALL)
    found = read_values(log)
    assert list(found) == list(range(len(found)))
    unflipped = {offset: value for offset, value in values.items() if offset in found}
    in_offset_or_epoch = found == values and not caplog.records  # base_offset's and the epoch's bytes lie outside the CRC
    if not in_offset_or_epoch:
        assert len(found) < len(values)
        assert found == unflipped
        assert f"{victim.log.path}: cut " in caplog.text
    assert log.append(batch_of(b"next")).base_offset == len(found)


def test_records_below_the_recovery_point_are_not_scanned(open_log: OpenLog) -> None:
    log = open_log(**SMALL)
    values = fill(log)
    log.flusher.flush()
    recovery_point = log.flusher.recovery_point
    assert recovery_point == len(values)
    first = next(iter(log.segments)).log.path
    crash(log)
    data = bytearray(Path(first).read_bytes())
    data[100] ^= 1
    Path(first).write_bytes(data)
    assert open_log(**SMALL, recovery_point=recovery_point).log_end_offset == recovery_point
    assert open_log(**SMALL, recovery_point=0).log_end_offset == 0


@pytest.mark.parametrize("zeros", [1, 11, 12, 60, 61, 10_000])
def test_trailing_zeros_are_truncated(zeros: int, open_log: OpenLog, tmp_path: Path) -> None:
    log = open_log()
    values = fill(log, 3)
    size = log.segments.size
    crash(log)
    with (tmp_path / "orders-0" / "00000000000000000000.log").open("ab") as file:
        file.write(bytes(zeros))
    for clean_shutdown in (True, False):
        log = open_log(clean_shutdown=clean_shutdown)
        assert (log.segments.size, read_values(log)) == (size, values)
        crash(log)


def test_decreasing_offsets_truncate_the_log(open_log: OpenLog) -> None:
    log = open_log()
    log.append(batch_of(b"a"))
    first = bytes(log.read(0, 1000, isolation=None))
    log.append(batch_of(b"b"))
    path = Path(log.segments.active.log.path)
    crash(log)
    path.write_bytes(path.read_bytes() + first)
    log = open_log()
    assert read_values(log) == {0: b"a", 1: b"b"}


@pytest.mark.parametrize("position", range(12))
def test_flipped_bit_in_an_offset_or_length_leaves_no_gap(position: int, open_log: OpenLog) -> None:
    """base_offset and batch_length lie outside the CRC."""
    for bit in range(8):
        log = open_log()
        log.advance_log_start_offset(log.log_end_offset)
        start = log.append(batch_of(b"a")).base_offset
        log.append(batch_of(b"b", b"c"))
        path = Path(log.segments.active.log.path)
        crash(log)
        data = bytearray(path.read_bytes())
        data[len(data) - len(batch_of(b"b", b"c")) + position] ^= 1 << bit
        path.write_bytes(data)
        log = open_log()
        assert log.log_end_offset == start + 1
        crash(log)


def test_offset_beyond_the_next_segment_truncates_the_log(open_log: OpenLog) -> None:
    log = open_log(segment_bytes=300)
    for _ in range(9):
        log.append(batch_of(b"x" * 50))
    first, second = list(log.segments)[:2]
    crash(log)
    data = bytearray(Path(first.log.path).read_bytes())
    data[first.size - len(batch_of(b"x" * 50)) + 5] ^= 1
    Path(first.log.path).write_bytes(data)
    log = open_log(segment_bytes=300)
    assert log.log_end_offset == second.base_offset - 1
    assert len(log.segments) == 1


def test_segments_after_a_bad_batch_are_deleted(open_log: OpenLog, tmp_path: Path) -> None:
    log = open_log(**SMALL)
    values = fill(log)
    second = list(log.segments)[1]
    crash(log)
    data = Path(second.log.path).read_bytes()
    Path(second.log.path).write_bytes(data[:-1])
    log = open_log(**SMALL)
    assert len(log.segments) == 2
    assert log.log_end_offset > second.base_offset
    assert read_values(log) == {offset: value for offset, value in values.items() if offset < log.log_end_offset}
    assert {file.name[:20] for file in (tmp_path / "orders-0").glob("*.*index")} == {f"{s.base_offset:020d}" for s in log.segments}
    assert not [file for file in (tmp_path / "orders-0").glob("*.snapshot") if int(file.stem) > log.log_end_offset]


@pytest.mark.parametrize("left", [0, 1])
def test_segment_without_its_end_truncates_the_log(left: int, open_log: OpenLog) -> None:
    """A power loss may take the end of a closed segment and leave the next one: no hole."""
    log = open_log(segment_bytes=300)
    for _ in range(9):
        log.append(batch_of(b"x" * 50))
    second = list(log.segments)[1]
    crash(log)
    data = Path(second.log.path).read_bytes()
    Path(second.log.path).write_bytes(data[: left * len(batch_of(b"x" * 50))])
    log = open_log(segment_bytes=300)
    assert log.log_end_offset == second.base_offset + left
    assert list(read_values(log)) == list(range(log.log_end_offset))


def test_compacted_segment_may_lack_its_end(open_log: OpenLog) -> None:
    log = open_log(segment_bytes=300)
    for _ in range(9):
        log.append(batch_of(b"x" * 50))
    first = next(iter(log.segments))
    crash(log)
    size = len(batch_of(b"x" * 50))
    data = Path(first.log.path).read_bytes()
    Path(first.log.path).write_bytes(data[size:-size] if len(data) > 2 * size else data[size:])
    log = open_log(segment_bytes=300)
    assert log.log_end_offset == 9
    assert 0 < len(read_values(log)) < 9


def test_segment_of_garbage(open_log: OpenLog) -> None:
    log = open_log(**SMALL)
    fill(log)
    last = log.segments.active
    crash(log)
    Path(last.log.path).write_bytes(random.Random(1).randbytes(5000))
    log = open_log(**SMALL)
    assert log.log_end_offset == last.base_offset
    assert log.append(batch_of(b"x")).base_offset == last.base_offset


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _garbage(path: Path) -> None:
    path.write_bytes(random.Random(len(path.name)).randbytes(997))


def _sorted_garbage(path: Path) -> None:
    path.write_bytes(b"".join(index.to_bytes(4, "big") * 3 for index in range(1, 40)))


def _shorter(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


@pytest.mark.parametrize("damage", [Path.unlink, _empty, _garbage, _sorted_garbage, _shorter])
@pytest.mark.parametrize("suffix", [".index", ".timeindex", ".snapshot", ".*"])
@pytest.mark.parametrize("clean_shutdown", [True, False], ids=["clean", "killed"])
def test_damaged_index_files_do_not_change_reads(
    damage: Callable[[Path], None], suffix: str, clean_shutdown: bool, open_log: OpenLog, tmp_path: Path
) -> None:
    log = open_log(**SMALL)
    values = fill(log)
    for sequence in range(3):
        log.append(idempotent_batch(9, sequence))
    values = read_values(log)
    times = [log.timestamps.offset_for_timestamp(time) for time in range(1_700_000_000_000, 1_700_000_000_005)]
    newest = log.timestamps.max_timestamp_offset()
    log.close()
    for file in (tmp_path / "orders-0").glob("0*" + suffix):
        if file.suffix != ".log":
            damage(file)
    log = open_log(**SMALL, clean_shutdown=clean_shutdown)
    assert log.timestamps.max_timestamp_offset() == newest
    assert [log.timestamps.offset_for_timestamp(time) for time in range(1_700_000_000_000, 1_700_000_000_005)] == times
    for offset in range(0, log.log_end_offset, 7):
        assert read_values(log, offset, max_bytes=300) == {each: value for each, value in values.items() if each >= offset}
    assert log.append(idempotent_batch(9, 2)).duplicate
    with pytest.raises(OutOfOrderSequenceNumber):
        log.append(idempotent_batch(9, 4))
    log.append(idempotent_batch(9, 3))
    log.append(batch_of(b"on"))
    assert len(read_values(log)) == len(values) + 2


def test_orphaned_and_temporary_files_are_removed(open_log: OpenLog, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log = open_log()
    values = fill(log, 3)
    log.close()
    folder = tmp_path / "orders-0"
    names = {file.name for file in folder.iterdir()}
    for name in [
        "99.index",
        "99.timeindex",
        "99.txnindex",
        "0.log.deleted",
        "0.index.deleted",
        "0.log.cleaned",
        "0.index.tmp",
        "7.index.swap",
    ]:
        stem, _, suffix = name.partition(".")
        (folder / f"{int(stem):020d}.{suffix}").write_bytes(b"junk")
    log = open_log(clean_shutdown=True)
    assert read_values(log) == values
    assert {file.name for file in folder.iterdir()} == names
    assert caplog.text.count("an index without a log") == 3


def test_finished_compaction_is_swapped_in(open_log: OpenLog, tmp_path: Path) -> None:
    log = open_log(**SMALL)
    fill(log)
    first, second = list(log.segments)[:2]
    log.close()
    folder = tmp_path / "orders-0"
    swap = Path(first.log.path).read_bytes() + Path(second.log.path).read_bytes()
    (folder / "00000000000000000000.log.swap").write_bytes(swap)
    expected = log.log_end_offset
    log = open_log(**SMALL, clean_shutdown=True)
    assert (log.log_end_offset, len(read_values(log))) == (expected, expected)
    assert [segment.base_offset for segment in log.segments][:1] == [0]
    assert second.base_offset not in [segment.base_offset for segment in log.segments]


@pytest.mark.parametrize("content", [None, b"", b"junk", b"0\n1\n", b"0\n2\n5 0\n4 1\n", b"0\n1\n\xff\xfe\n"])
def test_leader_epochs_are_rebuilt_from_the_batches(content: bytes | None, open_log: OpenLog, tmp_path: Path) -> None:
    log = open_log(segment_bytes=200)
    for epoch in (1, 1, 3):
        log.assign_leader_epoch(epoch)
        log.append(batch_of(b"x" * 80))
    log.close()
    path = tmp_path / "orders-0" / "leader-epoch-checkpoint"
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    log = open_log(segment_bytes=200, clean_shutdown=True)
    assert (log.leader_epoch, log.epochs.entries) == (3, [(1, 0), (3, 2)])


# Producers


def test_producer_state_survives_a_kill(open_log: OpenLog) -> None:
    log = open_log(segment_bytes=700)
    for sequence in range(12):
        log.append(idempotent_batch(5, sequence, b"v" * 50))
    crash(log)
    log = open_log(segment_bytes=700)
    for sequence in range(7, 12):
        assert log.append(idempotent_batch(5, sequence, b"v" * 50))[:2] == (sequence, sequence)
    with pytest.raises(OutOfOrderSequenceNumber):
        log.append(idempotent_batch(5, 13))
    assert log.append(idempotent_batch(5, 12)).base_offset == 12


def test_last_batch_is_recognized_after_a_clean_stop(open_log: OpenLog) -> None:
    log = open_log()
    for sequence in range(4):
        log.append(idempotent_batch(5, sequence, epoch=2))
    log.close()
    log = open_log(clean_shutdown=True)
    assert log.append(idempotent_batch(5, 3, epoch=2)).base_offset == 3
    assert log.append(idempotent_batch(5, 4, epoch=2)).base_offset == 4


def test_snapshot_beyond_the_log_end_is_ignored(open_log: OpenLog, tmp_path: Path) -> None:
    log = open_log(segment_bytes=200)
    for sequence in range(6):
        log.append(idempotent_batch(5, sequence, b"v" * 60))
    crash(log)
    for base_offset in (3, 4, 5):
        (tmp_path / "orders-0" / f"{base_offset:020d}.log").unlink()
    log = open_log(segment_bytes=200)
    assert log.log_end_offset == 3
    assert log.append(idempotent_batch(5, 3, b"v" * 60)).base_offset == 3


def test_clean_start_scans_nothing(open_log: OpenLog, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    from tests.support.faulty_files import FaultyFiles

    log = open_log(**SMALL)
    values = fill(log, 60)
    log.close()
    files = FaultyFiles()
    caplog.set_level(logging.DEBUG)
    log = open_log(**SMALL, clean_shutdown=True, files=files)
    assert log.log_end_offset == len(values)
    assert files.counts["read_at"] <= 10
    assert not caplog.records


@pytest.mark.parametrize("clean_shutdown", [False, True])
def test_duplicates_with_old_timestamps_are_recognized_after_a_restart(clean_shutdown: bool, open_log: OpenLog) -> None:
    """Their producer wrote a moment ago, whatever time the records tell."""
    old = NOW_MS - 10 * 365 * 24 * 3_600_000
    log = open_log(clock=WallClock())
    log.append(idempotent_batch(7, 0, b"a", timestamp=old))
    log.close(clean=clean_shutdown)
    again = open_log(clock=WallClock(), clean_shutdown=clean_shutdown)
    assert again.append(idempotent_batch(7, 0, b"a", timestamp=old)).duplicate


@pytest.mark.parametrize("segment_bytes", [150, 1 << 20])
def test_clean_start_detects_a_truncated_log(segment_bytes: int, open_log: OpenLog, caplog: pytest.LogCaptureFixture) -> None:
    log = open_log(segment_bytes=segment_bytes)
    for _ in range(4):
        log.append(batch_of(b"x" * 60))
    log.close()
    path = Path(log.segments.active.log.path)
    data = bytearray(path.read_bytes())
    data[-(len(batch_of(b"x" * 60)))] ^= 0x10  # of the last batch's base offset, which no CRC is over
    path.write_bytes(data)
    again = open_log(segment_bytes=segment_bytes, clean_shutdown=True, recovery_point=4)
    assert "it ended at 4 when the broker stopped" in caplog.text
    assert again.log_end_offset == 3
    assert list(read_values(again)) == [0, 1, 2]


def test_invalid_log_start_offset_is_ignored_after_a_clean_stop(open_log: OpenLog) -> None:
    log = open_log()
    log.append(batch_of(b"a", b"b"))
    log.close()
    assert list(read_values(open_log(clean_shutdown=True, recovery_point=2, log_start_offset=5))) == [0, 1]


def test_wrong_time_index_entry_does_not_change_reads(open_log: OpenLog, caplog: pytest.LogCaptureFixture) -> None:
    log = open_log(index_interval_bytes=1)
    for number in range(20):
        log.append(batch_of(b"x", timestamp=NOW_MS + number * 10))
    log.close()
    path = Path(log.directory, f"{0:020d}.timeindex")
    good = path.read_bytes()
    for entry in range(len(good) // 12 - 1):
        data = bytearray(good)
        data[entry * 12 + 11] = 19
        path.write_bytes(data)
        again = open_log(index_interval_bytes=1, clean_shutdown=True, recovery_point=20)
        for number in range(20):
            found = again.timestamps.offset_for_timestamp(NOW_MS + number * 10)
            assert found is not None
            assert found.offset == number
        again.close(clean=False)


def test_records_without_timestamps_are_not_damage(open_log: OpenLog, caplog: pytest.LogCaptureFixture) -> None:
    log = open_log()
    log.append(memoryview(build_batch([Record(0, -1, b"key", b"value")])))
    log.close()
    assert open_log(clean_shutdown=True).timestamps.offset_for_timestamp(0) is None
    assert not caplog.records


def test_gap_below_the_log_start_offset_is_harmless(open_log: OpenLog, tmp_path: Path) -> None:
    """A power loss brought some of the deleted segments back, and took the recovery point away."""
    log = open_log(segment_bytes=80)
    for number in range(10):
        log.append(batch_of(b"%d" % number))
    log.close(clean=False)
    for path in (tmp_path / "orders-0").glob("*3.*"):
        path.unlink()

    log = open_log(segment_bytes=80, log_start_offset=5)
    assert (log.log_start_offset, log.log_end_offset) == (5, 10)
    assert read_values(log) == {number: b"%d" % number for number in range(5, 10)}
    log.retention.enforce(0)
    assert min(int(path.stem) for path in (tmp_path / "orders-0").glob("*.log")) == 5


def test_truncated_records_do_not_reappear_after_a_power_loss(open_log: OpenLog, tmp_path: Path) -> None:
    log = open_log(segment_bytes=200)
    log.append(batch_of(b"kept" * 20))
    log.flusher.flush()
    log.close(clean=False)
    with (tmp_path / "orders-0" / f"{0:020d}.log").open("ab") as file:
        file.write(bytes(50))
    files = LosingFiles(tmp_path)
    log = open_log(files=files, segment_bytes=200, recovery_point=1)
    log.append(batch_of(b"next" * 20))
    log.flusher.flush()
    assert (len(log.segments), log.flusher.recovery_point) == (2, 2)

    files.lose_power(tmp_path / "after", Random(1), Loss.STRICT)
    log = PartitionLog.open(tmp_path / "after" / "orders-0", config=LogConfig(), files=RealFiles(), clock=ManualClock(), recovery_point=2)
    assert read_values(log) == {0: b"kept" * 20, 1: b"next" * 20}
