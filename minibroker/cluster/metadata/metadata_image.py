"""The state that the metadata log describes, as objects. Only `apply` changes it, with each record that is replayed or appended.

TopicRecord, RemoveTopicRecord                        topics by name and by id
PartitionRecord, PartitionChangeRecord                partitions of a topic
ConfigRecord                                          overrides by resource: (TOPIC, name), (BROKER, node id), (BROKER, "") for all brokers,
                                                      (CLIENT_METRICS, name), (GROUP, group id)
ProducerIdsRecord                                     the first producer id that is not allocated
FeatureLevelRecord                                    finalized features
registrations, quotas, ACLs, credentials, tokens      kept for snapshots (kept_records.py); quotas are enforced
ZkMigrationStateRecord                                ignored: Kafka 4 leaves it out of its snapshots as well

`to_records` is the reverse: the fewest records that create the same state, in the order of Apache Kafka's MetadataImage.write.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from uuid import UUID

from minibroker.cluster.metadata.frame import METADATA_VERSION_FEATURE
from minibroker.cluster.metadata.kept_records import KeptRecords
from minibroker.cluster.partition import Partition
from minibroker.cluster.topic import Topic
from minibroker.cluster.topic_rules import SimilarNames
from minibroker.config.topic_properties import INTERNAL_SEGMENT_BYTES, SEGMENT_BYTES
from minibroker.errors import ConfigurationError
from minibroker.schemas.internal.setting_records import ConfigRecord, FeatureLevelRecord, ProducerIdsRecord
from minibroker.schemas.internal.topic_records import (
    ClearElrRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from minibroker.wire.schema import NIL_UUID, replace

TOPIC_RESOURCE = 2
BROKER_RESOURCE = 4
BROKER_LOGGER_RESOURCE = 8  #: has no records: levels of loggers are not stored
CLIENT_METRICS_RESOURCE = 16
GROUP_RESOURCE = 32
IN_SYNC_MIN = "min.insync.replicas"
ALL_BROKERS = ""  #: resource name of configs that hold for every broker

# Apache Kafka does not start with a topic whose segment.bytes is below a megabyte (KIP-1030). Its tests use internal.segment.bytes, which
# overrides segment.bytes and has no limit. So a smaller segment.bytes is stored under that name, marked by a sign in front of the number,
# which Kafka ignores. If a topic has both, internal.segment.bytes is in force, and segment.bytes is stored as Kafka's minimum.
_KAFKAS_MINIMUM = 1 << 20
_MARK = "+"

UNCHANGED_LEADER = -2  #: PartitionChangeRecord's default
_UNCHANGED_RECOVERY_STATE = -1
_LISTS = ("isr", "replicas", "removing_replicas", "adding_replicas", "directories", "eligible_leader_replicas", "last_known_elr")


class MetadataImage:
    """The state after the last record. `apply` raises ConfigurationError for a log that contradicts itself."""

    def __init__(self, node_id: int = -1) -> None:
        self._node_id = node_id
        self.topics: dict[str, Topic] = {}
        self.topics_by_id: dict[UUID, Topic] = {}
        self.similar_names = SimilarNames()  #: of topics
        self.removed_topic_ids: set[UUID] = set()  #: ids of deleted topics, whose remaining folders may be deleted
        self.configs: dict[tuple[int, str], dict[str, str]] = {}
        self.features: dict[str, int] = {}
        self.next_producer_id = 0
        self.kept = KeptRecords()
        self._last_producer_ids: ProducerIdsRecord | None = None
        self._partitions: dict[UUID, dict[int, PartitionRecord]] = {}  #: by topic id and index, after all changes
        self._handlers: dict[type[Any], Callable[[Any], object]] = {
            TopicRecord: self._apply_topic,
            RemoveTopicRecord: self._apply_remove_topic,
            PartitionRecord: self._apply_partition,
            PartitionChangeRecord: self._apply_partition_change,
            ConfigRecord: self._apply_config,
            ProducerIdsRecord: self._apply_producer_ids,
            FeatureLevelRecord: self._apply_feature,
            ClearElrRecord: self._apply_clear_elr,
            **self.kept.handlers,
        }

    def config_of(self, resource_type: int, name: str) -> dict[str, str]:
        """Return the overrides of a resource."""
        return self.configs.get((resource_type, name), {})

    def apply(self, record: Any) -> None:
        """Apply one record."""
        handle = self._handlers.get(type(record))
        if handle is not None:
            handle(record)

    def partition_record(self, partition: Partition) -> PartitionRecord:
        """Return the record of a partition: replicas and in-sync replicas, as Apache Kafka may have left them."""
        return self._partitions[partition.topic_id][partition.index]

    def check_complete(self) -> None:
        """Raise ConfigurationError if a topic lacks a partition. Call it after the last record."""
        for topic in self.topics.values():
            if topic.partitions and topic.partitions[-1].index != len(topic.partitions) - 1:
                raise ConfigurationError(
                    f"the metadata log has partition {topic.partitions[-1].index} of topic {topic.name}, "
                    f"but only {len(topic.partitions)} partitions"
                )

    def to_records(self) -> list[Any]:
        """Return the state as records. The records never change."""
        records: list[Any] = []
        levels = sorted(self.features.items(), key=lambda feature: feature[0] != METADATA_VERSION_FEATURE)
        records += [FeatureLevelRecord(name=name, feature_level=level) for name, level in levels]
        records += self.kept.registrations()
        for topic in self.topics.values():
            records.append(TopicRecord(name=topic.name, topic_id=topic.topic_id))
            records += self._partitions[topic.topic_id].values()
        for (resource_type, resource_name), config in self.configs.items():
            records += config_records(resource_type, resource_name, {}, config)
        records += self.kept.quotas.values()
        if self._last_producer_ids is not None:
            records.append(self._last_producer_ids)
        records += self.kept.security()
        return records

    def _topic(self, topic_id: UUID) -> Topic:
        topic = self.topics_by_id.get(topic_id)
        if topic is None:
            raise ConfigurationError(f"the metadata log has a record of topic id {topic_id}, which it never created")
        return topic

    def _apply_topic(self, record: TopicRecord) -> None:
        config = self.configs.setdefault((TOPIC_RESOURCE, record.name), {})
        topic = Topic(record.name, record.topic_id, config)
        self.topics[record.name] = self.topics_by_id[record.topic_id] = topic
        self.similar_names.add(record.name)
        self._partitions[record.topic_id] = {}

    def _apply_remove_topic(self, record: RemoveTopicRecord) -> None:
        topic = self._topic(record.topic_id)
        self.similar_names.remove(topic.name)
        del self.topics[topic.name], self.topics_by_id[topic.topic_id], self._partitions[topic.topic_id]
        self.configs.pop((TOPIC_RESOURCE, topic.name), None)
        self.removed_topic_ids.add(topic.topic_id)

    def _apply_partition(self, record: PartitionRecord) -> None:
        topic = self._topic(record.topic_id)
        index = record.partition_id
        self._partitions[record.topic_id][index] = record
        topic.add(
            Partition(
                topic.name,
                topic.topic_id,
                index,
                leader_epoch=record.leader_epoch,
                partition_epoch=record.partition_epoch,
                directory_id=self._home(record),
            )
        )

    def _home(self, record: PartitionRecord) -> UUID:
        """Return the directory.id of this node's replica."""
        position = record.replicas.index(self._node_id) if self._node_id in record.replicas else 0
        return record.directories[position] if position < len(record.directories) else NIL_UUID

    def _apply_partition_change(self, record: PartitionChangeRecord) -> None:
        topic = self._topic(record.topic_id)
        before = self._partitions[record.topic_id].get(record.partition_id)
        partition = next((each for each in topic.partitions[record.partition_id :][:1] if each.index == record.partition_id), None)
        if before is None or partition is None:
            raise ConfigurationError(
                f"the metadata log changes partition {record.partition_id} of topic {topic.name}, which it never created"
            )
        after = self._partitions[record.topic_id][record.partition_id] = _changed(before, record)
        if record.leader != UNCHANGED_LEADER:
            partition.leader_epoch += 1
        if record.directories:
            partition.directory_id = self._home(after)
        partition.partition_epoch += 1

    def _apply_config(self, record: ConfigRecord) -> None:
        config = self.configs.setdefault((record.resource_type, record.resource_name), {})
        _apply_to(config, record)

    def _apply_producer_ids(self, record: ProducerIdsRecord) -> None:
        self.next_producer_id = record.next_producer_id
        self._last_producer_ids = record

    def _apply_feature(self, record: FeatureLevelRecord) -> None:
        if record.feature_level:
            self.features[record.name] = record.feature_level
        else:
            self.features.pop(record.name, None)

    def _apply_clear_elr(self, record: ClearElrRecord) -> None:
        topics = [self.topics[record.topic_name]] if record.topic_name in self.topics else []
        for topic in topics if record.topic_name else self.topics.values():
            partitions = self._partitions[topic.topic_id]
            for index, known in partitions.items():
                partitions[index] = replace(known, eligible_leader_replicas=None, last_known_elr=None)


