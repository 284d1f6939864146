"""Records in flight: batches of offsets that were delivered together, divided into runs with one state.

    batch 10..19    |--acknowledged 10..12--|--acquired by a 13..17--|--available 18..19--|

    ... done ...|start_offset   batch  batch    batch |next_offset   ... never delivered ...

A batch has the offsets that one acquisition took together, or those of one stored state. It exists
until all of it is below the start offset. Runs of a batch are in order, without gaps. Offsets
between batches are not in the log (compaction, or a transaction's marker).

Invariants
  - batches are in order and do not overlap; start_offset is the first offset of the first batch
  - the first offset is not done, unless it was archived in memory only (compacted away or aborted);
    after a restart it is archived again
  - without batches, start_offset and next_offset are equal

Source: SharePartition.cachedState of Apache Kafka 4.3.1. Kafka's window of read gaps is represented
by batches with `is_new`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from typing import Final

from minibroker.coordinator.share_state.records import RecordState, StateBatch
from minibroker.errors import UnknownServerError

NO_MEMBER: Final = ""  #: member ids are never empty
NO_LOCK: Final = 0  #: for records that no member has acquired


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
        member_id: str = NO_MEMBER,
        lock_expires_ms: int = NO_LOCK,
    ) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset  #: inclusive
        self.state = state
        self.delivery_count = delivery_count
        self.member_id = member_id  #: the member that has acquired it
        self.lock_expires_ms = lock_expires_ms

    @property
    def record_count(self) -> int:
        """The number of offsets, including those without a record."""
        return self.last_offset - self.first_offset + 1

    def become(self, state: RecordState) -> None:
        """Change the state. Afterwards no member has the run."""
        self.state = state
        self.member_id = NO_MEMBER
        self.lock_expires_ms = NO_LOCK

    def as_state(self, state: RecordState) -> StateBatch:
        """Return the run as a stored state, with `state` instead of its present state."""
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
        """Cut off and return the part from `offset` on."""
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
        self.record_count = run.record_count  #: of offsets when they were delivered, including those below the start offset now
        self.is_new = is_new  #: no delivery is known: it was in flight when the broker crashed, or lies between stored states
        self.is_divided = False  #: single offsets were changed; selects the message of an error

    @property
    def first_offset(self) -> int:
        """The first offset of its first run."""
        return self.runs[0].first_offset

    @property
    def last_offset(self) -> int:
        """The last offset of its last run, inclusive."""
        return self.runs[-1].last_offset

    def within(self, first_offset: int, last_offset: int) -> Iterator[Run]:
        """Return the runs of a range of offsets, cut at its ends if necessary."""
        first = self._cut_at(first_offset)
        end = self._cut_at(last_offset + 1)
        yield from self.runs[first:end]

    def drop_below(self, offset: int) -> None:
        """Drop offsets below `offset`, which is not above the last one."""
        del self.runs[: self._cut_at(offset)]

    def join_runs(self) -> None:
        """Merge equal neighbors."""
        joined = self.runs[:1]
        for run in self.runs[1:]:
            if joined[-1].is_like(run):
                joined[-1].last_offset = run.last_offset
            else:
                joined.append(run)
        self.runs = joined

    def divide(self, run: Run, offset: int) -> None:
        """Divide a run at `offset`."""
        self.runs.insert(self.runs.index(run) + 1, run.cut(offset))

    def _cut_at(self, offset: int) -> int:
        """Return the index of the first run at or after `offset`. Cut the run that contains it."""
        index = bisect_left(self.runs, offset, key=_first_offset)
        if index and offset <= self.runs[index - 1].last_offset:
            self.runs.insert(index, self.runs[index - 1].cut(offset))
        return index


def _first_offset(each: Run | InFlightBatch) -> int:
    return each.first_offset


class InFlightRecords:
    """The batches in flight of one share partition."""

    __slots__ = ("_is_any_available", "batches", "next_offset", "start_offset")

    def __init__(self, start_offset: int) -> None:
        self.start_offset = start_offset
        self.next_offset = start_offset  #: the first that was never delivered
        self.batches: list[InFlightBatch] = []
        self._is_any_available = False  #: False is certain; True means that a search is needed

    @classmethod
    def from_states(cls, start_offset: int, states: Iterable[StateBatch]) -> InFlightRecords:
        """Restore batches from stored states.

        Records between them were acquired when the broker stopped, so they are new.

        Raises:
            UnknownServerError: The states are invalid, as in Kafka.
        """
        records = cls(start_offset)
        for each in states:
            if each.first_offset < records.next_offset or each.last_offset < each.first_offset:
                raise UnknownServerError(f"the state of a share partition names {each.first_offset} to {each.last_offset} out of order")
            if each.first_offset > records.next_offset:
                gap = Run(records.next_offset, each.first_offset - 1, RecordState.AVAILABLE, 0)
                records.batches.append(InFlightBatch(gap, is_new=True))
            try:
                state = RecordState(each.delivery_state)
            except ValueError:
                raise UnknownServerError(f"the state of a share partition names the state {each.delivery_state}") from None
            records.batches.append(InFlightBatch(Run(each.first_offset, each.last_offset, state, each.delivery_count)))
            records.next_offset = each.last_offset + 1
        records._is_any_available = True
        records.advance()
        return records

    # Look-ups

    @property
    def record_count(self) -> int:
        """The number of offsets in flight."""
        return self.next_offset - self.start_offset

    @property
    def delivery_complete_count(self) -> int:
        """The number of offsets in flight that no member will get again."""
        return sum(run.record_count for run in self.runs() if run.state.is_terminal)

    def next_fetch_offset(self) -> int:
        """Return the offset to read next: the first that is available again, or was never delivered."""
        if self._is_any_available:
            for run in self.runs():
                if run.state is RecordState.AVAILABLE:
                    return run.first_offset
            self._is_any_available = False
        return self.next_offset

    def runs(self) -> Iterator[Run]:
        """Return all runs, in order."""
        return (run for batch in self.batches for run in batch.runs)

    def overlapping(self, first_offset: int, last_offset: int) -> list[InFlightBatch]:
        """Return the batches that have some of these offsets."""
        index = self._floor(first_offset)
        if index < 0 or self.batches[index].last_offset < first_offset:
            index += 1
        end = self._floor(last_offset) + 1
        return self.batches[index:end]

    # Changes

    def add(self, batches: Iterable[InFlightBatch]) -> None:
        """Insert batches between the existing ones."""
        for batch in batches:
            index = self._floor(batch.first_offset) + 1
            self.batches.insert(index, batch)
            if index == 0:
                self.start_offset = batch.first_offset
            self.next_offset = max(self.next_offset, batch.last_offset + 1)

    def replace(self, batch: InFlightBatch, parts: Iterable[InFlightBatch]) -> None:
        """Replace `batch` by its parts."""
        index = self._floor(batch.first_offset)
        self.batches[index : index + 1] = parts

    def release(self, run: Run, state: RecordState) -> None:
        """Release a run into another state."""
        run.become(state)
        self._is_any_available |= state is RecordState.AVAILABLE

    def archive(self, first_offset: int, last_offset: int, state: RecordState) -> None:
        """Archive the offsets of a range that are in `state`, in memory only."""
        for batch in self.overlapping(first_offset, last_offset):
            if any(run.state is state for run in batch.runs):
                for run in batch.within(first_offset, last_offset):
                    if run.state is state:
                        run.become(RecordState.ARCHIVED)
                batch.is_divided |= len(batch.runs) > 1

    def advance(self) -> bool:
        """Move the start offset over offsets that are done. Return whether it moved."""
        before = self.start_offset
        done = 0
        for batch in self.batches:
            left = next((run for run in batch.runs if not run.state.is_terminal), None)
            if left is not None:
                batch.drop_below(left.first_offset)
                break
            done += 1
        del self.batches[:done]
        self.start_offset = self.batches[0].first_offset if self.batches else self.next_offset
        return self.start_offset != before

    def begin_at(self, offset: int) -> None:
        """Drop all offsets below `offset`, which the log does not have any more."""
        self.batches = self.overlapping(offset, self.next_offset)
        if self.batches and self.batches[0].first_offset < offset:
            self.batches[0].drop_below(offset)
        self.next_offset = max(self.next_offset, offset)
        self.start_offset = offset
        self.advance()

    def _floor(self, offset: int) -> int:
        """Return the index of the last batch that does not start after `offset`; -1 if there is none."""
        return bisect_right(self.batches, offset, key=_first_offset) - 1
