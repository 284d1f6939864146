"""Which offsets of two sides are compared, and what is told of the others."""

from __future__ import annotations

import pytest

from minibroker.spark.audit.extents import Bounding, Extent, check_common, extents_by_offset, extents_by_order
from minibroker.spark.audit.result import LEFT, RIGHT, NotCompared
from minibroker.spark.failures import SourceError
from minibroker.spark.sources.ranges import PartitionRange

KEY = ("t", 0)


def spread(start: int, end: int, partition: int = 0) -> PartitionRange:
    return PartitionRange("t", partition, start, end)


def extent(left: PartitionRange, right: PartitionRange, **bounding: bool) -> Extent:
    return extents_by_offset([left], [right], Bounding(**bounding))[KEY]


def whole(left: PartitionRange | None, right: PartitionRange | None, *unseen: NotCompared) -> Extent:
    """One range a side."""
    return Extent((left,) if left else None, (right,) if right else None, unseen)


def test_what_both_have() -> None:
    found = extent(spread(0, 90), spread(10, 100))
    assert found == whole(spread(10, 90), spread(10, 90), NotCompared(LEFT, 0, 10), NotCompared(RIGHT, 90, 100))
    assert extent(spread(5, 7), spread(5, 7)) == whole(spread(5, 7), spread(5, 7))


def test_what_either_has() -> None:
    assert extent(spread(0, 90), spread(10, 100), is_whole=True) == whole(spread(0, 90), spread(10, 100))


def test_bounds_that_were_given_are_those_of_both() -> None:
    found = extent(spread(20, 60), spread(30, 50), is_start_given=True, is_end_given=True)
    assert found == whole(spread(20, 60), spread(30, 50))  # what the right lacks is a difference
    assert extent(spread(20, 60), spread(0, 80), is_start_given=True, is_end_given=True) == whole(spread(20, 60), spread(20, 60))
    found = extent(spread(20, 90), spread(0, 80), is_start_given=True)
    assert found == whole(spread(20, 80), spread(20, 80), NotCompared(LEFT, 80, 90))
    found = extent(spread(10, 60), spread(20, 80), is_end_given=True)
    assert found == whole(spread(20, 60), spread(20, 60), NotCompared(LEFT, 10, 20))


def test_nothing_in_common() -> None:
    found = extent(spread(0, 10), spread(50, 60))
    assert (found.left, found.right) == ((spread(10, 10),), (spread(50, 50),))
    assert found.not_compared == (NotCompared(LEFT, 0, 10), NotCompared(RIGHT, 50, 60))
    found = extent(spread(50, 60), spread(0, 10))
    assert found.not_compared == (NotCompared(LEFT, 50, 60), NotCompared(RIGHT, 0, 10))


def test_nothing_is_no_equality() -> None:
    apart = extents_by_offset([spread(0, 10)], [spread(50, 60)], Bounding())
    with pytest.raises(SourceError, match="no offsets in common"):
        check_common(apart)
    check_common(apart | extents_by_offset([spread(0, 5, 1)], [spread(0, 5, 1)], Bounding()))
    check_common(extents_by_offset([spread(0, 0)], [spread(0, 0)], Bounding()))


def test_an_empty_side() -> None:
    found = extent(spread(0, 10), spread(0, 0))
    assert (found.left, found.right, found.not_compared) == ((spread(0, 0),), (spread(0, 0),), (NotCompared(LEFT, 0, 10),))
    assert extent(spread(0, 10), spread(0, 0), is_whole=True) == whole(spread(0, 10), spread(0, 0))


def test_partitions_of_one_side_are_kept_whole() -> None:
    found = extents_by_offset([spread(0, 5), spread(3, 9, 1)], [spread(0, 5), spread(1, 2, 2)], Bounding())
    assert list(found) == [("t", 0), ("t", 1), ("t", 2)]
    assert found["t", 1] == whole(spread(3, 9, 1), None)
    assert found["t", 2] == whole(None, spread(1, 2, 2))


def test_by_order_everything_is_compared() -> None:
    found = extents_by_order([spread(5, 10)], [spread(0, 7), spread(0, 1, 1)])
    assert found == {("t", 0): whole(spread(5, 10), spread(0, 7)), ("t", 1): whole(None, spread(0, 1, 1))}


def test_gaps_that_an_archive_knows_of() -> None:
    archived = [spread(0, 20), spread(30, 50)]
    found = extents_by_offset([spread(10, 60)], archived, Bounding())[KEY]
    both = (spread(10, 20), spread(30, 50))
    assert found == Extent(both, both, (NotCompared(LEFT, 20, 30), NotCompared(LEFT, 50, 60), NotCompared(RIGHT, 0, 10)))
    found = extents_by_offset([spread(10, 60)], archived, Bounding(is_end_given=True))[KEY]
    assert found == Extent((spread(10, 60),), both, (NotCompared(RIGHT, 0, 10),))
    found = extents_by_offset([spread(10, 60)], archived, Bounding(is_whole=True))[KEY]
    assert found == Extent((spread(10, 60),), tuple(archived))
    assert extents_by_order([spread(10, 60)], archived)[KEY].right == tuple(archived)
