"""`__consumer_offsets`: each group is in the partition that the hash of its id selects.

`stored_topic.py` reads a partition. At the end of its load, offsets of topics that no longer exist
are deleted.

Source: CoordinatorRuntime, GroupCoordinatorShard of Apache Kafka 4.3.1.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Final
from uuid import UUID

from minibroker.clock import Clock
from minibroker.cluster.cluster import Cluster
from minibroker.cluster.partition import Partition
from minibroker.cluster.topic import CONSUMER_OFFSETS_TOPIC
from minibroker.config.broker_config import BrokerConfig
from minibroker.coordinator.group.kind import LiveGroup
from minibroker.coordinator.group.offsets import NO_TIMESTAMP, CommittedOffset, NewOffset, encode_commit, offset_tombstone
from minibroker.coordinator.group.shard import Shard
from minibroker.coordinator.stored_topic import StoredPartition, StoredTopic, batch_of_encoded
from minibroker.coordinator.transaction.records import ProducerIdAndEpoch
from minibroker.errors import KafkaError
from minibroker.log.partition_log import PartitionLog
from minibroker.records.any_format import decode_records
from minibroker.records.batch import RecordBatch
from minibroker.records.control import ControlType, EndTransactionMarker, parse_control_key
from minibroker.records.record import Record
from minibroker.storage.record_frame import CONSUMER_OFFSETS, CoordinatorRecord
from minibroker.wire.schema import NIL_UUID

_ENDS: Final = frozenset({ControlType.COMMIT, ControlType.ABORT})

_LOG = logging.getLogger(__name__)


class StoredShard(StoredPartition):
    """One partition of the topic. GroupStore writes it, except `live`."""

    __slots__ = ("live", "shard")

    def __init__(self, partition: Partition) -> None:
        super().__init__(partition, CONSUMER_OFFSETS)
        self.shard = Shard()
        self.live: dict[str, LiveGroup] = {}  #: state machines; written by LiveGroups

    def replay(self, record: CoordinatorRecord, record_offset: int, producer_id: int) -> None:
        """Replay one record. `producer_id` is NO_PRODUCER_ID outside of transactions."""
        self.shard.replay(record, record_offset, producer_id)

    def commit(self, group_id: str, offsets: Sequence[NewOffset], now_ms: int, ids: ProducerIdAndEpoch) -> PartitionLog | None:
        """Append commits in one batch and replay them. Faster than `append`, with the same result and errors."""
        records = [Record(index, now_ms, *encode_commit(group_id, new, now_ms)) for index, new in enumerate(offsets)]
        log, base_offset = self._append(batch_of_encoded(records, ids))
        for record_offset, (partition, offset, leader_epoch, metadata, topic_id) in enumerate(offsets, base_offset):
            committed = CommittedOffset(offset, leader_epoch, metadata or "", now_ms, NO_TIMESTAMP, topic_id, record_offset)
            self.shard.commit(group_id, partition, committed, ids.producer_id)
        return log if log.wants_sync else None

    def replay_control(self, batch: RecordBatch) -> None:
        """Replay the end of a transaction."""
        for record in decode_records(batch):
            if parse_control_key(record.key) in _ENDS:
                marker = EndTransactionMarker.from_record(record)
                self.shard.end_transaction(batch.producer_id, is_commit=marker.control_type is ControlType.COMMIT)


class GroupStore:
    """All partitions of the topic. A topic that was deleted and created again starts empty."""

    def __init__(self, cluster: Cluster, config: BrokerConfig, clock: Clock, *, on_loaded: Callable[[StoredShard], Iterator[None]]) -> None:
        self._cluster = cluster
        self._config = config
        self._clock = clock
        self._on_loaded = on_loaded
        self._stored = StoredTopic(CONSUMER_OFFSETS_TOPIC, cluster, clock, what="groups", make=StoredShard, finish=self._finish)
        self._deleted_topics: set[str] = set()  #: their offsets in a log that is read from now on are older than the deletion
        self._just_deleted: set[str] = set()  #: their offsets are not yet deleted in logs that were read before

    def stop(self) -> None:
        """Finish pending deletions, and stop loading."""
        self._finish_deletions()
        self._stored.stop()

    def ensure_topic(self) -> None:
        """Create the topic if it does not exist, with the configs of Apache Kafka; KafkaError."""
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
        """The partition count of the topic, existing or not."""
        topic = self._cluster.topics.get(CONSUMER_OFFSETS_TOPIC)
        return self._config.offsets_topic_num_partitions if topic is None else len(topic.partitions)

    @property
    def loaded(self) -> list[StoredShard]:
        """All partitions that were read, usable or not."""
        return self._stored.loaded

    def shard(self, index: int) -> StoredShard:
        """Return one loaded partition; CoordinatorLoadInProgress, NotCoordinator."""
        if self._just_deleted:
            self._finish_deletions()
        return self._stored.at(index)

    def delete_topic(self, name: str) -> None:
        """Delete the offsets of a deleted topic: once for all topics of this turn, and before the next request reads them."""
        if not self._just_deleted:
            self._clock.call_later_ms(0, self._finish_deletions)
        self._just_deleted.add(name)
        self._deleted_topics.add(name)

    def _finish_deletions(self) -> None:
        gone, self._just_deleted = self._just_deleted, set()
        if not gone or self._stored.follow() is None:
            return
        for each in self._stored.loaded:
            if each.is_usable:
                self._delete_offsets(each, lambda topic, _: topic in gone)

    def _finish(self, stored: StoredShard) -> Iterator[None]:
        shard = stored.shard
        stored.partition.on_transaction_end = lambda producer_id, _, is_commit: shard.end_transaction(producer_id, is_commit=is_commit)
        self._delete_offsets(stored, self._is_gone)
        yield from self._on_loaded(stored)

    def _is_gone(self, topic: str, topic_id: UUID) -> bool:
        """Whether offsets of a log that was just read belong to a deleted topic."""
        found = self._cluster.topics.get(topic)
        return found is None or topic in self._deleted_topics or topic_id not in {found.topic_id, NIL_UUID}

    def _delete_offsets(self, stored: StoredShard, is_gone: Callable[[str, UUID], bool]) -> None:
        gone = [
            (group_id, partition) for group_id, partition, offset in stored.shard.offsets.all() if is_gone(partition[0], offset.topic_id)
        ]
        try:
            stored.append_all([offset_tombstone(*each) for each in dict.fromkeys(gone)], self._clock.now_ms())
        except KafkaError as error:
            _LOG.warning("%s-%d: could not delete offsets of deleted topics: %s", CONSUMER_OFFSETS_TOPIC, stored.partition.index, error)
