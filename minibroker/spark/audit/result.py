"""The result of an audit, as plain values and as JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

LEFT = "left"
RIGHT = "right"

# The kinds of differences. Records match by offset, or by order: by their number in the partition.
MISSING_LEFT = "missing left"
MISSING_RIGHT = "missing right"
DUPLICATE_LEFT = "duplicate left"  #: more often on the left than on the right
DUPLICATE_RIGHT = "duplicate right"
CHANGED = "changed"


@dataclass(frozen=True, slots=True)
class SeenRecord:
    """A record to show.

    Attributes:
        offset: on its side.
        key, value: their first PREVIEW_SIZE bytes; None for null.
        key_size, value_size: all their bytes; None for null.
        headers: the first ones, with the first bytes of each value.
        timestamp: ISO 8601 in UTC; None if there is none.
    """

    offset: int
    key: bytes | None
    key_size: int | None
    value: bytes | None
    value_size: int | None
    headers: tuple[tuple[str | None, bytes | None], ...]
    timestamp: str | None

    def as_dict(self) -> dict[str, Any]:
        """Return the record with bytes as text; invalid UTF-8 is escaped."""
        return {
            "offset": self.offset,
            "key": _text(self.key),
            "key_size": self.key_size,
            "value": _text(self.value),
            "value_size": self.value_size,
            "headers": [[name, _text(value)] for name, value in self.headers],
            "timestamp": self.timestamp,
        }


@dataclass(frozen=True, slots=True)
class Difference:
    """The first difference of a partition.

    Attributes:
        kind: MISSING_LEFT, MISSING_RIGHT, DUPLICATE_LEFT, DUPLICATE_RIGHT or CHANGED.
        columns: the columns that differ, of a record that is CHANGED.
        position: the offset; by order, the record's number within the compared part of its partition, from 0.
        count: with match=order, how many records in a row are missing or repeated; else how many offsets of the
            first different range differ.
        left, right: the records at this position; None if there is none.
    """

    kind: str
    columns: tuple[str, ...]
    position: int
    count: int
    left: SeenRecord | None
    right: SeenRecord | None

    def as_dict(self) -> dict[str, Any]:
        """Return the values for JSON."""
        return {
            "kind": self.kind,
            "columns": list(self.columns),
            "position": self.position,
            "count": self.count,
            "left": self.left.as_dict() if self.left else None,
            "right": self.right.as_dict() if self.right else None,
        }


@dataclass(frozen=True, slots=True)
class NotCompared:
    """Offsets that only one side has, outside of the requested ones."""

    side: str
    start_offset: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class DifferentRange:
    """A range whose digests differ: start <= position < end. Positions are offsets, or record numbers with match=order."""

    topic: str
    partition: int
    start: int
    end: int
    left_count: int
    right_count: int


@dataclass(frozen=True, slots=True)
class PartitionAudit:
    """One partition.

    Attributes:
        topic: its name on the left.
        left_start_offset, left_end_offset, right_start_offset, right_end_offset: the compared offsets, ends exclusive.
            With match=offset they differ only if one side lacks offsets to compare. None: the side has no such partition.
        left_count, right_count: compared records.
        range_count, different_range_count: ranges with records, and those whose digests differ.
        first_difference: None if there is none, and after the first MAX_DETAILED partitions that differ.
        not_compared: offsets that only one side has.
    """

    topic: str
    partition: int
    left_start_offset: int | None
    left_end_offset: int | None
    right_start_offset: int | None
    right_end_offset: int | None
    left_count: int
    right_count: int
    range_count: int
    different_range_count: int
    first_difference: Difference | None
    not_compared: tuple[NotCompared, ...]

    @property
    def is_equal(self) -> bool:
        """Whether all compared records are equal."""
        return self.different_range_count == 0

    def as_dict(self) -> dict[str, Any]:
        """Return the values for JSON."""
        return {
            "topic": self.topic,
            "partition": self.partition,
            "equal": self.is_equal,
            "left": {"start_offset": self.left_start_offset, "end_offset": self.left_end_offset, "count": self.left_count},
            "right": {"start_offset": self.right_start_offset, "end_offset": self.right_end_offset, "count": self.right_count},
            "ranges": self.range_count,
            "different_ranges": self.different_range_count,
            "first_difference": self.first_difference.as_dict() if self.first_difference else None,
            "not_compared": [
                {"side": each.side, "start_offset": each.start_offset, "end_offset": each.end_offset} for each in self.not_compared
            ],
        }


@dataclass(frozen=True, slots=True)
class AuditResult:
    """All partitions of all topics.

    Attributes:
        left, right: the names of the sides.
        match: "offset" or "order".
        columns: the compared columns.
        range_size: positions per digest.
        partitions: by topic and number.
        different_ranges: the first ranges that differ.
    """

    left: str
    right: str
    match: str
    columns: tuple[str, ...]
    range_size: int
    partitions: tuple[PartitionAudit, ...]
    different_ranges: tuple[DifferentRange, ...]

    @property
    def is_equal(self) -> bool:
        """Whether all compared records are equal; `partitions` list offsets that were not compared."""
        return all(each.is_equal for each in self.partitions)

    @property
    def left_count(self) -> int:
        """The compared records of the left side."""
        return sum(each.left_count for each in self.partitions)

    @property
    def right_count(self) -> int:
        """The compared records of the right side."""
        return sum(each.right_count for each in self.partitions)

    def as_dict(self) -> dict[str, Any]:
        """Return the result for JSON; the names are stable."""
        return {
            "equal": self.is_equal,
            "left": self.left,
            "right": self.right,
            "match": self.match,
            "columns": list(self.columns),
            "range_size": self.range_size,
            "left_count": self.left_count,
            "right_count": self.right_count,
            "partitions": [each.as_dict() for each in self.partitions],
            "different_ranges": [
                {
                    "topic": each.topic,
                    "partition": each.partition,
                    "start": each.start,
                    "end": each.end,
                    "left_count": each.left_count,
                    "right_count": each.right_count,
                }
                for each in self.different_ranges
            ],
        }


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode(errors="backslashreplace")
