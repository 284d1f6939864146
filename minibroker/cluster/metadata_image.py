"""What the metadata log says, as live objects: every record that is replayed or appended passes `apply`, and nothing else writes here.

TopicRecord, RemoveTopicRecord                        topics by name and by id
PartitionRecord, PartitionChangeRecord                partitions of a topic
ConfigRecord                                          overrides by resource: (TOPIC, name), (BROKER, node id), (BROKER, "") for all brokers
ProducerIdsRecord                                     the first producer id that nobody has
FeatureLevelRecord                                    finalized features
others                                                kept by Apache Kafka for itself (registrations, quotas, ACLs): of no meaning here yet
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from minibroker.cluster.partition import Partition
from minibroker.cluster.topic import Topic
from minibroker.errors import ConfigurationError
from minibroker.schemas.internal.setting_records import ConfigRecord, FeatureLevelRecord, ProducerIdsRecord
from minibroker.schemas.internal.topic_records import PartitionChangeRecord, PartitionRecord, RemoveTopicRecord, TopicRecord
from minibroker.wire.schema import NIL_UUID

TOPIC_RESOURCE = 2
BROKER_RESOURCE = 4
ALL_BROKERS = ""  #: resource name of configs that hold for every broker

_UNCHANGED_LEADER = -2  #: PartitionChangeRecord's default


class MetadataImage:
    """The state after the last record. Errors of `apply` are ConfigurationErrors: a log that contradicts itself is not served."""

    def __init__(self) -> None:
        self.topics: dict[str, Topic] = {}
        self.topics_by_id: dict[UUID, Topic] = {}
        self.removed_topic_ids: set[UUID] = set()  #: whose folders, if there still are any, may be deleted
        self.configs: dict[tuple[int, str], dict[str, str]] = {}
        self.features: dict[str, int] = {}
        self.next_producer_id = 0
        self._handlers: dict[type[Any], Callable[[Any], None]] = {
            TopicRecord: self._apply_topic,
            RemoveTopicRecord: self._apply_remove_topic,
            PartitionRecord: self._apply_partition,
            PartitionChangeRecord: self._apply_partition_change,
            ConfigRecord: self._apply_config,
            ProducerIdsRecord: self._apply_producer_ids,
            FeatureLevelRecord: self._apply_feature,
        }

    def config_of(self, resource_type: int, name: str) -> dict[str, str]:
        """Overrides of a resource; empty when there are none."""
        return self.configs.get((resource_type, name), {})

    def apply(self, record: Any) -> None:
        """Take one record in."""
        handle = self._handlers.get(type(record))
        if handle is not None:
            handle(record)

    def _topic(self, topic_id: UUID) -> Topic:
        topic = self.topics_by_id.get(topic_id)
        if topic is None:
            raise ConfigurationError(f"the metadata log speaks of a topic with id {topic_id} that it never created")
        return topic

    def _apply_topic(self, record: TopicRecord) -> None:
        config = self.configs.setdefault((TOPIC_RESOURCE, record.name), {})
        topic = Topic(record.name, record.topic_id, config)
        self.topics[record.name] = self.topics_by_id[record.topic_id] = topic

    def _apply_remove_topic(self, record: RemoveTopicRecord) -> None:
        topic = self._topic(record.topic_id)
        del self.topics[topic.name], self.topics_by_id[topic.topic_id]
        self.configs.pop((TOPIC_RESOURCE, topic.name), None)
        self.removed_topic_ids.add(topic.topic_id)

    def _apply_partition(self, record: PartitionRecord) -> None:
        topic = self._topic(record.topic_id)
        index = record.partition_id
        if index != len(topic.partitions):
            raise ConfigurationError(
                f"the metadata log has partition {index} of topic {topic.name} where {len(topic.partitions)} comes next"
            )
        topic.partitions.append(
            Partition(
                topic.name,
                topic.topic_id,
                index,
                leader_epoch=record.leader_epoch,
                partition_epoch=record.partition_epoch,
                directory_id=record.directories[0] if record.directories else NIL_UUID,
            )
        )

    def _apply_partition_change(self, record: PartitionChangeRecord) -> None:
        topic = self._topic(record.topic_id)
        if not 0 <= record.partition_id < len(topic.partitions):
            raise ConfigurationError(f"the metadata log changes partition {record.partition_id} of topic {topic.name}, which it never made")
        partition = topic.partitions[record.partition_id]
        if record.leader != _UNCHANGED_LEADER:
            partition.leader_epoch += 1
        if record.directories:
            partition.directory_id = record.directories[0]
        partition.partition_epoch += 1

    def _apply_config(self, record: ConfigRecord) -> None:
        config = self.configs.setdefault((record.resource_type, record.resource_name), {})
        if record.value is None:
            config.pop(record.name, None)
        else:
            config[record.name] = record.value

    def _apply_producer_ids(self, record: ProducerIdsRecord) -> None:
        self.next_producer_id = record.next_producer_id

    def _apply_feature(self, record: FeatureLevelRecord) -> None:
        self.features[record.name] = record.feature_level
