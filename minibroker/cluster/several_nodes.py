"""Several brokers in one process, seen from the one that was asked: `Nodes` by what `Leadership` says."""

from __future__ import annotations

from collections.abc import Sequence

from minibroker.cluster.leadership import Leadership
from minibroker.cluster.node import Node
from minibroker.cluster.nodes import EligibleLeaders, Nodes, PartitionNodes
from minibroker.cluster.partition import Partition


class SeveralNodes(Nodes):
    """Also of one broker whose leaders a test takes away."""

    def __init__(self, own: Node, leadership: Leadership) -> None:
        super().__init__(own)
        self._leadership = leadership

    @property
    def alive(self) -> Sequence[Node]:
        """Brokers that can be reached, by id."""
        return [self._leadership.nodes[node_id] for node_id in sorted(self._leadership.alive)]

    @property
    def registered(self) -> Sequence[Node]:
        """All brokers by id, also those that are stopped."""
        return [node for _, node in sorted(self._leadership.nodes.items())]

    @property
    def selects_replicas(self) -> bool:
        """Where brokers are in different racks."""
        return len({node.rack for node in self._leadership.nodes.values()}) > 1

    @property
    def controller_id(self) -> int:
        """The first that is alive: any will do, as Apache Kafka's brokers name any of them and pass on what they are asked."""
        return min(self._leadership.alive, default=self.own.node_id)

    def find(self, node_id: int) -> Node | None:
        """A broker, alive or not."""
        return self._leadership.nodes.get(node_id)

    def of(self, partition: Partition) -> PartitionNodes:
        """Leader, replicas and in-sync set."""
        return self._leadership.of(partition)

    def eligible(self, partition: Partition) -> EligibleLeaders:
        """As the controller would say."""
        return self._leadership.eligible(partition)
