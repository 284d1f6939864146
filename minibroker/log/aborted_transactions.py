"""The aborted transactions of one log, out of the `.txnindex` files of its segments.

    written     an entry with each abort marker, into the segment that holds the marker
    recovered   a segment that a recovery reads gets its entries anew from its batches
    read        a file that is damaged is made anew from the log first: by the producer snapshot at the segment's start, or before it,
                and the batches from there on

A missing file says that no transaction ends there with an abort, as in Kafka; `minibroker storage check` knows better.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

from minibroker.errors import CorruptLogError, CorruptMessage
from minibroker.log.producer_state import ProducerState
from minibroker.log.segments import Segments
from minibroker.log.snapshots import Snapshots
from minibroker.records.batch import RecordBatch
from minibroker.storage.segment import Segment
from minibroker.storage.transaction_index import AbortedTxn, TransactionIndex

logger = logging.getLogger(__name__)


class AbortedTransactions:
    """All of a log's, in the order of their markers. OSError from each method."""

    __slots__ = ("_segments", "_snapshots")

    def __init__(self, segments: Segments, snapshots: Snapshots) -> None:
        self._segments = segments
        self._snapshots = snapshots

    def collect(self, first_offset: int, end_offset: int) -> list[AbortedTxn]:
        """Those that touch [first_offset, end_offset)."""
        found = []
        for segment in self._segments.from_offset(first_offset):
            entries, is_complete = self._index(segment).collect(first_offset, end_offset)
            found += entries
            if is_complete:
                break
        return found

    def append(self, entry: AbortedTxn) -> bool:
        """Its marker was just appended. Whether the folder has a new name for it."""
        index = self._index(self._segments.active)
        if entry in index.entries[-1:]:  # it is there if the file had to be made anew
            return False
        is_first = not index.entries
        index.append(entry)
        return is_first

    def unsynced(self, segment: Segment) -> TransactionIndex | None:
        """The index of a segment, if a power loss could take entries of it."""
        index = self._index(segment)
        return index if index.unsynced_count else None

    def _index(self, segment: Segment) -> TransactionIndex:
        """Of a segment, with entries that can be read."""
        index = segment.transaction_index
        try:
            _ = index.entries
        except CorruptLogError as error:
            logger.warning("%s: making it anew from the log", error)
            index.replace(self._in_the_log(segment))
        return index

    def _in_the_log(self, segment: Segment) -> list[AbortedTxn]:
        """What the batches of a segment tell."""
        state = ProducerState(0)
        self._snapshots.load_newest(state, segment.base_offset)
        found = []
        for each in self._segments.from_offset(state.end_offset):
            if each.base_offset > segment.base_offset:
                break
            for batch in _readable(each):
                if batch.producer_id >= 0 and batch.base_offset >= state.end_offset:
                    entry = state.update(batch, batch.base_offset)
                    if entry is not None and each is segment:
                        found.append(entry)
        return found


def _readable(segment: Segment) -> Iterator[RecordBatch]:
    try:
        yield from segment.batches()
    except CorruptMessage as error:
        logger.warning("%s", error)