def config_records(resource_type: int, resource_name: str, before: Mapping[str, str], after: Mapping[str, str]) -> list[ConfigRecord]:
    """Return the records that change the overrides `before` to `after`, removals first."""
    if resource_type == TOPIC_RESOURCE:
        before, after = _stored(before), _stored(after)
    changes: dict[str, str | None] = {name: None for name in before if name not in after}
    changes |= {name: value for name, value in after.items() if before.get(name) != value}
    return [
        ConfigRecord(resource_type=resource_type, resource_name=resource_name, name=name, value=value) for name, value in changes.items()
    ]


def _apply_to(config: dict[str, str], record: ConfigRecord) -> None:
    """Apply a record to overrides."""
    name, value = record.name, record.value
    if record.resource_type == TOPIC_RESOURCE and name == INTERNAL_SEGMENT_BYTES:
        config.pop(INTERNAL_SEGMENT_BYTES, None)
        if _is_small(config):
            del config[SEGMENT_BYTES]  # it was stored under this name
        if value is not None and value.startswith(_MARK):
            name, value = SEGMENT_BYTES, value.removeprefix(_MARK)
    if value is None:
        config.pop(name, None)
    else:
        config[name] = value


def _stored(config: Mapping[str, str]) -> Mapping[str, str]:
    if not _is_small(config):
        return config
    if INTERNAL_SEGMENT_BYTES in config:
        return {**config, SEGMENT_BYTES: str(_KAFKAS_MINIMUM)}
    others = {name: value for name, value in config.items() if name != SEGMENT_BYTES}
    return {**others, INTERNAL_SEGMENT_BYTES: _MARK + str(int(config[SEGMENT_BYTES]))}


