"""Who is told to be a broker, a leader, a replica: one broker."""

from __future__ import annotations

from minibroker.cluster.nodes import NO_LEADER, Nodes, PartitionNodes
from minibroker.errors import KafkaStorageError
from tests.support.broker_in_memory import BrokerInMemory


def test_single_broker_leads_every_online_partition() -> None:
    broker = BrokerInMemory(topics={"orders": 2}, config={"node.id": "7"})
    nodes = Nodes(broker.cluster.node)
    first, second = broker.cluster.topic("orders").partitions
    second.take_offline(KafkaStorageError())

    assert [node.node_id for node in nodes.alive] == [7]
    assert nodes.controller_id == 7
    assert nodes.find(7) is broker.cluster.node
    assert nodes.find(8) is None
    assert nodes.of(first) == PartitionNodes(7, [7], [7], [])
    assert nodes.of(second) == PartitionNodes(NO_LEADER, [7], [], [7])
    assert nodes.leads(first)
    assert not nodes.leads(second)
