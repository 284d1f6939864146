"""Delivery states of ranges of offsets, and how new ones are combined with older ones.

    so far    |--available, 1--|                |---acknowledged, 1---|
    new                 |--acknowledged, 1--|
    combined  |--avail--|---acknowledged, 1-|   |---acknowledged, 1---|

Of two that overlap, the one with more deliveries wins; of equally many, the one with the higher
state. Equal neighbors are merged where Apache Kafka merges them, so that records are equal byte for
byte. Offsets below the start offset are dropped.

Source: PersisterStateBatchCombiner of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import NamedTuple

NO_OFFSET = -1  #: not set; of a start offset: unchanged


class RecordState(IntEnum):
    """The delivery state of a record. The numbers are those of requests and of records in the log."""

    AVAILABLE = 0
    ACQUIRED = 1  #: kept in memory only
    ACKNOWLEDGED = 2
    ARCHIVED = 4

    @property
    def is_terminal(self) -> bool:
        """Whether no member gets the record any more."""
        return self >= RecordState.ACKNOWLEDGED


class StateBatch(NamedTuple):
    """Neighboring records with the same state."""

    first_offset: int
    last_offset: int  #: inclusive
    delivery_state: int
    delivery_count: int

    @property
    def rank(self) -> tuple[int, int]:
        """Decides between two that overlap."""
        return self.delivery_count, self.delivery_state


def combine(so_far: Iterable[StateBatch], new: Iterable[StateBatch], start_offset: int) -> list[StateBatch]:
    """Combine both without overlaps, from `start_offset` on; NO_OFFSET keeps all offsets."""
    every = _from(start_offset, (*so_far, *new))
    if len(every) < 2:
        return every
    rest = sorted(set(every), key=_order)
    done: list[StateBatch] = []
    while len(rest) > 1:
        before, after = rest[0], rest[1]
        if not _can_be_merged(before, after):
            done.append(rest.pop(0))
            continue
        del rest[:2]
        for each in _merged(before, after):
            index = bisect_left(rest, _order(each), key=_order)
            if rest[index : index + 1] != [each]:
                rest.insert(index, each)
    return done + rest


def _order(batch: StateBatch) -> tuple[int, int, tuple[int, int]]:
    return batch.first_offset, batch.last_offset, batch.rank


def _from(start_offset: int, batches: Sequence[StateBatch]) -> list[StateBatch]:
    if start_offset == NO_OFFSET:
        return list(batches)
    return [
        each if each.first_offset >= start_offset else each._replace(first_offset=start_offset)
        for each in batches
        if each.last_offset >= start_offset
    ]


def _can_be_merged(before: StateBatch, after: StateBatch) -> bool:
    return after.first_offset <= before.last_offset or (after.first_offset == before.last_offset + 1 and after.rank == before.rank)


def _merged(before: StateBatch, after: StateBatch) -> Iterable[StateBatch]:
    """Merge two that overlap or are equal into up to three that do neither. `before` is the earlier one in order."""
    if after.rank == before.rank:
        return (before._replace(last_offset=max(before.last_offset, after.last_offset)),)
    if after.rank > before.rank:
        found = [after]
        if before.first_offset < after.first_offset:
            found.insert(0, before._replace(last_offset=after.first_offset - 1))
        if before.last_offset > after.last_offset:
            found.append(before._replace(first_offset=after.last_offset + 1))
        return found
    if after.last_offset > before.last_offset:
        return before, after._replace(first_offset=before.last_offset + 1)
    return (before,)
