"""Taking a step of a transactional id: its record is written, synced where flush.messages asks for it, and is the state then.

    Prepare* is followed by the markers (marking.py), and those by Complete*:

    With minibroker.like.kafka the answer comes when Prepare* is safe, as from Apache Kafka, and readers see the end a little later.

    record of Prepare*, its sync -> markers, their syncs -> record of Complete* -> done
                                           |--a partition is offline--> done; the markers, and Complete*, when it is back

Invariants
  - a record that cannot be written leaves no trace: the state is what it was, and the error is the answer
  - no marker is written before Prepare* is as safe as asked for, Complete* is not written before the markers are
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from minibroker.clock import Clock, Timer
from minibroker.cluster.cluster import Cluster
from minibroker.coordinator.transaction import states
from minibroker.coordinator.transaction.marking import RETRY_MS, Marking, Sync
from minibroker.coordinator.transaction.metadata import TransactionMetadata
from minibroker.coordinator.transaction.store import StatePartition
from minibroker.errors import KafkaError, NotCoordinator
from minibroker.log.partition_log import PartitionLog

MARKERS_AFTER_MS: Final = 10  #: with minibroker.like.kafka; Apache Kafka needs 3 to 30 ms from its answer to its last marker


class Steps:
    """The steps under way, and the ends of transactions that take their time."""

    def __init__(self, cluster: Cluster, clock: Clock, sync: Sync) -> None:
        self._cluster = cluster
        self._ends_later = cluster.config.minibroker_like_kafka  #: the answer does not wait for the markers
        self._clock = clock
        self._sync = sync
        self._markings: dict[str, Marking] = {}  #: by transactional id
        self._retries: dict[str, Timer] = {}  #: of Complete*, by transactional id
        self._is_stopped = False

    def take(self, kept: StatePartition, after: TransactionMetadata, done: Callable[[KafkaError | None], None]) -> None:
        """Persist `after`, and end the transaction if that is what it says; `done` with None, or the error and nothing happened."""
        try:
            log = self._write(kept, after)
        except KafkaError as error:
            done(error)
            return
        if log.wants_sync:
            self._sync([log], lambda failures: self._synced(kept, after, done, failed=log in failures))
        else:
            self._synced(kept, after, done, failed=False)

    def take_now(self, kept: StatePartition, after: TransactionMetadata) -> PartitionLog:
        """Persist `after`, which counts at once; the log that has it. NotCoordinator, ConcurrentTransactions."""
        log = self._write(kept, after)
        kept.transactions.apply(after.transactional_id)
        return log

    def finish(
        self,
        kept: StatePartition,
        prepared: TransactionMetadata,
        done: Callable[[], None],
        *,
        is_resumed: bool = False,
        delay_ms: int = 0,
    ) -> None:
        """Write the markers and Complete*, after `delay_ms`; `done` is called once, then or as soon as something holds it up."""
        waiting = [done]

        def on_progress(is_done: bool) -> None:
            if is_done:
                self._markings.pop(prepared.transactional_id, None)
                self._complete(kept, prepared)
            while waiting:
                waiting.pop()()

        marking = self._markings[prepared.transactional_id] = Marking(
            prepared,
            coordinator_epoch=kept.coordinator_epoch,
            cluster=self._cluster,
            clock=self._clock,
            sync=self._sync,
            on_progress=on_progress,
            is_resumed=is_resumed,
        )
        if not delay_ms:
            marking.start()
            return

        def start() -> None:
            if self._markings.get(prepared.transactional_id) is marking:
                marking.start()

        self._clock.call_later_ms(delay_ms, start)

    def is_ending(self, transactional_id: str) -> bool:
        """Whether markers of the id, or Complete*, are still to be written here."""
        return transactional_id in self._markings or transactional_id in self._retries

    def stop(self) -> None:
        """Nothing more is written; what a sync brings back now is of no use to anybody."""
        self._is_stopped = True
        self.forget()

    def forget(self) -> None:
        """The topic is gone, and the ids with it; who waits for an end is told that it was decided."""
        markings, self._markings = self._markings, {}
        for timer in self._retries.values():
            timer.cancel()
        self._retries.clear()
        for marking in markings.values():
            marking.stop()

    def _write(self, kept: StatePartition, after: TransactionMetadata) -> PartitionLog:
        kept.transactions.prepare(after)
        try:
            return kept.append(after, now_ms=self._clock.now_ms(), transaction_version=self._cluster.transaction_version)
        except KafkaError:
            kept.transactions.give_up(after.transactional_id)
            raise

    def _synced(self, kept: StatePartition, after: TransactionMetadata, done: Callable[[KafkaError | None], None], *, failed: bool) -> None:
        if failed or self._is_stopped:
            kept.transactions.give_up(after.transactional_id)
            done(NotCoordinator())
            return
        kept.transactions.apply(after.transactional_id)
        if after.state.is_prepared and self._ends_later:
            self.finish(kept, after, lambda: None, delay_ms=MARKERS_AFTER_MS)
            done(None)
        elif after.state.is_prepared:
            self.finish(kept, after, lambda: done(None))
        else:
            done(None)

    def _complete(self, kept: StatePartition, prepared: TransactionMetadata) -> None:
        """Not synced here: a start that finds Prepare* in its place finds the markers, too; so it does where the log is offline.

        Where flush.messages asks for it the flush timer does so within a second (dispatch/flush_timer.py), and readers see it then: an
        fsync for this record alone would keep those waiting who need theirs.
        """
        self._retries.pop(prepared.transactional_id, None)
        if not kept.is_online:
            return
        try:
            self.take_now(kept, states.complete(prepared, now_ms=self._clock.now_ms()))
        except KafkaError:
            retry = self._clock.call_later_ms(RETRY_MS, lambda: self._complete(kept, prepared))
            self._retries[prepared.transactional_id] = retry
