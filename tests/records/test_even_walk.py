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

COUNTS = [1, 2, 33, 63, 64, 65, 66, 100, 128, 129, 8_191, 8_192]


def payload(count: int, *, size: int = 10, step_ms: int = 0, key: bytes | None = b"k") -> bytes:
    return bytes(build_batch([Record(0, 1000 + step_ms * index, key, bytes(size)) for index in range(count)])[HEADER_SIZE:])


def one_by_one(data: bytes, count: int) -> tuple[int, int] | None:
    try:
        return walk._walk(data, count, deep=False)[:2]
    except (InvalidRecord, IndexError):
        return None


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("size", [0, 50, 53, 54, 55, 56, 57, 58, 59, 60, 200, 8_170])
def test_records_of_equal_size_are_walked(count: int, size: int) -> None:
    data = payload(count, size=size if count < 1000 else min(size, 60))
    assert walk_even(data, count) == (0, 0)
    assert walk_even(memoryview(data), count) == (0, 0)


def test_records_of_unequal_size_return_none() -> None:
    records = [Record(0, 1000, b"k", bytes(10 + index % 2)) for index in range(40)]
    assert walk_even(memoryview(build_batch(records))[HEADER_SIZE:], 40) is None
    assert walk_even(payload(8_193), 8_193) is None
    assert walk_even(b"", 1) is None


@pytest.mark.parametrize("first_ms", [0, 100, -100, -63, 62])
def test_minimum_and_maximum_timestamps_are_found(first_ms: int) -> None:
    deltas = [first_ms, first_ms + 1, first_ms - 1, first_ms]
    data = b"".join(lies.record(delta, index, 1, b"k", 1, b"v", 0) for index, delta in enumerate(deltas))
    assert walk_even(data, len(deltas)) == one_by_one(data, len(deltas)) == (first_ms - 1, first_ms + 1)


@examples(300)
@given(st.data(), st.integers(33, 140), st.integers(0, 70), st.sampled_from([0, 1, -1, 64, 7_000]))
def test_damage_matches_the_record_by_record_walk(data: st.DataObject, count: int, size: int, step_ms: int) -> None:
    good = bytearray(payload(count, size=size, step_ms=step_ms))
    stride = len(good) // count
    for _ in range(data.draw(st.integers(0, 2))):
        place = data.draw(st.integers(0, count - 1)) * stride + data.draw(st.integers(-1, 8))
        if 0 <= place < len(good):
            good[place] = data.draw(st.one_of(st.integers(0, 255), st.just(good[place] ^ 1)))
    cut = bytes(good[: len(good) - data.draw(st.sampled_from([0, 0, 0, 1, stride]))])
    claimed = count + data.draw(st.sampled_from([0, 0, 0, 1, -1]))

    found = walk_even(cut, claimed)

    assert found is None or found == one_by_one(cut, claimed)
