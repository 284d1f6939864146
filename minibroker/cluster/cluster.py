"""What this broker holds: log directories, the metadata log, topics and partitions (being written: the signatures hold)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Self
from uuid import UUID

from minibroker.background import Background
from minibroker.clock import Clock
from minibroker.cluster.node import Node
from minibroker.cluster.partition import Partition
from minibroker.cluster.topic import Topic
from minibroker.config.broker_config import BrokerConfig
from minibroker.storage.files import Files


class Cluster:
    """One node is the whole cluster. Errors: KafkaError kinds as answers, ConfigurationError from `open`."""

    config: BrokerConfig
    node: Node
    cluster_id: str
    topics: dict[str, Topic]
    metadata_offset: int  #: last offset of the metadata log: the epoch of finalized features

    @classmethod
    def open(cls, config: BrokerConfig, files: Files, clock: Clock, background: Background) -> Self:
        """Lock and read the log directories, replay the metadata log, open every partition."""
        raise NotImplementedError

    def close(self, *, clean: bool = True) -> None:
        """Close logs, write checkpoints and the clean-shutdown markers, release the locks."""
        raise NotImplementedError

    def topic(self, name: str) -> Topic:
        """By name; UnknownTopicOrPartition."""
        raise NotImplementedError

    def topic_by_id(self, topic_id: UUID) -> Topic:
        """By id; UnknownTopicId."""
        raise NotImplementedError

    def partition(self, topic: str, index: int) -> Partition:
        """By topic name; UnknownTopicOrPartition. The partition may be offline: its `log` then raises KafkaStorageError."""
        raise NotImplementedError

    def partition_by_id(self, topic_id: UUID, index: int) -> Partition:
        """By topic id; UnknownTopicId, UnknownTopicOrPartition."""
        raise NotImplementedError

    def create_topic(
        self,
        name: str,
        *,
        partition_count: int | None = None,
        replication_factor: int = -1,
        assignments: Mapping[int, Sequence[int]] | None = None,
        configs: Mapping[str, str | None] | None = None,
        validate_only: bool = False,
    ) -> Topic:
        """Create a topic, ready when this returns. partition_count None: topic.partition.count.map, then num.partitions."""
        raise NotImplementedError

    def auto_create_topic(self, name: str) -> Topic:
        """Create a topic that a client asked for; UnknownTopicOrPartition when auto.create.topics.enable is false."""
        raise NotImplementedError

    def delete_topic(self, name: str) -> None:
        """Delete a topic; its name is free when this returns, its files go in the background."""
        raise NotImplementedError

    def create_partitions(
        self, name: str, count: int, *, assignments: Sequence[Sequence[int]] | None = None, validate_only: bool = False
    ) -> None:
        """Grow a topic to `count` partitions."""
        raise NotImplementedError

    def allocate_producer_id(self) -> int:
        """A producer id that nobody had before."""
        raise NotImplementedError
