"""What happened between two sequences, of which the difference is known because it was made here."""

from __future__ import annotations

import random

import pytest

from minibroker.spark.audit.matching import CONTEXT, ENOUGH, Change, change_at
from minibroker.spark.audit.result import CHANGED, DUPLICATE_LEFT, DUPLICATE_RIGHT, MISSING_LEFT, MISSING_RIGHT

MIRRORED = {
    MISSING_LEFT: MISSING_RIGHT,
    MISSING_RIGHT: MISSING_LEFT,
    DUPLICATE_LEFT: DUPLICATE_RIGHT,
    DUPLICATE_RIGHT: DUPLICATE_LEFT,
    CHANGED: CHANGED,
}


def found(left: list[int], right: list[int]) -> Change:
    """As an audit looks at them: a window around the first difference."""
    first = next((number for number, (one, other) in enumerate(zip(left, right, strict=False)) if one != other), min(len(left), len(right)))
    start = max(first - CONTEXT, 0)
    change = change_at(left[start : first + CONTEXT], right[start : first + CONTEXT], first - start)
    mirrored = change_at(right[start : first + CONTEXT], left[start : first + CONTEXT], first - start)
    assert mirrored == Change(MIRRORED[change.kind], change.count)
    return change


@pytest.mark.parametrize("length", [1, 2, 5, ENOUGH, 40, 300])
def test_one_change(length: int) -> None:
    for seed in range(60):
        rng = random.Random(seed * 1000 + length)
        rows = [rng.getrandbits(63) for _ in range(length)]
        at = rng.randrange(length)
        count = rng.randint(1, min(length - at, CONTEXT - ENOUGH))
        assert found(rows, rows[:at] + rows[at + count :]) == Change(MISSING_RIGHT, count)
        assert found(rows, [*rows[:at], -1, *rows[at + 1 :]]) == Change(CHANGED, 1)
        assert found(rows, [*rows[:at], *range(count), *rows[at:]]) == Change(MISSING_LEFT, count)
        assert found(rows, rows[: at + count] + rows[at : at + count] + rows[at + count :]) == Change(DUPLICATE_RIGHT, count)


def test_several_changes_are_told_by_the_first() -> None:
    rows = list(range(100))
    assert found(rows, [*rows[:10], *rows[11:60], *rows[70:]]) == Change(MISSING_RIGHT, 1)
    assert found(rows, [*rows[:10], -1, *rows[11:60], *rows[70:]]) == Change(CHANGED, 1)
    assert found(rows, [*rows[:10], *rows[11:15]]) == Change(MISSING_RIGHT, 1)


def test_a_side_that_ends() -> None:
    rows = list(range(100))
    assert found(rows, rows[:40]) == Change(MISSING_RIGHT, 60)
    assert found(rows, rows[:10]) == Change(MISSING_RIGHT, CONTEXT)  # the rest is beyond the window
    assert found([], [1]) == Change(MISSING_LEFT, 1)
    assert found([1, 2, 2], [1, 2]) == Change(DUPLICATE_LEFT, 1)


def test_what_is_all_different_is_changed() -> None:
    assert found(list(range(100)), list(range(100, 200))) == Change(CHANGED, 1)
    assert found(list(range(100)), list(range(100, 120))) == Change(CHANGED, 1)
