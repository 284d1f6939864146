"""Laying what is new over what was known: each offset by itself, and how few ranges come of it."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from minibroker.coordinator.share_state.records import NO_OFFSET, RecordState, StateBatch, combine

ACKNOWLEDGED, AVAILABLE = RecordState.ACKNOWLEDGED, RecordState.AVAILABLE

batches = st.builds(
    lambda first, length, state, count: StateBatch(first, first + length, state, count),
    st.integers(0, 20),
    st.integers(0, 8),
    st.sampled_from([0, 2, 4]),
    st.integers(1, 3),
)


def by_offset(*found: StateBatch) -> dict[int, tuple[int, int]]:
    """The rank of each offset, the highest where several have it."""
    ranks: dict[int, tuple[int, int]] = {}
    for each in found:
        for offset in range(each.first_offset, each.last_offset + 1):
            ranks[offset] = max(ranks.get(offset, (0, -1)), each.rank)
    return ranks


@given(st.lists(batches, max_size=6), st.lists(batches, max_size=6), st.integers(-1, 25))
def test_each_offset_has_its_highest_ranked_state(so_far: list[StateBatch], new: list[StateBatch], start_offset: int) -> None:
    combined = combine(so_far, new, start_offset)

    assert by_offset(*combined) == {offset: rank for offset, rank in by_offset(*so_far, *new).items() if offset >= start_offset}
    ends = [(each.first_offset, each.last_offset) for each in combined]
    assert all(first <= last for first, last in ends)
    assert all(before[1] < after[0] for before, after in pairwise(ends))


def test_adjacent_equal_batches_are_merged() -> None:
    found = combine([StateBatch(0, 4, ACKNOWLEDGED, 1)], [StateBatch(5, 9, ACKNOWLEDGED, 1), StateBatch(10, 12, AVAILABLE, 1)], NO_OFFSET)

    assert found == [StateBatch(0, 9, ACKNOWLEDGED, 1), StateBatch(10, 12, AVAILABLE, 1)]


def test_batches_below_the_start_offset_are_removed() -> None:
    assert combine([StateBatch(0, 4, ACKNOWLEDGED, 1), StateBatch(5, 9, AVAILABLE, 2)], [], 7) == [StateBatch(7, 9, AVAILABLE, 2)]


def test_release_with_fewer_deliveries_is_ignored() -> None:
    assert combine([StateBatch(0, 4, ACKNOWLEDGED, 2)], [StateBatch(0, 4, AVAILABLE, 1)], NO_OFFSET) == [StateBatch(0, 4, ACKNOWLEDGED, 2)]
