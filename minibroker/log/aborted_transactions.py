"""The aborted transactions of a log, from the `.txnindex` files of its segments.

    written     an entry with each abort marker, into the segment that holds the marker
    recovered   recovery rebuilds the entries of a segment from its batches
    read        a damaged file is first rebuilt from the log: from the producer snapshot at the segment's start, or an earlier one, and
                the batches after it

A missing file usually means that no transaction ends in its segment with an abort, but the file may have been lost. If this process has
neither written nor recovered the segment, and the snapshot at its end has producers with markers, the missing file is not trusted.
Instead, the requested batches are walked, up to the markers of their transactions. (Apache Kafka trusts it, and aborted records become
committed.)
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeVar

from minibroker.errors import CorruptLogError, CorruptMessage
from minibroker.log.producer_state import ProducerState, Snapshots
from minibroker.log.segments import Segments
from minibroker.records.batch import RecordBatch
from minibroker.records.control import ControlType, read_marker
from minibroker.storage.segment import Segment
from minibroker.storage.transaction_index import AbortedTxn, TransactionIndex

logger = logging.getLogger(__name__)

MAX_ENDED = 1_000

T = TypeVar("T")


class AbortedTransactions:
    """The aborted transactions of a log in the order of their markers. Each method may raise OSError.

    Args:
        producers: as of the log end.
    """

    __slots__ = ("_ended", "_last_marker", "_producers", "_segments", "_snapshots", "_starts", "_walked")

    def __init__(self, segments: Segments, snapshots: Snapshots, producers: ProducerState) -> None:
        self._segments = segments
        self._snapshots = snapshots
        self._producers = producers
        self._last_marker: int | None = None  #: offset of the last indexed abort, -1 for none; None: not known yet
        self._starts: dict[int, _Start] = {}  #: by the base offset of segments
        self._ended: dict[int, _Ended] = {}  #: by producer id: transactions whose markers are after the end of a walk
        self._walked = (0, 0)  #: start and end offset of a walk that found nothing: the next read continues there

    def may_touch(self, first_offset: int) -> bool:
        """Whether records from `first_offset` on may be aborted. Fast; sometimes True although none is."""
        if self._last_marker is None:
            self._last_marker = max((index[-1].last_offset for each in self._segments if (index := self._index(each).entries)), default=-1)
        if first_offset <= self._last_marker:
            return True
        segment = self._segments.floor(first_offset)
        following = self._segments.after(segment)
        return self._is_doubtful(segment) or (following is not None and self._is_doubtful(following))

    def collect(self, first_offset: int, end_offset: int) -> list[AbortedTxn]:
        """Return the aborted transactions that touch [first_offset, end_offset)."""
        found: list[AbortedTxn] = []
        is_doubtful = False
        for segment in self._segments.from_offset(first_offset):
            if segment.base_offset >= end_offset and self._start(segment.base_offset).oldest >= end_offset:
                break
            is_doubtful |= self._is_doubtful(segment)
            entries, is_complete = self._index(segment).collect(first_offset, end_offset)
            found += entries
            if is_complete:
                break
        return self._with_lost(found, first_offset, end_offset) if is_doubtful else found

    def append(self, entry: AbortedTxn) -> bool:
        """Add the entry of a marker that was just appended. Returns whether that created a file."""
        index = self._index(self._segments.active)
        if entry in index.entries[-1:]:  # a file that was just rebuilt has it already
            return False
        is_first = not index.entries
        index.append(entry)
        if self._last_marker is not None:
            self._last_marker = entry.last_offset
        return is_first

    def unsynced(self, segment: Segment) -> TransactionIndex | None:
        """Return the index of a segment if a power loss could take entries of it."""
        index = self._index(segment)
        return index if index.unsynced_count else None

    def _index(self, segment: Segment) -> TransactionIndex:
        """Return the index of a segment; rebuilds it if it is damaged."""
        index = segment.transaction_index
        try:
            _ = index.entries
        except CorruptLogError as error:
            logger.warning("%s: rebuilding the index from the log", error)
            index.replace(self._in_the_log(segment))
        return index

    def _is_doubtful(self, segment: Segment) -> bool:
        if not self._index(segment).may_be_lost:
            return False
        following = self._segments.after(segment)
        return self._start(following.base_offset).has_markers if following else _Start.of(self._producers).has_markers

    def _start(self, base_offset: int) -> _Start:
        found = self._starts.get(base_offset)
        if found is None:
            state = ProducerState(0)
            self._snapshots.load_newest(state, base_offset)
            found = self._starts[base_offset] = _Start.of(state) if state.end_offset == base_offset else UNKNOWN_START
        return found

    def _with_lost(self, indexed: list[AbortedTxn], first_offset: int, end_offset: int) -> list[AbortedTxn]:
        """Return `indexed` and the transactions that lost their entry, in the order of their markers."""
        begin, end = self._walked
        if begin <= first_offset and end_offset <= end:
            return indexed
        continues = begin <= first_offset <= end
        known = {entry.last_offset for entry in indexed}
        lost = [entry for entry in self._walk(end if continues else first_offset, end_offset) if entry.last_offset not in known]
        if not lost:
            self._walked = (begin if continues else first_offset, end_offset)
        return sorted([*indexed, *lost], key=lambda entry: entry.last_offset)

    def _walk(self, first_offset: int, end_offset: int) -> list[AbortedTxn]:
        """Find aborted transactions in the batches. First and last stable offsets are as if the log started at `first_offset`."""
        ongoing: dict[int, int] = {}
        found: dict[int, AbortedTxn] = {}  #: by the offset of the marker
        for segment in self._segments.from_offset(first_offset):
            for batch in _readable(segment, segment.transactional_from(first_offset)):
                offset, producer_id = batch.base_offset, batch.producer_id
                if offset >= end_offset and not ongoing:
                    return list(found.values())
                if batch.is_control:
                    if producer_id in ongoing:
                        transaction_start = ongoing.pop(producer_id)
                        is_aborted = _is_abort(segment.batch_at(batch))
                        if is_aborted:
                            found[offset] = AbortedTxn(producer_id, transaction_start, offset, min(ongoing.values(), default=offset + 1))
                        if offset >= end_offset:
                            self._note_end(producer_id, _Ended(transaction_start, offset, is_aborted))
                elif offset < end_offset and producer_id not in ongoing:
                    known = self._ended.get(producer_id)
                    if known is None or not known.first_offset <= offset < known.last_offset:
                        ongoing[producer_id] = offset
                    elif known.is_aborted:
                        found.setdefault(known.last_offset, AbortedTxn(producer_id, offset, known.last_offset, offset))
        return list(found.values())

    def _note_end(self, producer_id: int, ended: _Ended) -> None:
        """Remember a marker: a reader of a long transaction must not search it with each fetch."""
        if len(self._ended) >= MAX_ENDED:
            self._ended.clear()
        self._ended[producer_id] = ended

    def _in_the_log(self, segment: Segment) -> list[AbortedTxn]:
        """Return the entries of a segment from its batches."""
        state = ProducerState(0)
        self._snapshots.load_newest(state, segment.base_offset)
        found = []
        for each in self._segments.from_offset(state.end_offset):
            if each.base_offset > segment.base_offset:
                break
            for batch in _readable(each, each.batches_from(state.end_offset)):
                if batch.producer_id >= 0:
                    entry = state.update(batch, batch.base_offset)
                    if entry is not None and each is segment:
                        found.append(entry)
        return found


class _Start(NamedTuple):
    """The state at the start of a segment."""

    oldest: int  #: first offset of the oldest transaction that is open there
    has_markers: bool  #: whether any known producer has ended a transaction

    @classmethod
    def of(cls, state: ProducerState) -> _Start:
        """Return the state of a snapshot, or of the log end."""
        oldest = state.open_transactions.oldest
        return cls(NONE_IS_OPEN if oldest is None else oldest, any(each.coordinator_epoch >= 0 for each in state.producers.values()))


class _Ended(NamedTuple):
    """A transaction that a walk followed: the first offset that the walk met, and its marker."""

    first_offset: int
    last_offset: int
    is_aborted: bool


NONE_IS_OPEN = 1 << 63
UNKNOWN_START = _Start(0, has_markers=True)


def _is_abort(batch: RecordBatch) -> bool:
    marker = read_marker(batch)
    return marker is not None and marker.control_type is ControlType.ABORT


def _readable(segment: Segment, batches: Iterable[T]) -> Iterator[T]:
    """Yield the batches of a segment up to the first damage."""
    try:
        yield from batches
    except CorruptMessage as error:
        logger.warning("%s: %s", segment.log.path, error)
