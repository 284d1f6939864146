"""Telling the partitions of a transaction how it ended: a marker in each, few in one turn of the loop.

    deleted         drops out of the transaction
    offline         holds it up: tried again every second, while the others have their markers; so does a disk that fails
    ended already   by an operator's WriteTxnMarkers, with a higher epoch: drops out, with a warning

A log that asks for it (flush.messages) is synced before its marker counts. Where a test holds a high watermark back, the marker counts when
it has passed it, as Kafka's does when followers have it: until then the transaction is not complete, and its producer's next one waits.

Source: TransactionMarkerChannelManager, TransactionMarkerRequestCompletionHandler of Apache Kafka 4.3.1.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from minibroker.clock import Clock, Timer
from minibroker.cluster.cluster import Cluster
from minibroker.cluster.partition import Partition
from minibroker.coordinator.transaction.metadata import ProducerIdAndEpoch, TopicPartition, TransactionMetadata, TransactionState
from minibroker.errors import InvalidProducerEpoch, KafkaError, TransactionCoordinatorFenced, UnknownTopicOrPartition
from minibroker.log.partition_log import PartitionLog
from minibroker.records.control import ControlType, EndTransactionMarker

MARKERS_A_TURN: Final = 40  #: some 40 us each, 100 where a partition has nothing else yet
RETRY_MS: Final = 1000

Sync = Callable[[Iterable[PartitionLog], Callable[[Mapping[PartitionLog, KafkaError]], None]], None]

_LOG = logging.getLogger(__name__)


def end_in(partition: Partition, ids: ProducerIdAndEpoch, marker: EndTransactionMarker, *, transaction_version: int) -> None:
    """Write a marker into a partition. Raises InvalidProducerEpoch; UnknownTopicOrPartition, KafkaStorageError.

    No other node can be the coordinator: where the partition has seen a later epoch, of a `__transaction_state` that was deleted or by
    an operator's WriteTxnMarkers, the marker carries that one.
    """
    try:
        _end_in(partition, ids, marker, transaction_version)
    except TransactionCoordinatorFenced:
        seen = partition.log.coordinator_epoch_of(ids.producer_id)
        _end_in(partition, ids, marker._replace(coordinator_epoch=seen), transaction_version)


def _end_in(partition: Partition, ids: ProducerIdAndEpoch, marker: EndTransactionMarker, transaction_version: int) -> None:
    partition.end_transaction(
        marker, producer_id=ids.producer_id, producer_epoch=ids.producer_epoch, transaction_version=transaction_version
    )


class Marking:
    """The markers of one transaction that is decided. `start` once.

    `on_progress(is_done)` is called after each round: with True once, when no partition is left, or with False: some are held up, or
    not shown yet, or it was stopped.
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
        self._is_resumed = is_resumed  #: from before a start: partitions may have their marker
        self._due = sorted(metadata.partitions, reverse=True)  #: of this round, the next one last
        self._held_up: list[TopicPartition] = []  #: until the next round
        self._unsynced: dict[PartitionLog, TopicPartition] = {}
        self._unshown: list[tuple[Partition, PartitionLog, int]] = []  #: markers that nobody sees yet, by what is behind them
        self._unsubscribe: list[Callable[[], None]] = []  #: from their partitions
        self._timer: Timer | None = None
        self._is_stopped = False
        self._log_level = logging.WARNING  #: of what is held up: once, not every second

    def start(self) -> None:
        """Write what fits into this turn."""
        self._timer = None
        for _ in range(MARKERS_A_TURN):
            if not self._due:
                self._settle()
                return
            self._mark(self._due.pop())
        self._timer = self._clock.call_later_ms(0, self.start)

    def stop(self) -> None:
        """Write no more; the next start goes on."""
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()
        self._watch_no_more()
        self._on_progress(False)

    def _mark(self, topic_partition: TopicPartition) -> None:
        metadata = self._metadata
        try:
            partition = self._cluster.partition(*topic_partition)
            if self._is_resumed and partition.log.open_transaction(metadata.producer_id) is None:
                return
            end_in(partition, metadata.ids, self._marker, transaction_version=metadata.client_transaction_version)
            self._note(partition, topic_partition)
        except UnknownTopicOrPartition:
            return
        except InvalidProducerEpoch as error:
            _LOG.warning("%s-%d: transactional id %s was ended by somebody else: %s", *topic_partition, metadata.transactional_id, error)
        except KafkaError as error:
            _LOG.log(
                self._log_level, "%s-%d: the end of transactional id %s has to wait: %s", *topic_partition, metadata.transactional_id, error
            )
            self._held_up.append(topic_partition)

    def _note(self, partition: Partition, topic_partition: TopicPartition) -> None:
        log = partition.log
        if log.high_watermark < log.log_end_offset:
            self._unshown.append((partition, log, log.log_end_offset))
        if log.wants_sync:
            self._unsynced[log] = topic_partition

    def _settle(self) -> None:
        """The end of a round, but for syncs."""
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
        """Whether there is a marker that nobody sees; a log that was closed meanwhile shows all of it when it is opened."""
        return any(partition.online_log is log and log.high_watermark < end_offset for partition, log, end_offset in self._unshown)

    def _moved(self) -> None:
        if not self._is_unshown():
            self._watch_no_more()
            self._timer = self._clock.call_later_ms(0, self._end_round)

    def _watch_no_more(self) -> None:
        for unsubscribe in self._unsubscribe:
            unsubscribe()
        self._unsubscribe = []
