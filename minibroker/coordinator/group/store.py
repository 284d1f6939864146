"""`__consumer_offsets`: each group is in the partition that the hash of its id selects.

`stored_topic.py` loads a partition. A Shard has the groups and committed offsets that its records
describe. At the end of a load, offsets of topics that no longer exist are deleted.

Source: CoordinatorRuntime, GroupCoordinatorShard of Apache Kafka 4.3.1.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final
from uuid import UUID

from minibroker.clock import Clock
from minibroker.cluster.cluster import Cluster
from minibroker.cluster.partition import Partition
from minibroker.cluster.topic import CONSUMER_OFFSETS_TOPIC
from minibroker.config.broker_config import BrokerConfig
from minibroker.coordinator.group.kind import SIMPLE_GROUP, GroupType, LiveGroup, StoredGroup
from minibroker.coordinator.group.offsets import (
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    CommittedOffset,
    NewOffset,
    Offsets,
    TopicPartition,
    committed_offset,
    encode_commit,
    offset_tombstone,
)
from minibroker.coordinator.stored_topic import StoredPartition, StoredTopic, batch_of_encoded
from minibroker.coordinator.transaction.records import ProducerIdAndEpoch
from minibroker.errors import KafkaError
from minibroker.log.partition_log import PartitionLog
from minibroker.records.any_format import decode_records
from minibroker.records.batch import RecordBatch
from minibroker.records.control import ControlType, EndTransactionMarker, parse_control_key
from minibroker.records.record import Record
from minibroker.schemas.internal.consumer_group_records import ConsumerGroupMetadataKey
from minibroker.schemas.internal.coordinator_records import OFFSET_RECORD_TYPES
from minibroker.schemas.internal.offset_records import GroupMetadataKey, LegacyOffsetCommitKey, OffsetCommitKey
from minibroker.schemas.internal.share_group_records import ShareGroupMetadataKey
from minibroker.schemas.internal.streams_group_records import StreamsGroupMetadataKey
from minibroker.storage.record_frame import CONSUMER_OFFSETS, CoordinatorRecord
from minibroker.wire.schema import NIL_UUID

#: the record that has the epoch of a group, by kind
_EPOCH_KEYS: Final = {
    GroupType.CONSUMER: ConsumerGroupMetadataKey,
    GroupType.SHARE: ShareGroupMetadataKey,
    GroupType.STREAMS: StreamsGroupMetadataKey,
}
_TYPES: Final[dict[type, GroupType]] = {
    each.key: group_type
    for each in OFFSET_RECORD_TYPES
    for group_type in _EPOCH_KEYS
    if each.key.__name__.startswith(f"{group_type.name.capitalize()}Group")
}
_EPOCH_KEY_TYPES: Final = frozenset(_EPOCH_KEYS.values())


def type_of_key(key: object) -> GroupType | None:
    """Return the newer kind of group that a record belongs to; None for classic groups and offsets."""
    return _TYPES.get(type(key))


def is_of_group(key: object) -> bool:
    """Whether a record has the epoch of its group: its tombstone ends the group."""
    return type(key) in _EPOCH_KEY_TYPES


_OFFSET_KEYS: Final = (OffsetCommitKey, LegacyOffsetCommitKey)


class Shard:
    """Groups by id, and their offsets."""

    __slots__ = ("_last_end", "_new_image", "groups", "new_images", "offsets")

    def __init__(self, new_image: Callable[[GroupType], Any]) -> None:
        """Create an empty shard. `new_image` returns the empty image of a group."""
        self._new_image = new_image
        self.groups: dict[str, StoredGroup] = {}  #: contains every group that has offsets; a group may have none
        self.new_images: dict[str, Any] = {}  #: images for groups whose first record is about to be replayed; written by LiveGroups
        self.offsets = Offsets()
        self._last_end: tuple[str, int] | None = None  #: the last group of a newer kind that ended, and the offset of its last tombstone

    def replay(self, record: CoordinatorRecord, record_offset: int, producer_id: int = NO_PRODUCER_ID) -> None:
        """Replay one record, in the order of the log."""
        key = record.key
        if isinstance(key, _OFFSET_KEYS):
            self._replay_offset(record, record_offset, producer_id)
        elif isinstance(key, GroupMetadataKey):
            was_downgraded = self._last_end == (key.group, record_offset - 1)
            self._replay_group(key.group, None if record.value is None else StoredGroup(record.value, was_downgraded=was_downgraded))
        elif (group_type := type_of_key(key)) is not None:
            self._replay_newer(record, record_offset, group_type)

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        """Replay one transaction marker."""
        self.offsets.end_transaction(producer_id, is_commit=is_commit)

    def _replay_offset(self, record: CoordinatorRecord, record_offset: int, producer_id: int) -> None:
        key = record.key
        committed = committed_offset(record, record_offset)
        if committed is None:
            self.offsets.remove(key.group, (key.topic, key.partition))
            return
        self.commit(key.group, (key.topic, key.partition), committed, producer_id)

    def commit(self, group_id: str, partition: TopicPartition, committed: CommittedOffset, producer_id: int) -> None:
        """Replay the record of a committed offset."""
        if group_id not in self.groups:
            self.groups[group_id] = SIMPLE_GROUP
        self.offsets.put(group_id, partition, committed, producer_id)

    def _replay_group(self, group_id: str, group: StoredGroup | None) -> None:
        if group is None:
            self.groups.pop(group_id, None)
        else:
            self.groups[group_id] = group

    def _replay_newer(self, record: CoordinatorRecord, record_offset: int, group_type: GroupType) -> None:
        """Replay a record of a newer kind.

        After compaction, any record of a group may be its first one.
        """
        group_id = record.key.group_id
        group = self.groups.get(group_id)
        if group is None or group.group_type is not group_type:
            if record.value is None:
                return
            image = self.new_images[group_id] if group_id in self.new_images else self._new_image(group_type)
            group = self.groups[group_id] = StoredGroup(group_type=group_type, image=image)
        if record.value is None and is_of_group(record.key):
            del self.groups[group_id]
            self._last_end = group_id, record_offset
        else:
            group.image.replay(record)


_END_MARKERS: Final = frozenset({ControlType.COMMIT, ControlType.ABORT})

_LOG = logging.getLogger(__name__)


class StoredShard(StoredPartition):
    """One partition of the topic. GroupStore writes it, except `live`."""

    __slots__ = ("live", "shard")

    def __init__(self, partition: Partition, new_image: Callable[[GroupType], Any]) -> None:
        super().__init__(partition, CONSUMER_OFFSETS)
        self.shard = Shard(new_image)
        self.live: dict[str, LiveGroup] = {}  #: state machines; written by LiveGroups

    def replay(self, record: CoordinatorRecord, record_offset: int, producer_id: int) -> None:
        """Replay one record. `producer_id` is NO_PRODUCER_ID outside of transactions."""
        self.shard.replay(record, record_offset, producer_id)

    def commit(self, group_id: str, offsets: Sequence[NewOffset], now_ms: int, ids: ProducerIdAndEpoch) -> PartitionLog | None:
        """Append commits in one batch and replay them.

        Faster than `append`, with the same result and errors.
        """
        records = [Record(index, now_ms, *encode_commit(group_id, new, now_ms)) for index, new in enumerate(offsets)]
        log, base_offset = self._append(batch_of_encoded(records, ids))
        for record_offset, (partition, offset, leader_epoch, metadata, topic_id) in enumerate(offsets, base_offset):
            committed = CommittedOffset(offset, leader_epoch, metadata or "", now_ms, NO_TIMESTAMP, topic_id, record_offset)
            self.shard.commit(group_id, partition, committed, ids.producer_id)
        return log if log.wants_sync else None

    def replay_control(self, batch: RecordBatch) -> None:
        """Replay the end of a transaction."""
        for record in decode_records(batch):
            if parse_control_key(record.key) in _END_MARKERS:
                marker = EndTransactionMarker.from_record(record)
                self.shard.end_transaction(batch.producer_id, is_commit=marker.control_type is ControlType.COMMIT)


class GroupStore:
    """All partitions of the topic. A topic that was deleted and created again starts empty."""

    def __init__(
        self,
        cluster: Cluster,
        config: BrokerConfig,
        clock: Clock,
        *,
        on_loaded: Callable[[StoredShard], Iterator[None]],
        new_image: Callable[[GroupType], Any],
    ) -> None:
        self._cluster = cluster
        self._config = config
        self._clock = clock
        self._on_loaded = on_loaded
        self._stored = StoredTopic(
            CONSUMER_OFFSETS_TOPIC,
            cluster,
            clock,
            what="groups",
            make=lambda partition: StoredShard(partition, new_image),
            finish=self._finish,
        )
        self._deleted_topics: set[str] = set()  #: a log that is read later may still have their offsets
        self._just_deleted: set[str] = set()  #: logs that were read before still have their offsets

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
        """Delete the offsets of a deleted topic, together with other topics of this turn, and before the next request reads them."""
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
