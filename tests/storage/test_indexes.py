"""The sparse indexes against a sorted list; their files under every damage that does not need the log to be seen."""

from __future__ import annotations

import errno
import tempfile
from bisect import bisect_right
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minibroker.errors import CorruptLogError
from minibroker.storage.files import RealFiles
from minibroker.storage.indexes import OffsetIndex, OffsetPosition, TimeIndex, TimestampEntry
from minibroker.storage.transaction_index import AbortedTxn, TransactionIndex, encode
from tests.support.faulty_files import FaultyFiles

BASE = 10**12

growing = st.lists(st.integers(1, 1000), min_size=1, max_size=60)


def offset_index(folder: str | Path, *, is_new: bool = False, max_bytes: int = 10_000) -> OffsetIndex:
    return OffsetIndex(RealFiles(), f"{folder}/{BASE:020d}.index", BASE, max_bytes, is_new=is_new)


def time_index(folder: str | Path, *, is_new: bool = False, max_bytes: int = 10_000) -> TimeIndex:
    return TimeIndex(RealFiles(), f"{folder}/{BASE:020d}.timeindex", BASE, max_bytes, is_new=is_new)


@given(steps=growing, saved_at=st.integers(0, 60))
def test_offset_index_is_a_sorted_map(steps: list[int], saved_at: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        index = offset_index(folder, is_new=True)
        model: list[OffsetPosition] = []
        offset, position = BASE, 0
        for number, step in enumerate(steps):
            offset, position = offset + step, position + step * 3
            index.append(offset, position)
            model.append(OffsetPosition(offset, position))
            if number == saved_at:
                index.save()
        index.save()
        for each in (index, offset_index(folder)):
            assert each.entries() == model
            assert each.last() == model[-1]
            for target in range(BASE - 1, offset + 2, max(1, (offset - BASE) // 50)):
                count = bisect_right(model, (target, 1 << 40))
                assert each.lookup(target) == (model[count - 1] if count else OffsetPosition(BASE, 0))
            for entry in model:
                assert each.lookup(entry.offset) == entry
                assert each.lookup_position(entry.position) == entry
                assert each.lookup_position(entry.position - 1).position < entry.position
        assert Path(index.path).stat().st_size == 8 * len(model)


@given(timestamps=st.lists(st.integers(-1, 50), min_size=1, max_size=40))
def test_time_index_accepts_only_increasing_timestamps(timestamps: list[int]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        index = time_index(folder, is_new=True)
        model: list[TimestampEntry] = []
        for number, timestamp in enumerate(timestamps):
            index.maybe_append(timestamp, BASE + number)
            if timestamp > (model[-1].timestamp if model else -1):
                model.append(TimestampEntry(timestamp, BASE + number))
        index.save()
        loaded = time_index(folder)
        for target in range(-1, 52):
            expected = [entry for entry in model if entry.timestamp <= target]
            assert index.lookup(target) == (expected[-1] if expected else TimestampEntry(-1, BASE))
            if not model or model[0] != (0, BASE):  # which reads as the zeros of a preallocated file
                assert loaded.lookup(target) == index.lookup(target)


def test_layouts_byte_for_byte(tmp_path: Path) -> None:
    offsets, times = offset_index(tmp_path, is_new=True), time_index(tmp_path, is_new=True)
    offsets.append(BASE + 258, 4660)
    times.maybe_append(0x0102030405060708, BASE + 258)
    offsets.save()
    times.save()
    assert Path(offsets.path).read_bytes() == bytes.fromhex("0000010200001234")
    assert Path(times.path).read_bytes() == bytes.fromhex("010203040506070800000102")


def test_limits_match_kafka() -> None:
    """8 and 12 bytes an entry; the time index keeps its last slot for the entry made when the segment rolls."""
    offsets, times = offset_index("", is_new=True, max_bytes=31), time_index("", is_new=True, max_bytes=47)
    rooms = []
    for number in range(1, 4):
        offsets.append(BASE + number, number)
        times.maybe_append(number, BASE + number)
        rooms.append((offsets.room, times.room))
    assert rooms == [(2, 1), (1, 0), (0, -1)]


@pytest.mark.parametrize("zeros", [1, 7, 8, 12, 4096, 10 * 1024 * 1024])
def test_trailing_zeros_are_dropped(zeros: int, tmp_path: Path) -> None:
    index = offset_index(tmp_path, is_new=True)
    index.append(BASE + 256, 0x100)
    index.append(BASE + 0x10000, 0x1000000)
    index.save()
    expected = index.entries()
    with Path(index.path).open("ab") as file:
        file.write(bytes(zeros))
    index = offset_index(tmp_path)
    assert index.entries() == expected
    index.append(BASE + 0x10001, 0x1000001)
    index.save()
    assert Path(index.path).stat().st_size == 24
    assert offset_index(tmp_path).count == 3


@pytest.mark.parametrize(("content", "damaged"), [(None, True), (b"", False), (bytes(16), False), (b"\1" * 13, True), (b"\1" * 16, False)])
def test_damaged_offset_index_is_detected(content: bytes | None, damaged: bool, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / f"{BASE:020d}.index").write_bytes(content)
    index = offset_index(tmp_path)
    index.loaded()
    assert index.is_damaged == damaged


def test_next_save_repairs_a_failed_save(tmp_path: Path) -> None:
    files = FaultyFiles()
    index = OffsetIndex(files, str(tmp_path / "0.index"), 0, 10_000, is_new=True)
    index.save()
    index.append(1, 100)
    files.fail("write", errno.ENOSPC, torn_at=3)
    with pytest.raises(OSError, match="No space"):
        index.save()
    index.append(2, 200)
    index.save()
    assert OffsetIndex(files, index.path, 0, 10_000).entries() == [(1, 100), (2, 200)]


def test_only_saved_entries_can_be_unloaded(tmp_path: Path) -> None:
    index = offset_index(tmp_path, is_new=True)
    index.append(BASE + 1, 100)
    index.unload()
    states = [index.in_memory]
    index.save()
    index.unload()
    states.append(index.in_memory)
    assert states == [True, False]
    assert index.last() == (BASE + 1, 100)


# .txnindex


def test_transaction_index_layout(tmp_path: Path) -> None:
    index = TransactionIndex(RealFiles(), str(tmp_path / "0.txnindex"))
    index.append(AbortedTxn(1, 2, 3, 4))
    assert Path(index.path).read_bytes().hex() == "0000" + "".join(f"{number:016x}" for number in (1, 2, 3, 4))
    assert list(TransactionIndex(RealFiles(), index.path).entries) == [AbortedTxn(1, 2, 3, 4)]
    index.replace([AbortedTxn(1, 2, 5, 6)])
    assert list(TransactionIndex(RealFiles(), index.path).entries) == list(index.entries) == [AbortedTxn(1, 2, 5, 6)]
    index.replace([])
    assert not Path(index.path).exists()
    assert list(index.entries) == []


@given(lengths=st.lists(st.tuples(st.integers(1, 9), st.integers(1, 30)), max_size=40), first=st.integers(0, 300), size=st.integers(1, 40))
def test_transaction_index_lookup_matches_a_linear_scan(lengths: list[tuple[int, int]], first: int, size: int) -> None:
    entries: list[AbortedTxn] = []
    offset = 0
    for gap, length in lengths:
        offset += gap
        entries.append(AbortedTxn(len(entries), max(offset - length, 0), offset, offset + 1))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "0.txnindex"
        path.write_bytes(encode(entries))
        found, _ = TransactionIndex(RealFiles(), str(path)).collect(first, first + size)
    behind = next((number for number, entry in enumerate(entries) if entry.last_stable_offset >= first + size), len(entries))
    assert found == [each for each in entries[: behind + 1] if each.last_offset >= first and each.first_offset < first + size]


GOOD = AbortedTxn(1, 12, 20, 21)


@pytest.mark.parametrize(
    "content",
    [
        b"\0" * 33,
        b"\0\1" + bytes(32),
        b"x",
        bytes(34),
        *map(encode, ([GOOD, GOOD], [AbortedTxn(1, 12, 12, 13)], [AbortedTxn(1, 3, 9, 10)], [AbortedTxn(1, 12, 20, 22)])),
    ],
    ids=["torn", "version", "garbage", "zeros", "doubled", "no records", "before the segment", "stable too early"],
)
def test_damaged_transaction_index_is_detected(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "10.txnindex"
    path.write_bytes(content)
    with pytest.raises(CorruptLogError, match=r"10\.txnindex"):
        _ = TransactionIndex(RealFiles(), str(path), 10).entries


def test_unsynced_entries_are_counted(tmp_path: Path) -> None:
    index = TransactionIndex(RealFiles(), str(tmp_path / "0.txnindex"), is_new=True)
    index.append(GOOD)
    index.note_synced(1)
    index.append(AbortedTxn(1, 22, 25, 26))
    index.note_synced(0)
    assert index.unsynced_count == 1
    assert TransactionIndex(RealFiles(), index.path).unsynced_count == 2  # who knows


def test_transactions_that_touch_a_range(tmp_path: Path) -> None:
    index = TransactionIndex(RealFiles(), str(tmp_path / "0.txnindex"))
    first, second = AbortedTxn(1, 0, 10, 11), AbortedTxn(2, 5, 20, 21)
    index.append(first)
    index.append(second)
    assert index.collect(0, 5) == ([first], True)
    assert index.collect(0, 6) == ([first, second][:1], True)
    assert index.collect(11, 30) == ([second], False)
    assert index.collect(21, 30) == ([], False)


def test_partially_written_aborted_transaction_is_truncated(tmp_path: Path) -> None:
    files = FaultyFiles()
    index = TransactionIndex(files, str(tmp_path / "0.txnindex"))
    index.append(AbortedTxn(1, 2, 3, 4))
    files.fail("write", errno.ENOSPC, torn_at=7)
    with pytest.raises(OSError, match="No space"):
        index.append(AbortedTxn(5, 6, 7, 8))
    index.append(AbortedTxn(9, 10, 11, 12))
    assert (
        list(index.entries)
        == list(TransactionIndex(RealFiles(), index.path).entries)
        == [AbortedTxn(1, 2, 3, 4), AbortedTxn(9, 10, 11, 12)]
    )
