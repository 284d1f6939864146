"""Choose the offsets of two sides to compare.

With match=offset, a given bound applies to both sides, and records that one of them lacks are differences.
Without a given bound, offsets that both sides have are compared and the others are listed; with `is_whole`,
offsets that either side has are compared. Gaps that an archive knows are skipped and listed, unless a bound is
given or `is_whole`. All records of a partition that only one side has are differences.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from minibroker.spark.audit.result import LEFT, RIGHT, NotCompared
from minibroker.spark.failures import SourceError
from minibroker.spark.sources.ranges import PartitionRange, common, without

Key = tuple[str, int]  #: topic (its name on the left) and partition
Ranges = tuple[PartitionRange, ...]  #: of one partition, sorted; at least one, which may be empty


@dataclass(frozen=True, slots=True)
class Extent:
    """The offsets to read of one partition on each side; None: the side has no such partition."""

    left: Ranges | None
    right: Ranges | None
    not_compared: tuple[NotCompared, ...] = ()


@dataclass(frozen=True, slots=True)
class Bounding:
    """How the bounds of the comparison are chosen; given bounds are the left side's."""

    is_start_given: bool = False
    is_end_given: bool = False
    is_whole: bool = False

    @property
    def is_strict(self) -> bool:
        """Whether offsets that a side lacks are differences, even in known gaps."""
        return self.is_whole or self.is_start_given or self.is_end_given

    def excludes(self, unseen: NotCompared, window: PartitionRange) -> bool:
        """Return whether the given bounds exclude these offsets."""
        is_before, is_after = unseen.end_offset <= window.start_offset, unseen.start_offset >= window.end_offset
        return (self.is_start_given and is_before) or (self.is_end_given and is_after)


def extents_by_offset(left: Iterable[PartitionRange], right: Iterable[PartitionRange], bounding: Bounding) -> dict[Key, Extent]:
    """Return the extents of all partitions, sorted by key.

    Args:
        left: the requested ranges of the left side.
        right: all ranges of the right side, with topics named as on the left.
        bounding: how to choose bounds if both differ.
    """
    return {key: _extent(one, other, bounding) for key, (one, other) in _paired(left, right).items()}


def extents_by_order(left: Iterable[PartitionRange], right: Iterable[PartitionRange]) -> dict[Key, Extent]:
    """Return all ranges of both sides, since offsets do not match records."""
    return {key: Extent(one, other) for key, (one, other) in _paired(left, right).items()}


def check_common(extents: Mapping[Key, Extent]) -> None:
    """Raise SourceError if sides have offsets but none of them would be compared, which would not prove equality."""
    read = [each for extent in extents.values() for each in (*(extent.left or ()), *(extent.right or ()))]
    if any(extent.not_compared for extent in extents.values()) and not any(each.size for each in read):
        raise SourceError("the two sides have no offsets in common: compare all offsets with whole, or match by order")


def span(ranges: Ranges) -> tuple[int, int]:
    """Return the first offset, and the one after the last."""
    return ranges[0].start_offset, ranges[-1].end_offset


def _paired(left: Iterable[PartitionRange], right: Iterable[PartitionRange]) -> dict[Key, tuple[Ranges | None, Ranges | None]]:
    ones, others = _by_partition(left), _by_partition(right)
    return {key: (ones.get(key), others.get(key)) for key in sorted(ones.keys() | others.keys())}


def _by_partition(ranges: Iterable[PartitionRange]) -> dict[Key, Ranges]:
    found: dict[Key, Ranges] = {}
    for each in sorted(ranges):
        found[each[:2]] = (*found.get(each[:2], ()), each)
    return found


def _extent(left: Ranges | None, right: Ranges | None, bounding: Bounding) -> Extent:
    if left is None or right is None:
        return Extent(left, right)
    (left_start, left_end), (right_start, right_end) = span(left), span(right)
    start = left_start if bounding.is_start_given else (min if bounding.is_whole else max)(left_start, right_start)
    end = left_end if bounding.is_end_given else (max if bounding.is_whole else min)(left_end, right_end)
    window = left[0]._replace(start_offset=start, end_offset=max(start, end))
    ones, others = common(left, [window]), common(right, [window])
    if not bounding.is_strict:
        ones = others = common(ones, others)
    unseen = (*_unseen(LEFT, left, ones), *(each for each in _unseen(RIGHT, right, others) if not bounding.excludes(each, window)))
    return Extent(ones or _nothing(left, window), others or _nothing(right, window), unseen)


def _unseen(side: str, there: Ranges, seen: Ranges) -> list[NotCompared]:
    return [NotCompared(side, each.start_offset, each.end_offset) for each in without(there, seen)]


def _nothing(there: Ranges, window: PartitionRange) -> Ranges:
    """Return an empty range at the window's start, or at the side's offset that is closest to it."""
    first, end = span(there)
    offset = min(max(first, window.start_offset), end)
    return (window._replace(start_offset=offset, end_offset=offset),)
