"""A topic between its checks and its place in the metadata log: those of one request are written together.

Its records, in KRaft's format: this node alone has the one replica of each partition, in the log directory that is chosen for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from minibroker.cluster.metadata_image import TOPIC_RESOURCE, MetadataImage, config_records
from minibroker.cluster.topic import Topic
from minibroker.schemas.internal.topic_records import PartitionRecord, TopicRecord


class NewTopic(NamedTuple):
    """Everything about it is right, and whoever counts partitions has been told."""

    name: str
    records: Sequence[Any]  #: of the metadata log: they are written as one batch
    replication_factor: int  #: -1: the default
    assignment: Sequence[Sequence[int]] | None  #: replicas of each partition, where somebody said so

    def draft(self) -> Topic:
        """The topic as it will be: with its partition count but no log, and nobody else knows it."""
        image = MetadataImage()
        for record in self.records:
            image.apply(record)
        return image.topics[self.name]


def topic_records(name: str, topic_id: UUID, overrides: Mapping[str, str]) -> list[Any]:
    """A new topic with its configs, without partitions."""
    return [TopicRecord(name=name, topic_id=topic_id), *config_records(TOPIC_RESOURCE, name, {}, overrides)]


def partition_records(topic_id: UUID, indexes: range, node_id: int, choose_directory: Callable[[int], UUID]) -> list[PartitionRecord]:
    """New partitions of a topic; `choose_directory` returns the directory.id for an index, and raises KafkaStorageError."""
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
            directories=[choose_directory(index)],
        )
        for index in indexes
    ]
