"""`__consumer_offsets`: where groups live, each in the partition that the hash of its id says.

A partition of the topic is read when the first group of it is asked for, and kept in memory from then on:

    unread --asked for--> loading --its last record is read--> loaded       COORDINATOR_LOAD_IN_PROGRESS while loading: clients retry
       |                     |--its log is damaged--> broken                NOT_COORDINATOR
       '---- any of them, when its log goes offline or the topic is another one: forgotten, NOT_COORDINATOR until the next start

A small log is loaded by the request that asks for it, a large one over many turns of the loop. Offsets of topics that were deleted
meanwhile, or when the broker last died, are deleted when the load is done.

Invariant: what a shard says is in its log. Records are appended first, and replayed into the shard by the code that loads them.

Source: CoordinatorRuntime, CoordinatorLoaderImpl of Apache Kafka 4.3.1.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Final
from uuid import UUID

from minibroker.clock import Clock
from minibroker.cluster.cluster import Cluster
from minibroker.cluster.partition import Partition
from minibroker.cluster.topic import CONSUMER_OFFSETS_TOPIC, Topic
from minibroker.config.broker_config import BrokerConfig
from minibroker.coordinator.group.kinds import LiveGroup
from minibroker.coordinator.group.offsets import NO_PRODUCER_ID
from minibroker.coordinator.group.records import batch_of, offset_tombstone
from minibroker.coordinator.group.shard import Shard
from minibroker.coordinator.record_frame import CONSUMER_OFFSETS, CoordinatorRecord
from minibroker.coordinator.transaction.metadata import NO_IDS, ProducerIdAndEpoch
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
from minibroker.records.control import ControlType, EndTransactionMarker, parse_control_key
from minibroker.records.record import decode_records
from minibroker.wire.schema import NIL_UUID

READ_BYTES: Final = 64 * 1024  #: at one time, and in one turn: some 800 committed offsets, 20 ms
READS_AT_ONCE: Final = 4  #: by the request that asks first
RECORDS_A_BATCH: Final = 1_000  #: of those that need not be in one

_ENDS: Final = frozenset({ControlType.COMMIT, ControlType.ABORT})
_END: Final = object()

_LOG = logging.getLogger(__name__)


class StoredShard:
    """One partition of the topic. Written by GroupStore, but for `live`."""

    __slots__ = ("is_broken", "live", "loading", "partition", "shard")

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.shard = Shard()
        self.live: dict[str, LiveGroup] = {}  #: machines of groups; written by LiveGroups
        self.loading: Iterator[None] | None = None
        self.is_broken = False

    @property
    def is_usable(self) -> bool:
        """Whether its groups are known, and can be written."""
        return self.loading is None and not self.is_broken and self.partition.online_log is not None

    def check(self) -> None:
        """Refuse where the groups are not known: CoordinatorLoadInProgress, NotCoordinator."""
        if self.is_broken or self.partition.online_log is None:
            raise NotCoordinator
        if self.loading is not None:
            raise CoordinatorLoadInProgress

    def append(self, records: Sequence[CoordinatorRecord], now_ms: int, ids: ProducerIdAndEpoch = NO_IDS) -> PartitionLog | None:
        """Append one batch of `records` and replay them; the log, if it must be synced before anybody is told.

        Raises what PartitionLog.append_own raises, in the words of a coordinator: NotCoordinator, UnknownServerError for too many.
        """
        return self._append(records, batch_of(records, now_ms, ids), ids)

    def append_all(self, records: Sequence[CoordinatorRecord], now_ms: int) -> PartitionLog | None:
        """Append records that need not be in one batch: tombstones."""
        unsynced = None
        limit = self.partition.log.config.max_message_bytes
        while records:
            count = min(len(records), RECORDS_A_BATCH)
            data = batch_of(records[:count], now_ms)
            while count > 1 and len(data) > limit:
                count //= 2
                data = batch_of(records[:count], now_ms)
            unsynced = self._append(records[:count], data, NO_IDS)
            records = records[count:]
        return unsynced

    def _append(self, records: Sequence[CoordinatorRecord], data: bytearray, ids: ProducerIdAndEpoch) -> PartitionLog | None:
        try:
            log = self.partition.log
            _check_size(data, log)
            base_offset = self.partition.append_own(data).base_offset
        except KafkaStorageError as error:
            raise NotCoordinator from error
        except (MessageTooLarge, RecordListTooLarge) as error:
            _LOG.warning("%s-%d: %s", CONSUMER_OFFSETS_TOPIC, self.partition.index, error)
            raise UnknownServerError from error  # Kafka's answer, too
        for index, record in enumerate(records):
            self.shard.replay(record, base_offset + index, ids.producer_id)
        return log if log.wants_sync else None


class GroupStore:
    """All partitions of the topic, as long as it is the same topic."""

    def __init__(self, cluster: Cluster, config: BrokerConfig, clock: Clock, *, on_loaded: Callable[[StoredShard], Iterator[None]]) -> None:
        self._cluster = cluster
        self._config = config
        self._clock = clock
        self._on_loaded = on_loaded
        self._topic: Topic | None = None  #: whose partitions these are
        self._shards: dict[int, StoredShard] = {}  #: by index of the partition, once asked for
        self._deleted_topics: set[str] = set()  #: what a log that is read from now on has of them is older than their deletion
        self._just_deleted: set[str] = set()  #: whose offsets are still to be deleted where the log was read before
        self._is_stopped = False

    def stop(self) -> None:
        """Finish what was begun, and load no further."""
        self._finish_deletions()
        self._is_stopped = True

    def ensure_topic(self) -> None:
        """Create the topic if there is none, as Apache Kafka configures it; KafkaError."""
        if CONSUMER_OFFSETS_TOPIC not in self._cluster.topics:
            self._cluster.create_topic(
                CONSUMER_OFFSETS_TOPIC,
                partition_count=self._config.offsets_topic_num_partitions,
                configs={
                    "cleanup.policy": "compact",
                    "compression.type": "producer",
                    "segment.bytes": str(self._config.offsets_topic_segment_bytes),
                },
            )

    @property
    def partition_count(self) -> int:
        """Of the topic, as it is or will be."""
        topic = self._cluster.topics.get(CONSUMER_OFFSETS_TOPIC)
        return self._config.offsets_topic_num_partitions if topic is None else len(topic.partitions)

    @property
    def loaded(self) -> list[StoredShard]:
        """Those that were read, whatever became of them."""
        return list(self._shards.values())

    def shard(self, index: int) -> StoredShard:
        """One partition, loaded; CoordinatorLoadInProgress, NotCoordinator."""
        topic = self._follow_topic()
        if topic is None:
            raise NotCoordinator
        if self._just_deleted:
            self._finish_deletions()
        found = self._shards.get(index)
        if found is None:
            found = self._shards[index] = StoredShard(topic.partitions[index])
            found.loading = self._load(found)
            self._turn(found, READS_AT_ONCE)
        found.check()
        return found

    def delete_topic(self, name: str) -> None:
        """Delete the offsets of a topic that is gone: once for all topics of this turn, and before anybody asks."""
        if not self._just_deleted:
            self._clock.call_later_ms(0, self._finish_deletions)
        self._just_deleted.add(name)
        self._deleted_topics.add(name)

    def _finish_deletions(self) -> None:
        gone, self._just_deleted = self._just_deleted, set()
        if not gone or self._follow_topic() is None:
            return
        for each in self._shards.values():
            if each.is_usable:
                self._delete_offsets(each, lambda topic, _: topic in gone)

    def _follow_topic(self) -> Topic | None:
        topic = self._cluster.topics.get(CONSUMER_OFFSETS_TOPIC)
        if topic is not self._topic:
            self._topic = topic
            self._shards = {}
        return topic

    def _turn(self, stored: StoredShard, reads: int) -> None:
        loading = stored.loading
        if loading is None or self._is_stopped or self._shards.get(stored.partition.index) is not stored:
            return
        for _ in range(reads):
            if next(loading, _END) is _END:
                stored.loading = None
                return
        self._clock.call_later_ms(0, lambda: self._turn(stored, 1))

    def _load(self, stored: StoredShard) -> Iterator[None]:
        """Every step is one read, or as long as one."""
        partition = stored.partition
        try:
            for batches in _read(partition):
                for batch in batches:
                    _replay(stored.shard, batch)
                yield
        except (KafkaError, WireError) as error:
            _LOG.error("%s-%d cannot be read, its groups are not served: %s", CONSUMER_OFFSETS_TOPIC, partition.index, error)
            stored.is_broken = True
            return
        partition.on_transaction_end = lambda producer_id, _, is_commit: stored.shard.end_transaction(producer_id, is_commit=is_commit)
        self._delete_offsets(stored, self._is_gone)
        yield from self._on_loaded(stored)

    def _is_gone(self, topic: str, topic_id: UUID) -> bool:
        """Whether offsets of that topic, found in a log that was just read, are of one that was deleted."""
        found = self._cluster.topics.get(topic)
        return found is None or topic in self._deleted_topics or topic_id not in {found.topic_id, NIL_UUID}

    def _delete_offsets(self, stored: StoredShard, is_gone: Callable[[str, UUID], bool]) -> None:
        gone = [
            (group_id, partition) for group_id, partition, offset in stored.shard.offsets.all() if is_gone(partition[0], offset.topic_id)
        ]
        try:
            stored.append_all([offset_tombstone(*each) for each in dict.fromkeys(gone)], self._clock.now_ms())
        except KafkaError as error:
            _LOG.warning("%s-%d: offsets of deleted topics stay: %s", CONSUMER_OFFSETS_TOPIC, stored.partition.index, error)


def _check_size(data: bytearray, log: PartitionLog) -> None:
    limit = log.config.max_message_bytes
    if len(data) > limit:
        raise MessageTooLarge(f"a batch of {len(data)} bytes, {limit} are allowed")


def _read(partition: Partition) -> Iterator[Iterator[RecordBatch]]:
    """The batches of a log, a piece at a time; KafkaError."""
    offset = partition.log.log_start_offset
    while offset < partition.log.log_end_offset:
        batches = list(split_batches(partition.log.read(offset, READ_BYTES, isolation=None)))
        if not batches:
            return  # compaction left nothing behind this offset
        yield iter(batches)
        offset = batches[-1].next_offset


def _replay(shard: Shard, batch: RecordBatch) -> None:
    """Take one batch of the log; CorruptMessage, InvalidRecord, WireError."""
    if not batch.check_crc():
        raise CorruptMessage(f"the batch at offset {batch.base_offset} is damaged")
    producer_id = batch.producer_id if batch.is_transactional else NO_PRODUCER_ID
    for record in decode_records(batch):
        if batch.is_control:
            if parse_control_key(record.key) in _ENDS:
                marker = EndTransactionMarker.from_record(record)
                shard.end_transaction(producer_id, is_commit=marker.control_type is ControlType.COMMIT)
            continue
        decoded = CONSUMER_OFFSETS.decode(record.key, record.value)
        if decoded is not None:
            shard.replay(decoded, record.offset, producer_id)
