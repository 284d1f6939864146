"""A topic between its checks and its place in the metadata log: those of one request are written together.

Its records are in KRaft's format. This node alone has the one replica of each partition, in the log directory that is chosen for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from minibroker.cluster.metadata.metadata_image import TOPIC_RESOURCE, MetadataImage, config_records
from minibroker.cluster.topic import Topic
from minibroker.schemas.internal.topic_records import PartitionRecord, TopicRecord


class NewTopic(NamedTuple):
    """Everything about it is right, and whoever counts partitions has been told."""

    name: str
    topic_id: UUID
    records: Sequence[Any]  #: of the metadata log, without partitions: the topic and its configs
    partition_count: int
    replication_factor: int  #: -1: the default
    assignment: Sequence[Sequence[int]] | None  #: replicas of each partition, where somebody said so

    def draft(self) -> Topic:
        """The topic as it will be, without partitions; it is in no other image."""
        image = MetadataImage()
        for record in self.records:
            image.apply(record)
        return image.topics[self.name]


def topic_records(name: str, topic_id: UUID, overrides: Mapping[str, str]) -> list[Any]:
    """A new topic with its configs, without partitions."""
    return [TopicRecord(name=name, topic_id=topic_id), *config_records(TOPIC_RESOURCE, name, {}, overrides)]


def partition_records(topic_id: UUID, indexes: range, node_id: int, directory_ids: Sequence[UUID]) -> list[PartitionRecord]:
    """New partitions of a topic, each in one of `directory_ids`."""
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
