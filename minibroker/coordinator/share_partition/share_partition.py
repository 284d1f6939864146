"""One partition of a topic as one share group reads it: a machine without a loop, whose clock and log are given to it.

What becomes of an offset at or above the start offset, with the limit of deliveries L:

    state          acquire           accept         release, lock over, session over   reject, gap   aborted      compacted away
    (new)          ACQUIRED, 1st     -              -                                  -             -            -
    AVAILABLE      ACQUIRED, n+1st   refused        -                                  refused       -            ARCHIVED *
    ACQUIRED       passed over       ACKNOWLEDGED   AVAILABLE; ARCHIVED after the Lth  ARCHIVED      ARCHIVED *   -
    ACKNOWLEDGED   passed over       refused        -                                  refused       -            -
    ARCHIVED       passed over       refused        -                                  refused       -            -

Only who acquired a record may say anything of it. `renew` of an acquired one makes its lock last as long as a new one. Each change is
persisted before it is done, but for those with a star; when that fails nothing has happened, unless a lock is over: then the record is
available all the same. ACQUIRED is never persisted: after a restart such records are new. The start offset moves over what is done with,
and with the log's.

Invariant: an offset is acquired by one member at most, and what is ACKNOWLEDGED or ARCHIVED is never acquired again.

Source: SharePartition of Apache Kafka 4.3.1. One thread owns everything here: no transition is ever under way, nothing is rolled back.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from minibroker.clock import Clock, Timer
from minibroker.cluster.configs.group_config import GroupConfig
from minibroker.cluster.partition import Subscribers
from minibroker.coordinator.share_partition.acknowledging import Acknowledgement, Acknowledging, Change, released_state
from minibroker.coordinator.share_partition.acquiring import Acquired, Acquisition, Extent, Limits, Wanted
from minibroker.coordinator.share_partition.in_flight import InFlightRecords
from minibroker.coordinator.share_state.records import ShareState, StateKey, StateUpdate
from minibroker.coordinator.share_state.state_batches import RecordState
from minibroker.errors import KafkaError

Persist = Callable[[StateUpdate], None]  #: KafkaError when it is not in the log

_INT32_MAX = 2**31 - 1

_LOG = logging.getLogger(__name__)


class SharePartition:
    """Lives as long as members of its group have sessions, and its state is not made anew elsewhere."""

    def __init__(
        self,
        key: StateKey,
        state: ShareState,
        *,
        start_offset: int,
        leader_epoch: int,
        config: Callable[[], GroupConfig],
        persist: Persist,
        clock: Clock,
    ) -> None:
        """`state` is what the log says; `start_offset` is its own, or where share.auto.offset.reset says. UnknownServerError."""
        self.key = key
        self.records = InFlightRecords.from_states(start_offset, state.batches)
        self._state_epoch = state.state_epoch
        self._leader_epoch = leader_epoch
        self._config = config
        self._persist = persist
        self._clock = clock
        self._timer: Timer | None = None
        self._timer_ms = 0  #: when it runs
        self._seen_ms = clock.now_ms()  #: the last time that anybody looked at the clock
        self._subscribers = Subscribers()
        self.is_closed = False

    # Reading

    def can_acquire(self) -> bool:
        """Whether somebody may get something, if the log has it."""
        records = self.records
        return records.next_fetch_offset() < records.next_offset or records.record_count < self._config().share_partition_max_record_locks

    def acquire(self, fetch_offset: int, extents: Sequence[Extent], wanted: Wanted) -> list[Acquired]:
        """Give a member what it wants of what was read at `fetch_offset`."""
        config = self._config()
        limits = Limits(config.share_delivery_count_limit, config.share_partition_max_record_locks)
        expires_ms = self._now_ms() + config.share_record_lock_duration_ms
        acquired = Acquisition(self.records, extents, wanted, limits, lock_expires_ms=expires_ms).take(fetch_offset)
        if acquired:
            self._watch_locks(expires_ms)
        return acquired

    def archive_aborted(self, extents: Sequence[Extent]) -> None:
        """These offsets, just acquired, are of aborted transactions: nobody gets them."""
        for each in extents:
            self.records.archive(each.first_offset, each.last_offset, RecordState.ACQUIRED)
        if self.records.advance():
            self.wake()

    def begin_at(self, log_start_offset: int) -> None:
        """The log begins further on."""
        if log_start_offset > self.records.start_offset:
            self.records.begin_at(log_start_offset)
            self.wake()

    # What members say

    def acknowledge(self, member_id: str, acknowledgements: Sequence[Acknowledgement]) -> None:
        """All of it or nothing: InvalidRecordState, InvalidRequest, and what `persist` raises."""
        config = self._config()
        acknowledging = Acknowledging(
            self.records,
            member_id,
            delivery_count_limit=config.share_delivery_count_limit,
            may_renew=config.share_renew_acknowledge_enable,
        )
        try:
            plan = acknowledging.plan(acknowledgements)
            self._change(plan.changes)
            if plan.renewed:
                expires_ms = self._now_ms() + config.share_record_lock_duration_ms
                for run in plan.renewed:
                    run.lock_expires_ms = expires_ms
                self._watch_locks(expires_ms)
        finally:
            for batch in self.records.batches:
                if len(batch.runs) > 1:
                    batch.join_runs()
        self.wake()

    def release(self, member_id: str) -> None:
        """The member's session is over: others may have what it had; what `persist` raises."""
        limit = self._config().share_delivery_count_limit
        self._change([(run, released_state(run, limit)) for run in self.records.runs() if run.member_id == member_id])
        self.wake()

    # Waiting

    def subscribe(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` when somebody may get something who could not; returns what ends it (harmless twice)."""
        return self._subscribers.subscribe(callback)

    def wake(self) -> None:
        """Call every subscriber."""
        self._subscribers.wake()

    def close(self) -> None:
        """Nothing happens here any more; who waits finds out."""
        self.is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        self.wake()

    # Changes

    def _change(self, changes: Sequence[Change]) -> None:
        if changes:
            self._persist(self._update(changes))
            self._apply(changes)

    def _update(self, changes: Sequence[Change]) -> StateUpdate:
        """As Kafka persists it: with the start offset from before."""
        records = self.records
        completed = sum(run.record_count for run, state in changes if state.is_terminal)
        return StateUpdate(
            state_epoch=self._state_epoch,
            leader_epoch=self._leader_epoch,
            start_offset=records.start_offset,
            delivery_complete_count=min(records.delivery_complete_count + completed, _INT32_MAX),  # a state can name any offsets
            batches=[run.as_state(state) for run, state in changes],
        )

    def _apply(self, changes: Sequence[Change]) -> None:
        for run, state in changes:
            self.records.release(run, state)
        self.records.advance()

    # Locks

    def _now_ms(self) -> int:
        """The time. Locks go back with a clock that is set back, or they would last as much longer."""
        now_ms = self._clock.now_ms()
        if now_ms < self._seen_ms:
            self._timer_ms -= self._seen_ms - now_ms
            for run in self.records.runs():
                if run.state is RecordState.ACQUIRED:
                    run.lock_expires_ms -= self._seen_ms - now_ms
        self._seen_ms = now_ms
        return now_ms

    def _watch_locks(self, expires_ms: int) -> None:
        """Look again when a lock is over that was taken now; one timer does for all."""
        if self._timer is None or expires_ms < self._timer_ms:
            if self._timer is not None:
                self._timer.cancel()
            self._timer_ms = expires_ms
            self._timer = self._clock.call_later_ms(max(expires_ms - self._clock.now_ms(), 0), self._end_locks)

    def _end_locks(self) -> None:
        self._timer = None
        now_ms = self._now_ms()
        limit = self._config().share_delivery_count_limit
        locked = [run for run in self.records.runs() if run.state is RecordState.ACQUIRED]
        changes = [(run, released_state(run, limit)) for run in locked if run.lock_expires_ms <= now_ms]
        if changes:
            try:
                self._persist(self._update(changes))
            except KafkaError as error:
                _LOG.warning("%s: locks are over, but that cannot be persisted: %s", self.key.coordinator_key, error)
            self._apply(changes)
        left = [run.lock_expires_ms for run in self.records.runs() if run.state is RecordState.ACQUIRED]
        if left:
            self._watch_locks(min(left))
        if changes:
            self.wake()
