"""The brokers that clients are told of, seen from the one that was asked.

A handler asks `ctx.broker.nodes` for brokers, leaders, replicas and coordinators. `Nodes` is one broker that leads all that it has;
`several_nodes.py` has the form in which leaders are spread, moved and taken away.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from minibroker.cluster.node import Node
from minibroker.cluster.partition import Partition

NO_LEADER: Final = -1


class PartitionNodes(NamedTuple):
    """Where a partition is: node ids, in the order that clients are told. The lists belong to whoever answers: do not change them."""

    leader_id: int  #: NO_LEADER: nobody leads it
    replicas: list[int]  #: the first is the preferred leader
    in_sync: list[int]
    offline: list[int]  #: replicas on brokers, or disks, that are gone


class EligibleLeaders(NamedTuple):
    """Who may lead a partition though it is not in sync (KIP-966)."""

    eligible: list[int]  #: nothing can have been committed without them
    last_known: list[int]  #: who led last, while nobody can


_NOBODY: Final = EligibleLeaders([], [])


class Nodes:
    """One broker: it leads whatever has a log."""

    def __init__(self, own: Node) -> None:
        self.own = own  #: the broker that was asked
        self._online = PartitionNodes(own.node_id, [own.node_id], [own.node_id], [])
        self._offline = PartitionNodes(NO_LEADER, [own.node_id], [], [own.node_id])

    @property
    def alive(self) -> Sequence[Node]:
        """Brokers that can be reached, by id."""
        return (self.own,)

    @property
    def registered(self) -> Sequence[Node]:
        """All brokers by id, also those that are stopped."""
        return (self.own,)

    @property
    def selects_replicas(self) -> bool:
        """Whether a consumer that says its rack is sent to a replica there (KIP-392)."""
        return False

    @property
    def controller_id(self) -> int:
        """The broker that clients are sent to with what only a controller may do."""
        return self.own.node_id

    def find(self, node_id: int) -> Node | None:
        """A broker, alive or not; None where there is none of that id."""
        return self.own if node_id == self.own.node_id else None

    def of(self, partition: Partition) -> PartitionNodes:
        """Leader, replicas and who of them is in sync; of a partition without a log nobody is."""
        return self._online if partition.is_online else self._offline

    def eligible(self, partition: Partition) -> EligibleLeaders:  # noqa: ARG002  several nodes look at it
        """Who may lead it besides: nobody, of one broker alone."""
        return _NOBODY

    def leader_of(self, partition: Partition) -> int:
        """The leader's id; NO_LEADER."""
        return self.of(partition).leader_id

    def leads(self, partition: Partition) -> bool:
        """Whether the broker that was asked is the leader."""
        return self.leader_of(partition) == self.own.node_id
