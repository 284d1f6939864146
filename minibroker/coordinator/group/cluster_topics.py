"""The topics of the cluster, as groups see them: names to subscribe to, ids and partitions to assign."""

from __future__ import annotations

from typing import Final

from minibroker.clock import Clock
from minibroker.cluster.cluster import Cluster
from minibroker.coordinator.group.topic_expressions import MatchingTopics, TopicExpressions
from minibroker.coordinator.group.topics import KnownTopic

REFRESH_INTERVAL_MS: Final = 1_000
KAFKAS_REFRESH_INTERVAL_MS: Final = 10_000  #: with minibroker.like.kafka


class ClusterTopics:
    """Always as they are now."""

    __slots__ = ("_cluster", "_expressions", "refresh_interval_ms")

    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self._cluster = cluster
        self.refresh_interval_ms = KAFKAS_REFRESH_INTERVAL_MS if cluster.config.minibroker_like_kafka else REFRESH_INTERVAL_MS
        self._expressions = TopicExpressions(
            clock, lambda: cluster.topics, lambda: self.version, resolves_later=cluster.config.minibroker_like_kafka
        )

    @property
    def version(self) -> int:
        """Grows with each change of a topic, and with other changes of the metadata log: Kafka's offset of the metadata image."""
        return self._cluster.metadata_offset

    def matching(self, pattern: str) -> MatchingTopics | None:
        """Return the topics that a regular expression matches; None while that is not known yet."""
        return self._expressions.matching(pattern)

    def find(self, name: str) -> KnownTopic | None:
        """The topic; None where there is none."""
        topic = self._cluster.topics.get(name)
        return None if topic is None else KnownTopic(topic.topic_id, len(topic.partitions), self._cluster.node.rack)
