"""A topic: its id, its partitions, and the configs that differ from the broker's."""

from __future__ import annotations

from uuid import UUID

from minibroker.cluster.partition import Partition

INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})


class Topic:
    """Written by Cluster alone; `config` maps config names to the texts that override the broker's."""

    __slots__ = ("config", "name", "partitions", "topic_id")

    def __init__(self, name: str, topic_id: UUID, config: dict[str, str]) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions: list[Partition] = []
        self.config = config

    @property
    def is_internal(self) -> bool:
        """Whether the broker keeps its own state in it; clients may read it, and know it by this flag."""
        return self.name in INTERNAL_TOPICS
