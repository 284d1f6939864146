"""Acquisition: selects the offsets that a member gets, among those that were read from the log.

Available offsets come first, then new ones, up to `max_records`, and up to the limit of offsets in
flight. A limit is soft: it is rounded up to a whole batch of the log, or to a range that was
delivered together before, unless the member requests strict limits (share_acquire_mode 1). New
offsets are acquired in ranges of at least `batch_size` that end where a batch of the log ends.

A record that was delivered often may crash its readers. From half of the delivery limit on (at
least 2) a range is delivered alone, with half, a quarter, ... of the size of its first delivery. At
its last delivery each record is delivered alone.

    deliveries of a range of 500, of at most 5     1    2    3    4 (250 of them, alone)    5 (one by one)

Source: SharePartition.acquire and ShareFetchUtils of Apache Kafka 4.3.1. (In Kafka, with
share_acquire_mode 1, offsets of a batch that the member did not get are in flight nevertheless.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from minibroker.coordinator.share_partition.in_flight import InFlightBatch, InFlightRecords, Run
from minibroker.coordinator.share_state.records import RecordState

MIN_THROTTLE_LIMIT: Final = 2  #: deliveries; with a lower limit, records are not delivered alone at their last delivery


class Extent(NamedTuple):
    """The offsets of a batch of the log, both inclusive."""

    first_offset: int
    last_offset: int


class Acquired(NamedTuple):
    """Offsets that the member has acquired."""

    first_offset: int
    last_offset: int
    delivery_count: int


class AcquireRequest(NamedTuple):
    """The limits that a member requests."""

    member_id: str
    max_records: int
    batch_size: int
    is_strict: bool  #: max_records is a hard limit


class AcquireLimits(NamedTuple):
    """The limits of a group."""

    delivery_count_limit: int
    max_in_flight: int  #: of one share partition

    @property
    def throttle_limit(self) -> int:
        """The number of deliveries from which on records are delivered a few at a time."""
        return max(MIN_THROTTLE_LIMIT, (self.delivery_count_limit + 1) // 2)


class Acquisition:
    """One answer to one member, from one share partition."""

    def __init__(
        self, records: InFlightRecords, extents: Sequence[Extent], request: AcquireRequest, limits: AcquireLimits, *, lock_expires_ms: int
    ) -> None:
        """Start an acquisition. `extents` are the batches that were read, in order; at least one."""
        self._records = records
        self._extents = extents
        self._request = request
        self._limits = limits
        self._lock_expires_ms = lock_expires_ms
        self._left = 0
        self._acquired: list[Acquired] = []

    def take(self, fetch_offset: int) -> list[Acquired]:
        """Acquire offsets. The log was read at `fetch_offset`."""
        records = self._records
        first_offset, last_offset = self._extents[0].first_offset, self._extents[-1].last_offset
        if last_offset < records.start_offset:
            return []
        self._left = min(self._request.max_records, self._limits.max_in_flight - records.record_count)
        if self._left <= 0 and fetch_offset < records.next_offset:  # acquire no new offsets, only available ones
            self._left = min(self._request.max_records, records.next_offset - fetch_offset)
            last_offset = min(last_offset, records.next_offset - 1)
        if self._left <= 0:
            return []
        if fetch_offset < first_offset:
            records.archive(fetch_offset, first_offset - 1, RecordState.AVAILABLE)  # compacted away
            records.advance()
        for batch in records.overlapping(first_offset, last_offset):
            if self._left <= 0:
                break
            if batch.is_new:
                self._take_part(batch, max(first_offset, batch.first_offset), min(last_offset, batch.last_offset))
            else:
                self._take_again(batch, first_offset, last_offset)
        if self._left > 0 and records.next_offset <= last_offset:
            records.add(self._new(max(first_offset, records.next_offset), last_offset))
        return self._acquired

    def _take_part(self, batch: InFlightBatch, first_offset: int, last_offset: int) -> None:
        """Take offsets of a batch without a known delivery."""
        taken = self._new(first_offset, last_offset)
        parts = list(taken)
        if batch.first_offset < first_offset:
            parts.insert(0, InFlightBatch(Run(batch.first_offset, first_offset - 1, RecordState.AVAILABLE, 0), is_new=True))
        if parts[-1].last_offset < batch.last_offset:
            parts.append(InFlightBatch(Run(parts[-1].last_offset + 1, batch.last_offset, RecordState.AVAILABLE, 0), is_new=True))
        self._records.replace(batch, parts)

    def _new(self, first_offset: int, last_offset: int) -> list[InFlightBatch]:
        """Acquire offsets for the first time."""
        limit_offset = first_offset + self._left - 1
        if limit_offset < last_offset:
            last_offset = limit_offset if self._request.is_strict else min(last_offset, self._end_of_batch(limit_offset))
        self._left -= last_offset - first_offset + 1
        batches = []
        for first, last in self._divided(first_offset, last_offset):
            run = Run(first, last, RecordState.AVAILABLE, 0)
            self._acquire(run)
            batches.append(InFlightBatch(run))
            self._acquired.append(Acquired(first, last, run.delivery_count))
        return batches

    def _end_of_batch(self, offset: int) -> int:
        """Return the end of the batch of the log that has `offset`; `offset` itself if no batch has it."""
        return next((each.last_offset for each in self._extents if each.first_offset <= offset <= each.last_offset), offset)

    def _divided(self, first_offset: int, last_offset: int) -> Iterator[Extent]:
        if not self._request.is_strict and last_offset - first_offset + 1 > self._request.batch_size:
            for each in self._extents:
                if each.first_offset > last_offset:
                    break
                if each.first_offset - first_offset >= self._request.batch_size:
                    yield Extent(first_offset, each.first_offset - 1)
                    first_offset = each.first_offset
        yield Extent(first_offset, last_offset)

    def _take_again(self, batch: InFlightBatch, first_offset: int, last_offset: int) -> None:
        """Take available offsets of a batch."""
        throttle_limit = self._limits.throttle_limit
        counts = [
            run.delivery_count
            for run in batch.runs
            if run.state is RecordState.AVAILABLE and run.last_offset >= first_offset and run.first_offset <= last_offset
        ]
        if not counts:
            return
        is_throttled = max(counts) >= throttle_limit
        if is_throttled and self._acquired:
            self._left = 0
            return
        is_part = batch.first_offset < first_offset or batch.last_offset > last_offset
        taken = self._take_some(batch, batch.within(first_offset, last_offset))
        batch.is_divided |= is_part or is_throttled or len(batch.runs) > 1
        batch.join_runs()
        self._left = 0 if is_throttled else self._left - taken

    def _take_some(self, batch: InFlightBatch, runs: Iterator[Run]) -> int:
        """Take as many offsets of runs of a batch as the limits allow. Return their count."""
        limits = self._limits
        taken, most = 0, self._left if self._request.is_strict else batch.record_count
        before = len(self._acquired)
        for run in runs:
            if run.state is not RecordState.AVAILABLE:
                continue
            is_last = run.delivery_count == limits.delivery_count_limit - 1 >= MIN_THROTTLE_LIMIT
            if is_last:
                most = min(most, 1)
            elif run.delivery_count >= limits.throttle_limit:
                most = min(most, max(1, batch.record_count >> (run.delivery_count - limits.throttle_limit + 1)))
            count = min(run.record_count, most - taken)
            if count <= 0:
                break
            if count < run.record_count:
                batch.divide(run, run.first_offset + count)
            self._acquire(run)
            self._report(run, before)
            taken += count
            if is_last:
                break
        return taken

    def _acquire(self, run: Run) -> None:
        run.state = RecordState.ACQUIRED
        run.delivery_count += 1
        run.member_id = self._request.member_id
        run.lock_expires_ms = self._lock_expires_ms

    def _report(self, run: Run, before: int) -> None:
        """Add an acquired run to the result, merged with an equal neighbor.

        `before` is the number of runs before this batch.
        """
        previous = self._acquired[-1] if len(self._acquired) > before else None
        if previous is not None and (previous.last_offset + 1, previous.delivery_count) == (run.first_offset, run.delivery_count):
            self._acquired[-1] = previous._replace(last_offset=run.last_offset)
        else:
            self._acquired.append(Acquired(run.first_offset, run.last_offset, run.delivery_count))
