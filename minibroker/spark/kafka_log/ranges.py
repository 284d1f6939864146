"""What one task of Spark reads: segments of one partition, or a part of a large one. Plain values, sent to executors."""

from __future__ import annotations

from dataclasses import dataclass, field

READ_COMMITTED = "read_committed"
READ_UNCOMMITTED = "read_uncommitted"
FAILFAST = "FAILFAST"
PERMISSIVE = "PERMISSIVE"


@dataclass(frozen=True, slots=True)
class LogSlice:
    """Whole batches of a `.log`: the bytes [start_position, end_position)."""

    path: str
    start_position: int
    end_position: int

    @property
    def size(self) -> int:
        """Bytes of the slice."""
        return self.end_position - self.start_position


@dataclass(frozen=True, slots=True)
class AbortedRange:
    """An aborted transaction: batches of this producer with a base offset from `first_offset` to `last_offset`."""

    producer_id: int
    first_offset: int
    last_offset: int


@dataclass(frozen=True, slots=True)
class LogRange:
    """The records with start_offset <= offset < end_offset in `slices` of a partition, without aborted ones."""

    topic: str
    partition: int
    start_offset: int
    end_offset: int
    slices: tuple[LogSlice, ...]
    aborted: tuple[AbortedRange, ...] = field(default=())

    @property
    def size(self) -> int:
        """Bytes of files."""
        return sum(each.size for each in self.slices)
