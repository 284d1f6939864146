"""The map of last records: what it holds, and where it ends when it is full."""

from __future__ import annotations

from minibroker.log.batch_filter import BYTES_A_KEY, OffsetMap
from minibroker.records.batch import HEADER_SIZE
from minibroker.records.builder import build_batch
from minibroker.records.record import Record


def add(offset_map: OffsetMap, base_offset: int, *keys: bytes | None, value: bytes | None = b"v") -> None:
    batch = bytes(build_batch([Record(index, 0, key, value) for index, key in enumerate(keys)], base_offset=base_offset))
    last_offset = base_offset + len(keys) - 1
    offset_map.add(batch, HEADER_SIZE, len(batch), count=len(keys), base_offset=base_offset, last_offset=last_offset)


def test_latest_offsets_and_tombstones_are_mapped() -> None:
    offset_map = OffsetMap(10, 1_000_000)
    add(offset_map, 10, b"a", b"b", b"a")
    add(offset_map, 20, b"b", None, value=None)
    offset_map.freeze()
    assert offset_map.latest == {b"a": 24, b"b": 41}
    assert list(offset_map.live) == [24, 41]
    assert (offset_map.end_offset, offset_map.is_full, offset_map.has_tombstones) == (22, False, True)
    assert list(offset_map.live_codes(10, 12)) == [24]
    assert list(offset_map.live_codes(13, 19)) == []
    assert list(offset_map.live_codes(20, 20)) == [41]


def test_full_map_ends_before_the_first_key_that_does_not_fit() -> None:
    offset_map = OffsetMap(0, 3 * BYTES_A_KEY)
    add(offset_map, 0, b"a", b"b")
    add(offset_map, 2, b"a", b"c", b"b", b"d", b"a")
    assert (offset_map.end_offset, offset_map.is_full) == (5, True)
    assert offset_map.latest == {b"a": 4, b"c": 6, b"b": 8}


def test_smallest_map_holds_one_key() -> None:
    offset_map = OffsetMap(0, 1)
    add(offset_map, 0, b"a", b"a", b"b")
    assert (offset_map.end_offset, offset_map.is_full) == (2, True)


def test_records_below_the_first_offset_are_ignored() -> None:
    offset_map = OffsetMap(12, 1_000_000)
    add(offset_map, 10, b"a", b"b", b"c")
    assert (offset_map.latest, offset_map.end_offset) == ({b"c": 24}, 13)


def test_pass_over_never_moves_backwards() -> None:
    offset_map = OffsetMap(12, 1_000_000)
    offset_map.pass_over(5)
    assert offset_map.end_offset == 12
    offset_map.pass_over(99)
    assert offset_map.end_offset == 100
