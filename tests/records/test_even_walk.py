"""Records of one size, walked by columns, beside the walk from record to record, which is the definition."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minibroker.errors import InvalidRecord
from minibroker.records import walk
from minibroker.records.batch import HEADER_SIZE
from minibroker.records.builder import build_batch
from minibroker.records.record import Record
from minibroker.records.walk import walk_even
from tests.records import lies
from tests.support.soak import examples

COUNTS = [2, 33, 63, 64, 65, 66, 100, 128, 129, 8_191, 8_192]


def payload(count: int, *, size: int = 10, step_ms: int = 0, key: bytes | None = b"k") -> bytes:
    return bytes(build_batch([Record(0, 1000 + step_ms * index, key, bytes(size)) for index in range(count)])[HEADER_SIZE:])


def one_by_one(data: bytes, count: int, *, deep: bool = False) -> tuple[int, int, bool] | None:
    try:
        return walk._walk(data, count, deep=deep)
    except (InvalidRecord, IndexError):
        return None


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("size", [0, 50, 53, 54, 55, 56, 57, 58, 59, 60, 200, 8_170])
def test_records_of_equal_size_are_walked(count: int, size: int) -> None:
    data = payload(count, size=size if count < 1000 else min(size, 60))
    assert walk_even(data, count, deep=False) == (0, 0, False)
    assert walk_even(memoryview(data), count, deep=True) == (0, 0, False)


@pytest.mark.parametrize("count", [10, 64, 65])
def test_null_keys_of_records_of_equal_size_are_found(count: int) -> None:
    assert walk_even(payload(count, key=None), count, deep=True) == (0, 0, True)


def test_records_whose_fields_differ_in_size_are_left_to_the_other_walk() -> None:
    """Their sizes add up to the same, or they have headers."""
    moved = b"".join(
        lies.record(0, index, 1 + index % 2, b"kk"[: 1 + index % 2], 2 - index % 2, b"vv"[index % 2 :], 0) for index in range(12)
    )
    headers = bytes(build_batch([Record(0, 0, b"k", b"v", (("h", b"x"),))] * 12)[HEADER_SIZE:])
    for data in (moved, headers):
        assert one_by_one(data, 12, deep=True) == (0, 0, False)
        assert walk_even(data, 12, deep=True) is None


def test_records_of_unequal_size_return_none() -> None:
    records = [Record(0, 1000, b"k", bytes(10 + index % 2)) for index in range(40)]
    assert walk_even(memoryview(build_batch(records))[HEADER_SIZE:], 40, deep=False) is None
    assert walk_even(payload(8_193), 8_193, deep=False) is None
    assert walk_even(b"", 10, deep=False) is None


@pytest.mark.parametrize("first_ms", [0, 100, -100, -63, 62])
def test_minimum_and_maximum_timestamps_are_found(first_ms: int) -> None:
    deltas = [first_ms, first_ms + 1, first_ms - 1, first_ms]
    data = b"".join(lies.record(delta, index, 1, b"k", 1, b"v", 0) for index, delta in enumerate(deltas))
    assert walk_even(data, len(deltas), deep=False) == one_by_one(data, len(deltas)) == (first_ms - 1, first_ms + 1, False)


@examples(300)
@given(st.data(), st.integers(10, 140), st.integers(0, 70), st.sampled_from([0, 1, -1, 64, 7_000]), st.booleans())
def test_damage_matches_the_record_by_record_walk(data: st.DataObject, count: int, size: int, step_ms: int, deep: bool) -> None:
    good = bytearray(payload(count, size=size, step_ms=step_ms, key=data.draw(st.sampled_from([None, b"", b"k"]))))
    stride = len(good) // count
    for _ in range(data.draw(st.integers(0, 2))):
        place = data.draw(st.integers(0, count - 1)) * stride + data.draw(st.integers(-2, 8))
        if 0 <= place < len(good):
            good[place] = data.draw(st.one_of(st.integers(0, 255), st.just(good[place] ^ 1)))
    cut = bytes(good[: len(good) - data.draw(st.sampled_from([0, 0, 0, 1, stride]))])
    claimed = count + data.draw(st.sampled_from([0, 0, 0, 1, -1]))

    found = walk_even(cut, claimed, deep=deep)

    assert found is None or found == one_by_one(cut, claimed, deep=deep)
