"""The state machine of a share partition: one partition of a topic, as one share group reads it.

Clock and log are injected. The next state of an offset at or above the start offset, with the
delivery limit L:

    state          acquire           accept         release, lock or session ends      reject, gap   aborted      compacted away
    (new)          ACQUIRED, 1st     -              -                                  -             -            -
    AVAILABLE      ACQUIRED, n+1st   rejected       -                                  rejected      -            ARCHIVED *
    ACQUIRED       skipped           ACKNOWLEDGED   AVAILABLE; ARCHIVED after the Lth  ARCHIVED      ARCHIVED *   -
    ACKNOWLEDGED   skipped           rejected       -                                  rejected      -            -
    ARCHIVED       skipped           rejected       -                                  rejected      -            -

Only the member that acquired a record may acknowledge it. `renew` restarts its acquisition lock.
Each change is persisted before it is applied, except those with a star. If persisting fails,
nothing changes, except that an expired lock makes its record available. ACQUIRED is never
persisted: after a restart such records are new. The start offset moves over offsets that are done,
and with the start of the log.

Invariant: an offset is acquired by one member at most, and an ACKNOWLEDGED or ARCHIVED one is never
acquired again.

Source: SharePartition of Apache Kafka 4.3.1. Unlike in Kafka, everything runs in one thread: no
transition is pending, and none is rolled back.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from minibroker.clock import Clock, Timer
from minibroker.cluster.configs.group_config import GroupConfig
from minibroker.cluster.partition import Subscribers
from minibroker.coordinator.share_partition.acknowledging import Acknowledgement, Acknowledging, Change, released_state
from minibroker.coordinator.share_partition.acquiring import Acquired, AcquireLimits, AcquireRequest, Acquisition, Extent
from minibroker.coordinator.share_partition.in_flight import InFlightRecords
from minibroker.coordinator.share_state.records import RecordState, ShareState, StateKey, StateUpdate
from minibroker.errors import KafkaError

Persist = Callable[[StateUpdate], None]  #: appends the change; KafkaError

_INT32_MAX = 2**31 - 1

_LOG = logging.getLogger(__name__)


class SharePartition:
    """Records in flight of one share partition.

    It exists while its group has sessions and its state is not replaced.
    """

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
        """Start from the stored `state`.

        `start_offset` is that of the state, or of share.auto.offset.reset. UnknownServerError.
        """
        self.key = key
        self.records = InFlightRecords.from_states(start_offset, state.batches)
        self._state_epoch = state.state_epoch
        self._leader_epoch = leader_epoch
        self._config = config
        self._persist = persist
        self._clock = clock
        self._timer: Timer | None = None
        self._timer_ms = 0  #: when it expires
        self._seen_ms = clock.now_ms()  #: the time when the clock was last read
        self._subscribers = Subscribers()
        self.is_closed = False

    # Reading

    def can_acquire(self) -> bool:
        """Whether a member can acquire records, if the log has them."""
        records = self.records
        return records.next_fetch_offset() < records.next_offset or records.record_count < self._config().share_partition_max_record_locks

    def acquire(self, fetch_offset: int, extents: Sequence[Extent], request: AcquireRequest) -> list[Acquired]:
        """Acquire offsets of batches that were read at `fetch_offset`."""
        config = self._config()
        limits = AcquireLimits(config.share_delivery_count_limit, config.share_partition_max_record_locks)
        expires_ms = self._now_ms() + config.share_record_lock_duration_ms
        acquired = Acquisition(self.records, extents, request, limits, lock_expires_ms=expires_ms).take(fetch_offset)
        if acquired:
            self._watch_locks(expires_ms)
        return acquired

    def archive_aborted(self, extents: Sequence[Extent]) -> None:
        """Archive offsets that were just acquired but belong to aborted transactions."""
        for each in extents:
            self.records.archive(each.first_offset, each.last_offset, RecordState.ACQUIRED)
        if self.records.advance():
            self.wake()

    def begin_at(self, log_start_offset: int) -> None:
        """Move the start offset to the start of the log."""
        if log_start_offset > self.records.start_offset:
            self.records.begin_at(log_start_offset)
            self.wake()

    # Acknowledgements

    def acknowledge(self, member_id: str, acknowledgements: Sequence[Acknowledgement]) -> None:
        """Apply all acknowledgements or none: InvalidRecordState, InvalidRequest, and the errors of `persist`."""
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
        """Release the records of a member whose session ended. Raises the errors of `persist`."""
        limit = self._config().share_delivery_count_limit
        self._change([(run, released_state(run, limit)) for run in self.records.runs() if run.member_id == member_id])
        self.wake()

    # Waiting

    def subscribe(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` when a member may be able to acquire records again.

        Returns a function that unsubscribes. It may be called twice.
        """
        return self._subscribers.subscribe(callback)

    def wake(self) -> None:
        """Call every subscriber."""
        self._subscribers.wake()

    def close(self) -> None:
        """Stop, and wake subscribers, which find it closed."""
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
        """Return the change as Kafka persists it: with the start offset before it."""
        records = self.records
        completed = sum(run.record_count for run, state in changes if state.is_terminal)
        return StateUpdate(
            state_epoch=self._state_epoch,
            leader_epoch=self._leader_epoch,
            start_offset=records.start_offset,
            delivery_complete_count=min(records.delivery_complete_count + completed, _INT32_MAX),  # stored states may have any offsets
            batches=[run.as_state(state) for run, state in changes],
        )

    def _apply(self, changes: Sequence[Change]) -> None:
        for run, state in changes:
            self.records.release(run, state)
        self.records.advance()

    # Locks

    def _now_ms(self) -> int:
        """Return the time.

        If the clock was set back, move the locks back as well, because they would last longer.
        """
        now_ms = self._clock.now_ms()
        if now_ms < self._seen_ms:
            self._timer_ms -= self._seen_ms - now_ms
            for run in self.records.runs():
                if run.state is RecordState.ACQUIRED:
                    run.lock_expires_ms -= self._seen_ms - now_ms
        self._seen_ms = now_ms
        return now_ms

    def _watch_locks(self, expires_ms: int) -> None:
        """Check the locks again when the first one expires. One timer serves all."""
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
                _LOG.warning("%s: could not persist expired acquisition locks: %s", self.key.coordinator_key, error)
            self._apply(changes)
        left = [run.lock_expires_ms for run in self.records.runs() if run.state is RecordState.ACQUIRED]
        if left:
            self._watch_locks(min(left))
        if changes:
            self.wake()
