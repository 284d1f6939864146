"""Arithmetic of ranges, against sets of offsets."""

from __future__ import annotations

import json
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from minibroker.spark.sources.ranges import PartitionRange, common, layers, merged, reading_options, without

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


def test_ranges_of_one_partition_are_read_apart() -> None:
    ranges = [PartitionRange("a", 0, 5, 7), PartitionRange("a", 0, 0, 3), PartitionRange("a", 1, 1, 2), PartitionRange("b", 0, 4, 4)]
    assert layers(ranges) == [[ranges[1], ranges[2]], [ranges[0]]]
    options = reading_options(layers(ranges)[0])
    assert {name: json.loads(value) for name, value in options.items()} == {
        "assign": {"a": [0, 1]},
        "startingOffsets": {"a": {"0": 0, "1": 1}},
        "endingOffsets": {"a": {"0": 3, "1": 2}},
    }
