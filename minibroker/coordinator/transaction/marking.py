"""The markers of a transaction, written to each of its partitions, some in each turn of the loop; and the end of orphans.

    partition       effect
    deleted         is skipped
    offline         is tried again every second, while the others get their markers; the same if a disk fails
    ended already   by an operator's WriteTxnMarkers with a higher epoch: is skipped, with a warning

If flush.messages requires it, the log is synced before its marker counts as written. If a test
holds a high watermark back, the marker counts when the high watermark has passed it, as in Kafka
when followers have it. Until then the transaction is not complete, and the next one of its producer
waits.

Orphans are open transactions in logs that no transactional id knows of, because a power loss took
the coordinator's record. No client would ever end them, and read_committed readers would wait
forever. A start ends them:

    the id ended it by KIP-890's protocol (its epoch shows that it was this transaction)     with the same outcome
    anything else                                                                             abort, with the next epoch

The next epoch fences a producer that is still alive in that partition. Otherwise it could commit
the rest of a transaction whose start is lost. Kafka leaves such transactions open, for an operator
and `kafka-transactions.sh find-hanging` (KIP-664).

Source: TransactionMarkerChannelManager, TransactionMarkerRequestCompletionHandler of Apache Kafka
4.3.1.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from minibroker.clock import Clock, Timer
from minibroker.cluster.cluster import Cluster
from minibroker.cluster.partition import Partition
from minibroker.coordinator.transaction.records import (
    EPOCH_BUMP_VERSION,
    MAX_EPOCH,
    ProducerIdAndEpoch,
    TopicPartition,
    TransactionMetadata,
    TransactionState,
)
from minibroker.coordinator.transaction.states import is_repeated_end
from minibroker.errors import InvalidProducerEpoch, KafkaError, TransactionCoordinatorFenced, UnknownTopicOrPartition
from minibroker.log.partition_log import PartitionLog
from minibroker.log.producer_state import OpenTransaction
from minibroker.records.control import ControlType, EndTransactionMarker

MARKERS_A_TURN: Final = 40  #: 40 us each, 100 us if the partition has no other records yet
RETRY_MS: Final = 1000

Sync = Callable[[Iterable[PartitionLog], Callable[[Mapping[PartitionLog, KafkaError]], None]], None]

_LOG = logging.getLogger(__name__)


def end_in(partition: Partition, ids: ProducerIdAndEpoch, marker: EndTransactionMarker, *, transaction_version: int) -> None:
    """Write a marker into a partition.

    Raises InvalidProducerEpoch, UnknownTopicOrPartition, KafkaStorageError.

    No other node can be the coordinator. If the partition has seen a later coordinator epoch (of a
    deleted `__transaction_state`, or from an operator's WriteTxnMarkers), the marker gets that
    epoch.
    """
    try:
        _end_in(partition, ids, marker, transaction_version)
    except TransactionCoordinatorFenced:
        seen = partition.log.producers.coordinator_epoch_of(ids.producer_id)
        _end_in(partition, ids, marker._replace(coordinator_epoch=seen), transaction_version)


def _end_in(partition: Partition, ids: ProducerIdAndEpoch, marker: EndTransactionMarker, transaction_version: int) -> None:
    partition.end_transaction(
        marker, producer_id=ids.producer_id, producer_epoch=ids.producer_epoch, transaction_version=transaction_version
    )


class Marking:
    """The markers of one decided transaction. Call `start` once.

    `on_progress(is_done)` is called after each round: with True when all partitions have their
    marker; with False if some have to wait, some markers are not visible yet, or it was stopped.
    """

    def __init__(
        self,
        metadata: TransactionMetadata,
        *,
        coordinator_epoch: int,
        cluster: Cluster,
        clock: Clock,
        sync: Sync,
        on_progress: Callable[[bool], None],
        is_resumed: bool = False,
    ) -> None:
        self._metadata = metadata
        self._marker = EndTransactionMarker(
            ControlType.COMMIT if metadata.state is TransactionState.PREPARE_COMMIT else ControlType.ABORT, coordinator_epoch
        )
        self._cluster = cluster
        self._clock = clock
        self._sync = sync
        self._on_progress = on_progress
        self._is_resumed = is_resumed  #: decided before the start of the broker: partitions may have their marker already
        self._due = sorted(metadata.partitions, reverse=True)  #: of this round, in reverse order
        self._held_up: list[TopicPartition] = []  #: for the next round
        self._unsynced: dict[PartitionLog, TopicPartition] = {}
        self._unshown: list[tuple[Partition, PartitionLog, int]] = []  #: markers that are not visible yet, with the offsets after them
        self._unsubscribe: list[Callable[[], None]] = []  #: ends the subscriptions to their partitions
        self._timer: Timer | None = None
        self._is_stopped = False
        self._log_level = logging.WARNING  #: warn once, not every second

    def start(self) -> None:
        """Write as many markers as fit into this turn."""
        self._timer = None
        for _ in range(MARKERS_A_TURN):
            if not self._due:
                self._settle()
                return
            self._mark(self._due.pop())
        self._timer = self._clock.call_later_ms(0, self.start)

    def stop(self) -> None:
        """Stop. The next start continues."""
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()
        self._stop_watching()
        self._on_progress(False)

    def _mark(self, topic_partition: TopicPartition) -> None:
        metadata = self._metadata
        try:
            partition = self._cluster.partition(*topic_partition)
            if self._is_resumed and partition.log.producers.first_open_offset(metadata.producer_id) is None:
                return
            end_in(partition, metadata.ids, self._marker, transaction_version=metadata.client_transaction_version)
            self._note(partition, topic_partition)
        except UnknownTopicOrPartition:
            return
        except InvalidProducerEpoch as error:
            _LOG.warning(
                "%s-%d: an operator ended the transaction of transactional id %s: %s", *topic_partition, metadata.transactional_id, error
            )
        except KafkaError as error:
            _LOG.log(
                self._log_level,
                "%s-%d: the transaction of transactional id %s cannot end yet: %s",
                *topic_partition,
                metadata.transactional_id,
                error,
            )
            self._held_up.append(topic_partition)

    def _note(self, partition: Partition, topic_partition: TopicPartition) -> None:
        log = partition.log
        if log.high_watermark < log.log_end_offset:
            self._unshown.append((partition, log, log.log_end_offset))
        if log.wants_sync:
            self._unsynced[log] = topic_partition

    def _settle(self) -> None:
        """End a round after its syncs."""
        unsynced, self._unsynced = self._unsynced, {}
        if unsynced:
            self._sync(unsynced, lambda failures: self._synced(unsynced, failures))
        else:
            self._end_round()

    def _synced(self, unsynced: Mapping[PartitionLog, TopicPartition], failures: Mapping[PartitionLog, KafkaError]) -> None:
        self._held_up += [unsynced[log] for log in failures if log in unsynced]
        self._end_round()

    def _end_round(self) -> None:
        if self._is_stopped:
            return
        self._log_level = logging.DEBUG
        if self._held_up:
            self._due, self._held_up = self._held_up, []
            self._timer = self._clock.call_later_ms(RETRY_MS, self.start)
            self._on_progress(False)
        elif self._is_unshown():
            self._unsubscribe = [partition.subscribe(self._moved) for partition, _, _ in self._unshown]
            self._on_progress(False)
        else:
            self._on_progress(True)

    def _is_unshown(self) -> bool:
        """Whether a marker is not visible yet.

        A log that was closed in between shows all markers when it is opened.
        """
        return any(partition.online_log is log and log.high_watermark < end_offset for partition, log, end_offset in self._unshown)

    def _moved(self) -> None:
        if not self._is_unshown():
            self._stop_watching()
            self._timer = self._clock.call_later_ms(0, self._end_round)

    def _stop_watching(self) -> None:
        for unsubscribe in self._unsubscribe:
            unsubscribe()
        self._unsubscribe = []


_COORDINATOR_EPOCH: Final = 0  #: no coordinator has this epoch; a later epoch that the partition has seen replaces it

_LOG = logging.getLogger(__name__)


class Orphan(NamedTuple):
    """An orphan, and the marker to end it."""

    partition: Partition
    first_offset: int
    ids: ProducerIdAndEpoch  #: of the marker
    commit: bool
    transaction_version: int

    def end(self) -> None:
        """Write the marker, if that transaction is still open."""
        log = self.partition.online_log
        if log is None or log.producers.first_open_offset(self.ids.producer_id) != self.first_offset:
            return
        outcome = "committed" if self.commit else "aborted"
        _LOG.warning(
            "%s: a transaction of producer id %d, open from offset %d on and unknown to all transactional ids, is %s",
            log.name,
            self.ids.producer_id,
            self.first_offset,
            outcome,
        )
        marker = EndTransactionMarker(ControlType.COMMIT if self.commit else ControlType.ABORT, _COORDINATOR_EPOCH)
        try:
            end_in(self.partition, self.ids, marker, transaction_version=self.transaction_version)
        except KafkaError as error:
            _LOG.warning("%s: this transaction stays open until the next start: %s", log.name, error)


def find_orphans(partitions: Iterable[Partition], known: Iterable[TransactionMetadata]) -> Iterator[Orphan]:
    """Find orphans in the logs that are online. `known` must have every transactional id."""
    by_producer_id: dict[int, TransactionMetadata] = {}
    for metadata in known:
        by_producer_id[metadata.producer_id] = metadata
        by_producer_id.setdefault(metadata.previous_producer_id, metadata)
    for partition in partitions:
        if partition.online_log is not None:
            for found in partition.online_log.producers.list_open_transactions():
                owner = by_producer_id.get(found.producer_id)
                if owner is None or not _is_known(owner, partition, found):
                    yield _orphan(owner, partition, found)


def _is_known(owner: TransactionMetadata, partition: Partition, found: OpenTransaction) -> bool:
    """Whether the owner ends the transaction later, or is ending it now."""
    is_of_this_epoch = owner.producer_id == found.producer_id and found.producer_epoch <= owner.producer_epoch
    return is_of_this_epoch and (partition.topic, partition.index) in owner.partitions


def _orphan(owner: TransactionMetadata | None, partition: Partition, found: OpenTransaction) -> Orphan:
    ids = ProducerIdAndEpoch(found.producer_id, found.producer_epoch)
    commit = owner is not None and owner.state is TransactionState.COMPLETE_COMMIT and is_repeated_end(owner, ids)
    if found.producer_epoch == MAX_EPOCH:
        return Orphan(partition, found.first_offset, ids, commit, 0)
    fencing = ids._replace(producer_epoch=found.producer_epoch + 1)
    return Orphan(partition, found.first_offset, fencing, commit, EPOCH_BUMP_VERSION)
