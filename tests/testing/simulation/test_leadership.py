"""Leaders, in-sync sets and epochs, as Apache Kafka's controller has them: brokers that stop, elections, moves, restarts."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from minibroker.cluster.metadata.frame import run
from minibroker.cluster.nodes import NO_LEADER, PartitionNodes
from minibroker.errors import (
    ElectionNotNeeded,
    EligibleLeadersNotAvailable,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    KafkaError,
    PreferredLeaderNotAvailable,
)
from minibroker.testing.simulation.partition_state import PartitionState
from minibroker.testing.simulation.replica_placement import ASSIGNMENTS_FILE
from tests.support.broker_in_memory import BrokerInMemory, records
from tests.support.nodes_in_memory import NodesInMemory


def placed(nodes: NodesInMemory, *replicas: int, config: dict[str, str | None] | None = None) -> None:
    """A topic `orders` of one partition with these replicas."""
    cluster = nodes.broker.cluster
    cluster.create_topics([cluster.new_topic("orders", assignments={0: replicas}, configs=config)])


def seen(nodes: NodesInMemory) -> tuple[PartitionNodes, int]:
    partition = nodes.partition("orders")
    return nodes.leadership.of(partition), partition.leader_epoch


def test_a_new_topic_is_led_by_its_first_replica() -> None:
    nodes = NodesInMemory(3)
    placed(nodes, 2, 3)

    assert seen(nodes) == (PartitionNodes(2, [2, 3], [2, 3], []), 0)


def test_leadership_of_a_stopped_broker_moves_and_stays() -> None:
    nodes = NodesInMemory(3)
    placed(nodes, 2, 3, 1)
    leadership = nodes.leadership

    leadership.stop(2)
    assert seen(nodes) == (PartitionNodes(3, [2, 3, 1], [3, 1], [2]), 1)
    leadership.stop(2)
    leadership.start(2)
    assert seen(nodes) == (PartitionNodes(3, [2, 3, 1], [2, 3, 1], []), 1)
    leadership.elect_preferred(nodes.partition("orders"))
    assert seen(nodes) == (PartitionNodes(2, [2, 3, 1], [2, 3, 1], []), 2)


def test_stopped_follower_leaves_the_isr() -> None:
    nodes = NodesInMemory(3)
    placed(nodes, 2, 3)

    nodes.leadership.stop(3)

    assert seen(nodes) == (PartitionNodes(2, [2, 3], [2], [3]), 0)


def test_the_last_in_sync_stays_so_and_leads_again() -> None:
    nodes = NodesInMemory(3)
    placed(nodes, 2, 3)
    leadership = nodes.leadership

    leadership.stop(3)
    leadership.stop(2)
    assert seen(nodes) == (PartitionNodes(NO_LEADER, [2, 3], [], [2, 3]), 1)
    leadership.start(3)  # which was not in sync
    assert seen(nodes) == (PartitionNodes(NO_LEADER, [2, 3], [], [2]), 1)
    leadership.start(2)
    assert seen(nodes)[0].leader_id == 2
    assert seen(nodes)[1] == 2


def test_an_unclean_leader_where_the_topic_allows_it() -> None:
    nodes = NodesInMemory(3)
    placed(nodes, 2, 3, config={"unclean.leader.election.enable": "true"})
    nodes.leadership.stop(3)
    nodes.leadership.start(3)
    nodes.leadership.stop(3)
    nodes.leadership.stop(2)
    assert seen(nodes)[0].leader_id == NO_LEADER

    nodes.leadership.start(3)

    assert seen(nodes)[0] == PartitionNodes(3, [2, 3], [3], [2])


def test_requested_elections() -> None:
    nodes = NodesInMemory(3)
    placed(nodes, 2, 3)
    leadership, partition = nodes.leadership, nodes.partition("orders")

    with pytest.raises(ElectionNotNeeded):
        leadership.elect_preferred(partition)
    with pytest.raises(ElectionNotNeeded):
        leadership.elect_unclean(partition)
    leadership.stop(2)
    with pytest.raises(PreferredLeaderNotAvailable):
        leadership.elect_preferred(partition)
    leadership.stop(3)
    with pytest.raises(EligibleLeadersNotAvailable):
        leadership.elect_unclean(partition)
    leadership.start(2)
    leadership.elect_unclean(partition)
    assert seen(nodes)[0] == PartitionNodes(2, [2, 3], [2], [3])


def test_a_leader_is_moved_also_to_a_broker_without_a_replica() -> None:
    nodes = NodesInMemory(3)
    placed(nodes, 2, 3)
    leadership, partition = nodes.leadership, nodes.partition("orders")

    leadership.move(partition, 3)
    assert seen(nodes) == (PartitionNodes(3, [2, 3], [2, 3], []), 1)
    leadership.move(partition, 1)
    assert seen(nodes) == (PartitionNodes(1, [2, 1], [2, 1], []), 2)
    leadership.stop(3)
    with pytest.raises(InvalidReplicaAssignment, match=r"broker 3 cannot lead orders-0: it is not running \(running: 1, 2\)"):
        leadership.move(partition, 3)


def test_leadership_taken_away_can_be_given_back() -> None:
    nodes = NodesInMemory(3)
    placed(nodes, 2, 3)
    leadership, partition = nodes.leadership, nodes.partition("orders")

    leadership.take_away(partition)
    leadership.take_away(partition)
    leadership.stop(2)
    leadership.start(2)
    with pytest.raises(PreferredLeaderNotAvailable):
        leadership.elect_preferred(partition)
    with pytest.raises(EligibleLeadersNotAvailable):
        leadership.elect_unclean(partition)
    assert seen(nodes) == (PartitionNodes(NO_LEADER, [2, 3], [2, 3], []), 1)
    leadership.give_back(partition)
    leadership.give_back(partition)
    assert seen(nodes) == (PartitionNodes(2, [2, 3], [2, 3], []), 2)


def test_another_epoch_is_in_the_data_and_on_the_disk() -> None:
    nodes = NodesInMemory(3)
    placed(nodes, 2, 3)
    nodes.broker.append("orders", 0, records(2))

    nodes.leadership.move(nodes.partition("orders"), 3)
    assert nodes.leadership.bump_epoch(nodes.partition("orders")) == 2
    nodes.broker.append("orders", 0, records(1))

    assert nodes.partition("orders").log.epochs.entries == [(0, 0), (2, 2)]
    assert nodes.broker.restart().cluster.partition("orders", 0).leader_epoch == 3, "the stop ends this leadership"


def test_replicas_are_reassigned_at_once() -> None:
    nodes = NodesInMemory(3)
    placed(nodes, 2, 3)
    partition = nodes.partition("orders")

    nodes.leadership.reassign(partition, [3, 2, 1])
    assert seen(nodes) == (PartitionNodes(2, [3, 2, 1], [3, 2, 1], []), 0)
    nodes.leadership.reassign(partition, [3, 2])  # who is a replica no more is not to be believed
    assert seen(nodes) == (PartitionNodes(2, [3, 2], [3, 2], []), 1)
    nodes.leadership.reassign(partition, [1])
    assert seen(nodes) == (PartitionNodes(1, [1], [1], []), 2)


def test_more_replicas_than_brokers_are_refused() -> None:
    nodes = NodesInMemory(2)

    with pytest.raises(InvalidReplicationFactor, match=r"because only 2 broker\(s\) are registered"):
        nodes.broker.cluster.new_topic("orders", replication_factor=3)
    with pytest.raises(InvalidReplicaAssignment, match="broker 3"):
        nodes.broker.cluster.new_topic("orders", assignments={0: [1, 3]})


def test_added_partitions_use_the_default_or_requested_replicas() -> None:
    nodes = NodesInMemory(3)
    cluster = nodes.broker.cluster
    cluster.create_topic("orders", partition_count=2, replication_factor=2)

    run(cluster.create_partitions_in_steps("orders", 3))
    with pytest.raises(InvalidReplicaAssignment, match=r"with 1 replica\(s\), but this is not consistent .* have 2 replica\(s\)"):
        run(cluster.create_partitions_in_steps("orders", 4, assignments=[[3]]))
    run(cluster.create_partitions_in_steps("orders", 4, assignments=[[3, 1]]))

    found = [nodes.leadership.of(partition).replicas for partition in cluster.topic("orders").partitions]
    assert [len(replicas) for replicas in found] == [2, 2, 2, 2]
    assert found[3] == [3, 1]


def test_a_restart_finds_replicas_again(tmp_path: Path) -> None:
    nodes = NodesInMemory(3, {"usual": 4}, replication_factor=2, folder=tmp_path)
    placed(nodes, 3, 1)
    nodes.broker.cluster.create_topic("gone", replication_factor=1)
    nodes.broker.cluster.delete_topic("gone")
    before = {name: replicas_of(nodes, name) for name in ("usual", "orders")}
    nodes.broker.services.coordinators.stop()
    nodes.broker.cluster.close()

    again = NodesInMemory(3, replication_factor=2, folder=tmp_path)

    assert {name: replicas_of(again, name) for name in ("usual", "orders")} == before
    assert list(json.loads((tmp_path / ASSIGNMENTS_FILE).read_text())["topics"].values()) == [[[3, 1]]]


def test_topics_created_while_a_broker_is_stopped_keep_their_leaders(tmp_path: Path) -> None:
    nodes = NodesInMemory(3, replication_factor=2, folder=tmp_path)
    nodes.leadership.stop(2)
    cluster = nodes.broker.cluster
    cluster.create_topic("one", partition_count=3, replication_factor=1)
    cluster.create_topic("two", partition_count=3)
    for name in ("one", "two"):
        run(cluster.create_partitions_in_steps(name, 6))
    before = {name: replicas_of(nodes, name) for name in ("one", "two")}

    assert {nodes.leader("one", index) for index in range(6)} == {1, 3}
    assert before["one"] == [[nodes.leader("one", index)] for index in range(6)]
    assert all(set(replicas) == {1, 3} for replicas in before["two"])
    nodes.broker.services.coordinators.stop()
    nodes.broker.cluster.close()
    again = NodesInMemory(3, replication_factor=2, folder=tmp_path)
    assert {name: replicas_of(again, name) for name in ("one", "two")} == before


def replicas_of(nodes: NodesInMemory, topic: str) -> list[list[int]]:
    return [nodes.leadership.of(partition).replicas for partition in nodes.broker.cluster.topic(topic).partitions]


def test_replicas_are_spread_again_after_damage_or_fewer_brokers(tmp_path: Path) -> None:
    nodes = NodesInMemory(3, folder=tmp_path)
    placed(nodes, 3, 1)
    nodes.broker.services.coordinators.stop()
    nodes.broker.cluster.close()

    fewer = NodesInMemory(2, replication_factor=2, folder=tmp_path)
    assert sorted(*replicas_of(fewer, "orders")) == [1, 2]
    fewer.broker.services.coordinators.stop()
    fewer.broker.cluster.close()
    (tmp_path / ASSIGNMENTS_FILE).write_text('{"version": 1, "topics": 7}')
    assert sorted(*replicas_of(NodesInMemory(2, replication_factor=2, folder=tmp_path), "orders")) == [1, 2]


def test_single_broker_opens_data_of_several(tmp_path: Path) -> None:
    nodes = NodesInMemory(3, {"orders": 2}, folder=tmp_path)
    nodes.leadership.stop(1)
    nodes.broker.append("orders", 0, records(3))
    nodes.broker.services.coordinators.stop()
    nodes.broker.cluster.close()

    alone = BrokerInMemory(folder=tmp_path)

    assert alone.cluster.partition("orders", 0).log.log_end_offset == 3
    assert alone.cluster.image.partition_record(alone.cluster.partition("orders", 0)).replicas == [1]


def test_last_leader_is_known_without_an_eligible_replica() -> None:
    nodes = NodesInMemory(2, {"orders": 1}, replication_factor=1)
    leadership, partition = nodes.leadership, nodes.partition("orders")
    leader_id = leadership.state(partition).leader_id
    leadership.take_away(partition)
    leadership.take_away(partition)
    assert leadership.eligible(partition) == ([], [])
    leadership.stop(leader_id)
    leadership.give_back(partition)
    assert leadership.eligible(partition) == ([leader_id], [leader_id])
    leadership.start(leader_id)
    assert leadership.eligible(partition) == ([], [])


@pytest.mark.parametrize("seed", range(4))
def test_a_leader_is_always_alive_and_in_sync(seed: int) -> None:
    """Whatever happens; and what has another leader has another epoch."""
    chance = random.Random(seed)
    nodes = NodesInMemory(4, {"orders": 6}, replication_factor=3)
    leadership = nodes.leadership
    partitions = nodes.broker.cluster.topic("orders").partitions
    for _ in range(120):
        before = [(leadership.state(each), each.leader_epoch) for each in partitions]
        partition, node_id = chance.choice(partitions), chance.randint(1, 4)
        steps = (
            lambda node_id=node_id: leadership.stop(node_id),
            lambda node_id=node_id: leadership.start(node_id),
            lambda partition=partition: leadership.elect_preferred(partition),
            lambda partition=partition: leadership.elect_unclean(partition),
            lambda partition=partition, node_id=node_id: leadership.move(partition, node_id),
            lambda partition=partition: leadership.take_away(partition),
            lambda partition=partition: leadership.give_back(partition),
            lambda partition=partition: leadership.reassign(partition, chance.sample(range(1, 5), chance.randint(1, 4))),
        )
        try:
            chance.choice(steps)()
        except KafkaError:
            assert [leadership.state(each) for each in partitions] == [state for state, _ in before]
        for each, (state, epoch) in zip(partitions, before, strict=True):
            check(leadership.state(each), leadership.alive)
            moved = leadership.state(each).leader_id != state.leader_id
            assert each.leader_epoch == epoch + 1 if moved else each.leader_epoch >= epoch


def check(state: PartitionState, alive: set[int]) -> None:
    assert state.in_sync or state.eligible
    assert not set(state.in_sync).intersection(state.eligible)
    if state.leader_id != NO_LEADER:
        assert state.leader_id in state.in_sync
        assert state.in_sync == [each for each in state.replicas if each in alive]
    elif not state.is_taken_away:
        assert not state.in_sync
        assert not alive.intersection(state.eligible)
    assert set(state.in_sync).union(state.eligible) <= set(state.replicas)
