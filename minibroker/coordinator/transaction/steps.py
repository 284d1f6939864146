"""State changes of a transactional id: the record is written, synced if flush.messages requires it, and then becomes the state.

Prepare* is followed by the markers (marking.py), and those by Complete*:

    record of Prepare*, its sync -> markers, their syncs -> record of Complete* -> done
                                           |--a partition is offline--> done; the markers, and Complete*, when it is online again

With minibroker.like.kafka the answer is sent when Prepare* is synced, as by Apache Kafka, and readers
see the end a little later.

Invariants
  - if a record cannot be written, the state does not change, and the error is the answer
  - no marker is written before Prepare* is synced as configured, and no Complete* before the
    markers are
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from minibroker.clock import Clock, Timer
from minibroker.cluster.cluster import Cluster
from minibroker.coordinator.transaction import states
from minibroker.coordinator.transaction.marking import RETRY_MS, Marking, Sync
from minibroker.coordinator.transaction.records import TransactionMetadata
from minibroker.coordinator.transaction.store import StatePartition
from minibroker.errors import KafkaError, NotCoordinator
from minibroker.log.partition_log import PartitionLog

MARKERS_AFTER_MS: Final = 10  #: with minibroker.like.kafka; Apache Kafka needs 3 to 30 ms from its answer to its last marker


class Steps:
    """The pending steps, and the ends of transactions that are not complete."""

    def __init__(self, cluster: Cluster, clock: Clock, sync: Sync) -> None:
        self._cluster = cluster
        self._ends_later = cluster.config.minibroker_like_kafka  #: the answer does not wait for the markers
        self._clock = clock
        self._sync = sync
        self._markings: dict[str, Marking] = {}  #: by transactional id
        self._retries: dict[str, Timer] = {}  #: of Complete*, by transactional id
        self._is_stopped = False

    def take(self, stored: StatePartition, after: TransactionMetadata, done: Callable[[KafkaError | None], None]) -> None:
        """Persist `after`, and end the transaction if `after` is a Prepare* state.

        `done` receives None, or the error if nothing has changed.
        """
        try:
            log = self._write(stored, after)
        except KafkaError as error:
            done(error)
            return
        if log.wants_sync:
            self._sync([log], lambda failures: self._synced(stored, after, done, failed=log in failures))
        else:
            self._synced(stored, after, done, failed=False)

    def take_now(self, stored: StatePartition, after: TransactionMetadata) -> PartitionLog:
        """Persist `after`, which becomes the state immediately.

        Return the log that has it; NotCoordinator, ConcurrentTransactions.
        """
        log = self._write(stored, after)
        stored.transactions.apply(after.transactional_id)
        return log

    def finish(
        self,
        stored: StatePartition,
        prepared: TransactionMetadata,
        done: Callable[[], None],
        *,
        is_resumed: bool = False,
        delay_ms: int = 0,
    ) -> None:
        """Write the markers and Complete*, after `delay_ms`.

        `done` is called once: at the end, or as soon as a partition has to wait.
        """
        waiting = [done]

        def on_progress(is_done: bool) -> None:
            if is_done:
                self._markings.pop(prepared.transactional_id, None)
                self._complete(stored, prepared)
            while waiting:
                waiting.pop()()

        marking = self._markings[prepared.transactional_id] = Marking(
            prepared,
            coordinator_epoch=stored.coordinator_epoch,
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
        """Whether markers of the id, or Complete*, are not written yet."""
        return transactional_id in self._markings or transactional_id in self._retries

    def stop(self) -> None:
        """Stop writing. The results of pending syncs are ignored."""
        self._is_stopped = True
        self.forget()

    def forget(self) -> None:
        """Drop all ids because the topic is gone.

        Clients that wait for an end get the decided outcome.
        """
        markings, self._markings = self._markings, {}
        for timer in self._retries.values():
            timer.cancel()
        self._retries.clear()
        for marking in markings.values():
            marking.stop()

    def _write(self, stored: StatePartition, after: TransactionMetadata) -> PartitionLog:
        stored.transactions.prepare(after)
        try:
            return stored.append(after, now_ms=self._clock.now_ms(), transaction_version=self._cluster.transaction_version)
        except KafkaError:
            stored.transactions.give_up(after.transactional_id)
            raise

    def _synced(
        self, stored: StatePartition, after: TransactionMetadata, done: Callable[[KafkaError | None], None], *, failed: bool
    ) -> None:
        if failed or self._is_stopped:
            stored.transactions.give_up(after.transactional_id)
            done(NotCoordinator())
            return
        stored.transactions.apply(after.transactional_id)
        if after.state.is_prepared and self._ends_later:
            self.finish(stored, after, lambda: None, delay_ms=MARKERS_AFTER_MS)
            done(None)
        elif after.state.is_prepared:
            self.finish(stored, after, lambda: done(None))
        else:
            done(None)

    def _complete(self, stored: StatePartition, prepared: TransactionMetadata) -> None:
        """Write Complete* without a sync, or not at all if the log is offline.

        A start that finds Prepare* instead also finds the markers. If flush.messages requires a
        sync, the flush timer does it within a second, and readers see the record then. A sync for
        this record alone would delay the syncs of other requests.
        """
        self._retries.pop(prepared.transactional_id, None)
        if not stored.is_online:
            return
        try:
            self.take_now(stored, states.complete(prepared, now_ms=self._clock.now_ms()))
        except KafkaError:
            retry = self._clock.call_later_ms(RETRY_MS, lambda: self._complete(stored, prepared))
            self._retries[prepared.transactional_id] = retry
