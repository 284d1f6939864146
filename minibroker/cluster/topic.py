"""A topic: its id, its partitions, and the configs that differ from the broker's."""

from __future__ import annotations

from uuid import UUID

from minibroker.cluster.partition import Partition
from minibroker.errors import ConfigurationError

CONSUMER_OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTION_STATE_TOPIC = "__transaction_state"
SHARE_GROUP_STATE_TOPIC = "__share_group_state"
INTERNAL_TOPICS = frozenset({CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC, SHARE_GROUP_STATE_TOPIC})


class Topic:
    """One topic. Only MetadataImage changes it. `config` maps config names to overrides."""

    __slots__ = ("config", "name", "partitions", "topic_id")

    def __init__(self, name: str, topic_id: UUID, config: dict[str, str]) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions: list[Partition] = []
        self.config = config

    def add(self, partition: Partition) -> None:
        """Add a partition. Raise ConfigurationError if its index is taken."""
        taken = any(other.index == partition.index for other in self.partitions) if partition.index < len(self.partitions) else False
        if taken:
            raise ConfigurationError(f"the metadata log creates partition {partition.index} of topic {self.name} twice")
        self.partitions.append(partition)
        if partition.index != len(self.partitions) - 1:
            self.partitions.sort(key=lambda each: each.index)

    @property
    def is_internal(self) -> bool:
        """Whether the broker keeps its state in it. Clients may read it, and see this flag."""
        return self.name in INTERNAL_TOPICS