def _is_small(config: Mapping[str, str]) -> bool:
    return SEGMENT_BYTES in config and int(config[SEGMENT_BYTES]) < _KAFKAS_MINIMUM


def _changed(before: PartitionRecord, change: PartitionChangeRecord) -> PartitionRecord:
    """Return a partition after a change, as PartitionRegistration.merge does."""
    changed = {name: getattr(change, name) for name in _LISTS if getattr(change, name) is not None}
    if change.leader != UNCHANGED_LEADER:
        changed |= {"leader": change.leader, "leader_epoch": before.leader_epoch + 1}
    if change.leader_recovery_state != _UNCHANGED_RECOVERY_STATE:
        changed["leader_recovery_state"] = change.leader_recovery_state
    return replace(before, partition_epoch=before.partition_epoch + 1, **changed)


def topic_records(name: str, topic_id: UUID, overrides: Mapping[str, str]) -> list[Any]:
    """Return the records of a new topic and its configs, without partitions."""
    return [TopicRecord(name=name, topic_id=topic_id), *config_records(TOPIC_RESOURCE, name, {}, overrides)]


def partition_records(topic_id: UUID, indexes: range, node_id: int, directory_ids: Sequence[UUID]) -> list[PartitionRecord]:
    """Return the records of new partitions, each in one of `directory_ids`. This node has the only replica."""
    node = [node_id]
    return [
        PartitionRecord(
            partition_id=index,
            topic_id=topic_id,
            replicas=node,
            isr=node,
            removing_replicas=[],
            adding_replicas=[],
            leader=node_id,
            leader_epoch=0,
            partition_epoch=0,
            directories=[directory_id],
        )
        for index, directory_id in zip(indexes, directory_ids, strict=True)
    ]
