"""Several brokers to clients, without sockets: `BrokerInMemory` asked at this node or at that.

nodes = NodesInMemory(3, topics={"orders": 3}, racks=("a", "b"))
nodes.ask(k03.Request(...), at=2)
nodes.leadership.stop(2)
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from minibroker.cluster.partition import Partition
from minibroker.dispatch.context import ConnectionInfo
from minibroker.dispatch.dispatcher import Dispatcher
from minibroker.storage.files import RealFiles
from minibroker.testing.simulation.broker import SimulatedNodes, nodes_of
from minibroker.testing.simulation.leadership import SimulatedLeadership
from minibroker.testing.simulation.routing import with_routing
from minibroker.wire.api import api_of
from tests.support.broker_in_memory import LISTENER, BrokerInMemory, Pending, frame_of


class NodesInMemory:
    """Nodes 1, 2, ... of one broker; topics have `replication_factor` replicas unless their creator says otherwise."""

    def __init__(
        self,
        count: int,
        topics: Mapping[str, int] | None = None,
        *,
        replication_factor: int = 3,
        racks: Sequence[str] = (),
        config: Mapping[str, str] | None = None,
        folder: Path | None = None,
    ) -> None:
        said = {"default.replication.factor": str(replication_factor)} | dict(config or {})
        self.broker = BrokerInMemory(config=said, folder=folder)
        cluster, services = self.broker.cluster, self.broker.services
        self.leadership = SimulatedLeadership(cluster, nodes_of(self.broker.config, cluster.node, count, racks), RealFiles())
        services.registry = with_routing(services.registry)
        self._dispatchers = {}
        for node in self.leadership.nodes.values():
            self._dispatchers[node.node_id] = Dispatcher(services.seen_from(SimulatedNodes(node, self.leadership)))
        self.connection = ConnectionInfo(LISTENER, "127.0.0.1")
        for name, partition_count in (topics or {}).items():
            cluster.create_topic(name, partition_count=partition_count)

    def partition(self, topic: str, index: int = 0) -> Partition:
        return self.broker.cluster.partition(topic, index)

    def leader(self, topic: str, index: int = 0) -> int:
        return self.leadership.of(self.partition(topic, index)).leader_id

    def other(self, topic: str, index: int = 0) -> int:
        """A node that does not lead it."""
        return next(node_id for node_id in self.leadership.nodes if node_id != self.leader(topic, index))

    def ask(self, request: Any, *, at: int, version: int | None = None) -> Any:
        """As BrokerInMemory.ask."""
        return self.begin(request, at=at, version=version).answer()

    def begin(self, request: Any, *, at: int, version: int | None = None) -> Pending:
        """As BrokerInMemory.begin."""
        api = api_of(sys.modules[type(request).__module__])
        number = api.max_version if version is None else version
        return Pending(api, number, self._dispatchers[at].dispatch(self.connection, frame_of(request, version)))
