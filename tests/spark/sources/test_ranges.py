"""Arithmetic of ranges, against sets of offsets."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from minibroker.spark.sources.ranges import PartitionRange, common, merged, without

RANGES = st.lists(
    st.builds(
        lambda topic, partition, start, size: PartitionRange(topic, partition, start, start + size),
        st.sampled_from("ab"),
        st.integers(0, 1),
        st.integers(0, 20),
        st.integers(0, 8),
    ),
    max_size=8,
)


def offsets(ranges: object) -> set[tuple[str, int, int]]:
    return {(each.topic, each.partition, offset) for each in ranges for offset in range(each.start_offset, each.end_offset)}  # type: ignore[attr-defined]


def assert_normal(ranges: tuple[PartitionRange, ...]) -> None:
    assert list(ranges) == sorted(ranges)
    for one, other in pairwise(ranges):
        assert one[:2] != other[:2] or one.end_offset < other.start_offset
    assert all(each.size > 0 for each in ranges)


@given(RANGES, RANGES)
def test_sums_differences_and_what_is_common(one: list[PartitionRange], other: list[PartitionRange]) -> None:
    assert offsets(merged(one)) == offsets(one)
    assert offsets(without(one, other)) == offsets(one) - offsets(other)
    assert offsets(common(one, other)) == offsets(one) & offsets(other)
    for each in (merged(one), without(one, other), common(one, other)):
        assert_normal(each)


def test_a_range_says_what_it_is() -> None:
    assert str(PartitionRange("flights", 3, 5, 9)) == "flights-3 [5, 9)"
