"""A cluster as one request sees it, in which look-ups of some partitions fail: for Fetch and ShareFetch, which keep sessions."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from minibroker.cluster.cluster import Cluster
from minibroker.cluster.partition import Partition
from minibroker.dispatch.partition_split import ErrorOf
from minibroker.errors import KafkaError
from minibroker.wire.schema import NIL_UUID


class RefusingCluster:
    """A cluster as one request sees it, in which look-ups of some partitions fail."""

    __slots__ = ("_cluster", "_error_of")

    def __init__(self, cluster: Cluster, error_of: ErrorOf) -> None:
        self._cluster = cluster
        self._error_of = _either(cluster.refuses, error_of) if isinstance(cluster, AuthorizedCluster) else error_of

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)

    def partition(self, topic: str, index: int) -> Partition:
        """As Cluster."""
        error = self._error_of(topic, NIL_UUID, index)
        if error is not None:
            raise error.with_traceback(None)
        return self._cluster.partition(topic, index)

    def partition_by_id(self, topic_id: UUID, index: int) -> Partition:
        """As Cluster."""
        error = self._error_of("", topic_id, index)
        if error is not None:
            raise error.with_traceback(None)
        return self._cluster.partition_by_id(topic_id, index)


class AuthorizedCluster(RefusingCluster):
    """A cluster as one client may see it. Its refusals come before those of faults and simulated brokers, which wrap it once more."""

    __slots__ = ("refuses",)

    def __init__(self, cluster: Cluster, error_of: ErrorOf) -> None:
        super().__init__(cluster, error_of)
        self.refuses = error_of


def _either(first: ErrorOf, second: ErrorOf) -> ErrorOf:
    def error_of(name: str, topic_id: UUID, index: int | None) -> KafkaError | None:
        return first(name, topic_id, index) or second(name, topic_id, index)

    return error_of
