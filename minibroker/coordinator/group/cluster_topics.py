"""The topics of the cluster, as groups see them: names to subscribe to, ids and partitions to assign."""

from __future__ import annotations

from collections.abc import Iterable

from minibroker.cluster.cluster import Cluster
from minibroker.coordinator.group.topics import KnownTopic


class ClusterTopics:
    """Always as they are now."""

    __slots__ = ("_cluster",)

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    @property
    def version(self) -> int:
        """Grows with each change of a topic, and with other changes of the metadata log: Kafka's offset of the metadata image."""
        return self._cluster.metadata_offset

    def names(self) -> Iterable[str]:
        """Of all that an expression may stand for."""
        return self._cluster.topics.keys()

    def find(self, name: str) -> KnownTopic | None:
        """The topic; None where there is none."""
        topic = self._cluster.topics.get(name)
        return None if topic is None else KnownTopic(topic.topic_id, len(topic.partitions), self._cluster.node.rack)
