"""The brokers, leaders and replicas that clients see, as the broker that serves a request sees them.

Handlers ask `ctx.broker.nodes`. `Nodes` is one broker that leads all its partitions. minibroker.testing.simulation derives a class from it
for several brokers, whose leaders move as `Cluster.leadership` decides.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple, Protocol

from minibroker.cluster.nodes.node import Node
from minibroker.cluster.partition import Partition
from minibroker.cluster.topic import Topic

NO_LEADER: Final = -1


class PartitionNodes(NamedTuple):
    """The node ids of a partition, in the order of the answers. Handlers must not change the lists."""

    leader_id: int  #: or NO_LEADER
    replicas: list[int]  #: the first is the preferred leader
    in_sync: list[int]
    offline: list[int]  #: replicas on brokers or disks that failed


class EligibleLeaders(NamedTuple):
    """Replicas that may become leader although they are not in sync (KIP-966)."""

    eligible: list[int]  #: no record can have been committed without them
    last_known: list[int]  #: the last leader, while there is none


_NO_ELIGIBLE_LEADERS: Final = EligibleLeaders([], [])


class Nodes:
    """One broker: it leads every partition that has a log."""

    def __init__(self, own: Node) -> None:
        self.own = own  #: the broker that serves the request
        self._online = PartitionNodes(own.node_id, [own.node_id], [own.node_id], [])
        self._offline = PartitionNodes(NO_LEADER, [own.node_id], [], [own.node_id])

    @property
    def alive(self) -> Sequence[Node]:
        """Brokers that clients can reach, by id."""
        return (self.own,)

    @property
    def registered(self) -> Sequence[Node]:
        """All brokers by id, also stopped ones."""
        return (self.own,)

    @property
    def controller_id(self) -> int:
        """The broker to which clients send requests for the controller."""
        return self.own.node_id

    def find(self, node_id: int) -> Node | None:
        """Return a broker, alive or not; None if no broker has this id."""
        return self.own if node_id == self.own.node_id else None

    def of(self, partition: Partition) -> PartitionNodes:
        """Return leader, replicas and in-sync replicas; a partition without a log has no leader."""
        return self._online if partition.is_online else self._offline

    def eligible(self, partition: Partition) -> EligibleLeaders:  # noqa: ARG002  several brokers need it
        """Return the eligible leaders of a partition: one broker has none."""
        return _NO_ELIGIBLE_LEADERS

    def leader_of(self, partition: Partition) -> int:
        """Return the leader's id, or NO_LEADER."""
        return self.of(partition).leader_id

    def leads(self, partition: Partition) -> bool:
        """Whether the broker that serves the request is the leader."""
        return self.leader_of(partition) == self.own.node_id


class Reassignment(NamedTuple):
    """A reassignment that is running. Handlers must not change the lists."""

    original: list[int]
    target: list[int]
    replicas: list[int]  #: as clients see them until it is finished
    adding: list[int]
    removing: list[int]


class Leadership(Protocol):
    """The controller of several brokers: which of them have replicas of a partition, and which one leads it.

    `Cluster.leadership` is None with one broker. minibroker.testing.simulation has the implementation.
    """

    @property
    def node_ids(self) -> Collection[int]:
        """All brokers."""

    @property
    def alive_ids(self) -> Collection[int]:
        """Brokers that run."""

    def close(self) -> None:
        """Stop timers: the cluster closes."""

    # Topics

    def default_replication_factor(self, name: str) -> int:
        """Return the replication factor of a topic whose creator names none."""

    def replication_factor(self, topic: Topic) -> int:
        """Return the number of replicas of a topic's first partition."""

    def place(self, topic: Topic, assignment: Sequence[Sequence[int]] | None, replication_factor: int) -> None:
        """Place the replicas of a new topic; without an assignment they are spread over the brokers."""

    def grow(self, topic: Topic, first: int, assignment: Sequence[Sequence[int]] | None) -> None:
        """Place the replicas of new partitions, which start at index `first`."""

    def forget(self, topics: Sequence[Topic]) -> None:
        """Forget deleted topics."""

    # Partitions

    def elect_preferred(self, partition: Partition) -> None:
        """Make the first replica the leader; raises ElectionNotNeeded, PreferredLeaderNotAvailable."""

    def elect_unclean(self, partition: Partition) -> None:
        """Make any replica the leader; raises ElectionNotNeeded, EligibleLeadersNotAvailable."""

    def reassign(self, partition: Partition, replicas: Sequence[int]) -> None:
        """Change the replicas, which the caller has checked."""

    def cancel_reassignment(self, partition: Partition) -> None:
        """Restore the replicas from before a reassignment; raises NoReassignmentInProgress."""

    def reassignment(self, partition: Partition) -> Reassignment | None:
        """Return the reassignment that is running, if any."""

    def partition_replication_factor(self, partition: Partition) -> int:
        """Return the number of replicas, without those that a running reassignment adds."""
