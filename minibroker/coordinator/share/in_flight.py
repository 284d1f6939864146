"""Records in flight: batches of offsets that were delivered together, divided into runs that one thing became of.

    batch 10..19    |--acknowledged 10..12--|--acquired by a 13..17--|--available 18..19--|

A batch is what an acquisition took at once, or what a state in the log named; it lives until all of it is below the start offset. Runs of a
batch are in order, without gaps. Between batches there may be: those offsets are not in the log (compaction, or a transaction's marker
alone), and nobody waits for them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import Final

from minibroker.coordinator.share.state_batches import RecordState, StateBatch

NOBODY: Final = ""  #: has it; member ids are never empty
NO_LOCK: Final = 0  #: of records that nobody has


class Run:
    """Offsets of one batch that have the same state."""

    __slots__ = ("delivery_count", "first_offset", "last_offset", "lock_expires_ms", "member_id", "state")

    def __init__(
        self,
        first_offset: int,
        last_offset: int,
        state: RecordState,
        delivery_count: int,
        *,
        member_id: str = NOBODY,
        lock_expires_ms: int = NO_LOCK,
    ) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset  #: inclusive
        self.state = state
        self.delivery_count = delivery_count
        self.member_id = member_id  #: who has acquired it
        self.lock_expires_ms = lock_expires_ms

    @property
    def record_count(self) -> int:
        """Offsets, those that no record has among them."""
        return self.last_offset - self.first_offset + 1

    def become(self, state: RecordState) -> None:
        """Nobody has it any more."""
        self.state = state
        self.member_id = NOBODY
        self.lock_expires_ms = NO_LOCK

    def as_state(self, state: RecordState) -> StateBatch:
        """For the log: in another state than it is still in."""
        return StateBatch(self.first_offset, self.last_offset, state, self.delivery_count)

    def is_like(self, other: Run) -> bool:
        """Whether the two could be one run."""
        return (self.state, self.delivery_count, self.member_id, self.lock_expires_ms) == (
            other.state,
            other.delivery_count,
            other.member_id,
            other.lock_expires_ms,
        )

    def cut(self, offset: int) -> Run:
        """The part from `offset` on, which this run gives up."""
        rest = Run(
            offset, self.last_offset, self.state, self.delivery_count, member_id=self.member_id, lock_expires_ms=self.lock_expires_ms
        )
        self.last_offset = offset - 1
        return rest


class InFlightBatch:
    """Offsets that were delivered together."""

    __slots__ = ("is_divided", "is_new", "record_count", "runs")

    def __init__(self, run: Run, *, is_new: bool = False) -> None:
        self.runs = [run]  #: in order, without gaps
        self.record_count = run.record_count  #: offsets as they were delivered: with those that are below the start offset since
        self.is_new = is_new  #: nobody knows of a delivery: it was in flight when the broker died, or between states that the log names
        self.is_divided = False  #: offsets were looked at one by one; decides the words of a refusal

    @property
    def first_offset(self) -> int:
        """Of its first run."""
        return self.runs[0].first_offset

    @property
    def last_offset(self) -> int:
        """Of its last run, inclusive."""
        return self.runs[-1].last_offset

    def within(self, first_offset: int, last_offset: int) -> Iterator[Run]:
        """The runs of a range of offsets, cut at its ends where it must be."""
        first = self._cut_at(first_offset)
        end = self._cut_at(last_offset + 1)
        yield from self.runs[first:end]

    def drop_below(self, offset: int) -> None:
        """Forget offsets below `offset`, which is not above the last one."""
        del self.runs[: self._cut_at(offset)]

    def join_runs(self) -> None:
        """Make one of neighbours that say the same."""
        joined = self.runs[:1]
        for run in self.runs[1:]:
            if joined[-1].is_like(run):
                joined[-1].last_offset = run.last_offset
            else:
                joined.append(run)
        self.runs = joined

    def divide(self, run: Run, offset: int) -> None:
        """Make two runs of one of its, the second from `offset` on."""
        self.runs.insert(self.runs.index(run) + 1, run.cut(offset))

    def _cut_at(self, offset: int) -> int:
        """The index of the first run at or behind `offset`, which begins there if any offset of the batch is below."""
        index = bisect_left(self.runs, offset, key=_first_offset)
        if index and offset <= self.runs[index - 1].last_offset:
            self.runs.insert(index, self.runs[index - 1].cut(offset))
        return index


def _first_offset(run: Run) -> int:
    return run.first_offset
