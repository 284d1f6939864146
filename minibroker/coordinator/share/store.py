"""`__share_group_state`: where the states of share partitions live, each in the partition that the hash of its key says.

A partition of the topic is read when it is first asked for, and kept in memory from then on:

    unread --asked for--> loading --its records are read--> loaded            COORDINATOR_LOAD_IN_PROGRESS until then, which brokers retry
                             |--its log is offline, or damaged--> unusable: NOT_COORDINATOR until the next start

A small log is loaded by the request that asks for it, a large one over many turns of the loop. States of topics that are gone are deleted
when the load is done, and from then on with their topic.

Invariant: what a shard says is in its log. Records are appended first, and replayed into the shard by the code that loads them.

Source: CoordinatorRuntime, CoordinatorLoaderImpl, ShareCoordinatorService of Apache Kafka 4.3.1.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import Final
from uuid import UUID

from minibroker.clock import Clock
from minibroker.cluster.cluster import Cluster
from minibroker.cluster.partition import Partition
from minibroker.cluster.topic import SHARE_GROUP_STATE_TOPIC, Topic
from minibroker.config.broker_config import BrokerConfig
from minibroker.coordinator.record_frame import SHARE_GROUP_STATE, CoordinatorRecord
from minibroker.coordinator.share.states import States
from minibroker.errors import (
    CoordinatorLoadInProgress,
    CorruptMessage,
    KafkaError,
    KafkaStorageError,
    MessageTooLarge,
    NotCoordinator,
    RecordListTooLarge,
    UnknownServerError,
    WireError,
)
from minibroker.log.partition_log import PartitionLog
from minibroker.records.batch import RecordBatch, split_batches
from minibroker.records.builder import build_batch
from minibroker.records.record import Record, decode_records

READ_BYTES: Final = 64 * 1024  #: at one time, and in one turn
READS_AT_ONCE: Final = 4  #: by the request that asks first
RECORDS_A_BATCH: Final = 1_000

_END: Final = object()

_LOG = logging.getLogger(__name__)


class StoredStates:
    """One partition of the topic. Written by StateStore."""

    __slots__ = ("is_broken", "loading", "partition", "states")

    def __init__(self, partition: Partition, states: States) -> None:
        self.partition = partition
        self.states = states
        self.loading: Iterator[None] | None = None
        self.is_broken = False

    @property
    def is_usable(self) -> bool:
        """Whether its states are known, and can be written."""
        return self.loading is None and not self.is_broken and self.partition.online_log is not None

    def check(self) -> None:
        """Refuse where the states are not known: CoordinatorLoadInProgress, NotCoordinator."""
        if self.is_broken or self.partition.online_log is None:
            raise NotCoordinator
        if self.loading is not None:
            raise CoordinatorLoadInProgress

    def append(self, records: Sequence[CoordinatorRecord], now_ms: int) -> PartitionLog | None:
        """Append `records` and replay them; the log, if it must be synced before anybody is told. NotCoordinator, UnknownServerError."""
        unsynced = None
        for first in range(0, len(records), RECORDS_A_BATCH):
            unsynced = self._append(records[first : first + RECORDS_A_BATCH], now_ms)
        return unsynced

    def first_needed_offset(self) -> int:
        """Of the log: what lies below is said again further on."""
        needed = self.states.first_needed_offset()
        return self.partition.log.log_end_offset if needed is None else needed

    def _append(self, records: Sequence[CoordinatorRecord], now_ms: int) -> PartitionLog | None:
        try:
            log = self.partition.log
            data = _batch_of(records, now_ms)
            _check_size(data, log)
            base_offset = self.partition.append_own(data).base_offset
        except KafkaStorageError as error:
            raise NotCoordinator from error
        except (MessageTooLarge, RecordListTooLarge) as error:
            _LOG.warning("%s-%d: %s", SHARE_GROUP_STATE_TOPIC, self.partition.index, error)
            raise UnknownServerError from error
        for index, record in enumerate(records):
            self.states.replay(record, base_offset + index)
        return log if log.wants_sync else None


class StateStore:
    """All partitions of the topic, as long as it is the same topic."""

    def __init__(self, cluster: Cluster, config: BrokerConfig, clock: Clock) -> None:
        self._cluster = cluster
        self._config = config
        self._clock = clock
        self._topic: Topic | None = None  #: whose partitions these are
        self._stored: dict[int, StoredStates] = {}  #: by index of the partition, once asked for
        self._is_stopped = False

    def stop(self) -> None:
        """Load no further."""
        self._is_stopped = True

    def ensure_topic(self) -> None:
        """Create the topic if there is none, as Apache Kafka configures it; KafkaError."""
        if SHARE_GROUP_STATE_TOPIC not in self._cluster.topics:
            self._cluster.create_topic(
                SHARE_GROUP_STATE_TOPIC,
                partition_count=self._config.share_coordinator_state_topic_num_partitions,
                configs={
                    "cleanup.policy": "delete",
                    "compression.type": "producer",
                    "min.insync.replicas": str(self._config.share_coordinator_state_topic_min_isr),
                    "retention.ms": "-1",
                    "segment.bytes": str(self._config.share_coordinator_state_topic_segment_bytes),
                },
            )

    @property
    def partition_count(self) -> int:
        """Of the topic, as it is or will be."""
        topic = self._cluster.topics.get(SHARE_GROUP_STATE_TOPIC)
        return self._config.share_coordinator_state_topic_num_partitions if topic is None else len(topic.partitions)

    def usable(self) -> list[StoredStates]:
        """Those whose states are known."""
        self._follow_topic()
        return [each for each in self._stored.values() if each.is_usable]

    def at(self, index: int) -> StoredStates:
        """One partition, loaded; CoordinatorLoadInProgress, NotCoordinator."""
        topic = self._follow_topic()
        if topic is None:
            raise NotCoordinator
        found = self._stored.get(index)
        if found is None:
            found = StoredStates(topic.partitions[index], States(self.exists, self._updates_per_snapshot))
            self._stored[index] = found
            found.loading = self._load(found)
            self._turn(found, READS_AT_ONCE)
        found.check()
        return found

    def exists(self, topic_id: UUID, partition: int) -> bool:
        """Whether there is such a partition."""
        try:
            self._cluster.partition_by_id(topic_id, partition)
        except KafkaError:
            return False
        return True

    def _updates_per_snapshot(self) -> int:
        return self._config.share_coordinator_snapshot_update_records_per_snapshot

    def _follow_topic(self) -> Topic | None:
        topic = self._cluster.topics.get(SHARE_GROUP_STATE_TOPIC)
        if topic is not self._topic:
            self._topic = topic
            self._stored = {}
        return topic

    def _turn(self, stored: StoredStates, reads: int) -> None:
        loading = stored.loading
        if loading is None or self._is_stopped or self._stored.get(stored.partition.index) is not stored:
            return
        for _ in range(reads):
            if next(loading, _END) is _END:
                stored.loading = None
                return
        self._clock.call_later_ms(0, lambda: self._turn(stored, 1))

    def _load(self, stored: StoredStates) -> Iterator[None]:
        """Every step is one read."""
        try:
            for batches in _read(stored.partition):
                for batch in batches:
                    _replay(stored.states, batch)
                yield
        except (KafkaError, WireError) as error:
            index = stored.partition.index
            _LOG.error("%s-%d cannot be read, its share partitions are not served: %s", SHARE_GROUP_STATE_TOPIC, index, error)
            stored.is_broken = True
            return
        self.delete_orphans(stored)

    def delete_orphans(self, stored: StoredStates) -> None:
        """Delete states of topics that are gone."""
        try:
            stored.append(list(stored.states.orphans()), self._clock.now_ms())
        except KafkaError as error:
            _LOG.warning("%s-%d: states of deleted topics stay: %s", SHARE_GROUP_STATE_TOPIC, stored.partition.index, error)


def _batch_of(records: Sequence[CoordinatorRecord], timestamp_ms: int) -> bytearray:
    """One batch, with base sequence 0 though without a producer, as Apache Kafka's coordinators write it."""
    rows = [
        Record(
            index,
            timestamp_ms,
            SHARE_GROUP_STATE.encode_key(record.key),
            None if record.value is None else SHARE_GROUP_STATE.encode_value(record.key, record.value, record.version),
        )
        for index, record in enumerate(records)
    ]
    return build_batch(rows, base_sequence=0)


def _check_size(data: bytearray, log: PartitionLog) -> None:
    limit = log.config.max_message_bytes
    if len(data) > limit:
        raise MessageTooLarge(f"a batch of {len(data)} bytes, {limit} are allowed")


def _read(partition: Partition) -> Iterator[list[RecordBatch]]:
    """The batches of a log, a piece at a time; KafkaError."""
    offset = partition.log.log_start_offset
    while offset < partition.log.log_end_offset:
        batches = list(split_batches(partition.log.read(offset, READ_BYTES, isolation=None)))
        if not batches:
            return
        yield batches
        offset = batches[-1].next_offset


def _replay(states: States, batch: RecordBatch) -> None:
    """Take one batch of the log; CorruptMessage, InvalidRecord, WireError."""
    if not batch.check_crc():
        raise CorruptMessage(f"the batch at offset {batch.base_offset} is damaged")
    if batch.is_control:
        return
    for record in decode_records(batch):
        decoded = SHARE_GROUP_STATE.decode(record.key, record.value)
        if decoded is not None:
            states.replay(decoded, record.offset)
