"""What replicas that are not in sync lack, so that an unclean election loses it as in Apache Kafka: with `minibroker.like.kafka`.

There is one log of a partition. For each replica that left the in-sync set it is remembered where the log ended then. A replica that leads
though others had more (an unclean election) cuts the log off there. A replica that is in sync again has everything.

Internal topics lose nothing: coordinators have read them.
"""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from minibroker.cluster.nodes import NO_LEADER
from minibroker.cluster.partition import Partition
from minibroker.cluster.standing import Standing, may_lead
from minibroker.cluster.topic import INTERNAL_TOPICS


class LostEnds:
    """Of all partitions of a cluster."""

    def __init__(self, truncate: Callable[[Partition, int], None]) -> None:
        self._truncate = truncate
        self._ends: dict[tuple[UUID, int], dict[int, int]] = {}  #: log end offset by node, of those that are not in sync

    def follow(self, partition: Partition, before: Standing, after: Standing) -> None:
        """The in-sync set, or the leader, changes."""
        if partition.topic in INTERNAL_TOPICS:
            return
        ends = self._ends.setdefault((partition.topic_id, partition.index), {})
        is_unclean = before.leader_id == NO_LEADER != after.leader_id and not before.is_taken and not may_lead(before, after.leader_id)
        if is_unclean and after.leader_id in ends:
            self._truncate(partition, ends[after.leader_id])
        log = partition.online_log
        for node_id in set(before.in_sync) - set(after.in_sync):
            ends[node_id] = 0 if log is None else log.log_end_offset
        for node_id in after.in_sync:
            ends.pop(node_id, None)

    def forget(self, topic_id: UUID) -> None:
        """The topic is deleted."""
        for key in [each for each in self._ends if each[0] == topic_id]:
            del self._ends[key]
