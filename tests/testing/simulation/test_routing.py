"""The answers of a broker to requests that another one has to serve."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from minibroker.cluster.nodes import NO_LEADER
from minibroker.errors import (
    CoordinatorNotAvailable,
    ElectionNotNeeded,
    FencedLeaderEpoch,
    InvalidReplicationFactor,
    InvalidRequest,
    LeaderNotAvailable,
    NotCoordinator,
    NotEnoughReplicas,
    NotLeaderOrFollower,
    UnknownLeaderEpoch,
)
from minibroker.schemas import (
    k00_produce,
    k01_fetch,
    k02_list_offsets,
    k03_metadata,
    k09_offset_fetch,
    k10_find_coordinator,
    k12_heartbeat,
    k15_describe_groups,
    k16_list_groups,
    k19_create_topics,
    k22_init_producer_id,
    k32_describe_configs,
    k35_describe_log_dirs,
    k43_elect_leaders,
    k44_incremental_alter_configs,
    k45_alter_partition_reassignments,
    k60_describe_cluster,
    k75_describe_topic_partitions,
)
from minibroker.testing.simulation.routing import NOWHERE
from tests.support.broker_in_memory import records
from tests.support.committed_offsets import commit_request
from tests.support.nodes_in_memory import NodesInMemory


@pytest.fixture
def nodes() -> NodesInMemory:
    return NodesInMemory(3, {"orders": 3}, racks=("a", "b", "c"), replication_factor=2, config={"offsets.topic.num.partitions": "5"})


def produce(nodes: NodesInMemory, *indexes: int, acks: int = 1) -> k00_produce.Request:
    partitions = [k00_produce.Partition(index=index, records=records(1)) for index in indexes]
    topic = k00_produce.Topic(topic_id=nodes.partition("orders").topic_id, partition_data=partitions)
    return k00_produce.Request(acks=acks, timeout_ms=1000, topic_data=[topic])


def fetch(nodes: NodesInMemory, *indexes: int, **more: Any) -> k01_fetch.Request:
    partitions = [k01_fetch.Partition(partition=index, fetch_offset=0, partition_max_bytes=1 << 20) for index in indexes]
    topic = k01_fetch.Topic(topic_id=nodes.partition("orders").topic_id, topic="orders", partitions=partitions)
    return k01_fetch.Request(max_wait_ms=5000, min_bytes=1, topics=[topic], **more)


def results(response: Any) -> dict[int, Any]:
    (topic,) = response.responses
    partitions = topic.partition_responses if isinstance(topic, k00_produce.TopicResult) else topic.partitions
    return {each.index if isinstance(each, k00_produce.PartitionResult) else each.partition_index: each for each in partitions}


def test_metadata_is_the_same_at_each_broker(nodes: NodesInMemory) -> None:
    nodes.leadership.stop(2)
    nodes.leadership.take_away(nodes.partition("orders", 1))
    request = k03_metadata.Request(topics=None)

    first, third = nodes.ask(request, at=1), nodes.ask(request, at=3)

    assert first == third
    assert [(broker.node_id, broker.port, broker.rack) for broker in first.brokers] == [(1, 9092, "a"), (3, 9094, "c")]
    assert first.controller_id == 1
    for partition in first.topics[0].partitions:
        shown = nodes.leadership.of(nodes.partition("orders", partition.partition_index))
        assert (partition.leader_id, partition.replica_nodes, partition.isr_nodes, partition.offline_replicas) == shown
        assert 2 not in partition.isr_nodes
    taken = first.topics[0].partitions[1]
    assert (taken.leader_id, taken.error_code) == (NO_LEADER, LeaderNotAvailable.code)
    described = nodes.ask(k75_describe_topic_partitions.Request(topics=[]), at=3).topics[0]
    assert [each.replica_nodes for each in described.partitions] == [each.replica_nodes for each in first.topics[0].partitions]
    cluster = nodes.ask(k60_describe_cluster.Request(include_cluster_authorized_operations=False), at=3)
    assert [broker.broker_id for broker in cluster.brokers] == [1, 3]


def test_only_leaders_accept_produce(nodes: NodesInMemory) -> None:
    leader = nodes.leader("orders", 0)
    response = nodes.ask(produce(nodes, 0, 1, 2), at=leader)

    found = results(response)
    assert [found[index].error_code for index in range(3)] == [0, NotLeaderOrFollower.code, NotLeaderOrFollower.code]
    assert [found[index].current_leader.leader_id for index in range(3)] == [-1, nodes.leader("orders", 1), nodes.leader("orders", 2)]
    assert {each.node_id for each in response.node_endpoints} == {1, 2, 3} - {leader}
    assert [nodes.partition("orders", index).log.log_end_offset for index in range(3)] == [1, 0, 0]


def test_a_produce_to_a_leader_that_was_moved_away(nodes: NodesInMemory) -> None:
    before = nodes.leader("orders")
    nodes.leadership.move(nodes.partition("orders"), nodes.other("orders"))

    assert results(nodes.ask(produce(nodes, 0), at=before))[0].error_code == NotLeaderOrFollower.code
    assert results(nodes.ask(produce(nodes, 0), at=nodes.leader("orders")))[0].error_code == 0


def test_acks_all_needs_min_insync_replicas(nodes: NodesInMemory) -> None:
    nodes.broker.cluster.configs.alter_topic("orders", {"min.insync.replicas": "2"})
    leader, follower = nodes.leadership.of(nodes.partition("orders")).replicas
    nodes.leadership.stop(follower)

    assert results(nodes.ask(produce(nodes, 0, acks=-1), at=leader))[0].error_code == NotEnoughReplicas.code
    assert results(nodes.ask(produce(nodes, 0, acks=1), at=leader))[0].error_code == 0
    nodes.leadership.start(follower)
    assert results(nodes.ask(produce(nodes, 0, acks=-1), at=leader))[0].error_code == 0


def test_min_insync_replicas_is_capped_at_the_replica_count(nodes: NodesInMemory) -> None:
    nodes.broker.cluster.configs.alter_topic("orders", {"min.insync.replicas": "3"})
    leader, follower = nodes.leadership.of(nodes.partition("orders")).replicas

    assert results(nodes.ask(produce(nodes, 0, acks=-1), at=leader))[0].error_code == 0
    nodes.leadership.stop(follower)
    assert results(nodes.ask(produce(nodes, 0, acks=-1), at=leader))[0].error_code == NotEnoughReplicas.code


def test_records_are_read_from_any_replica_and_nowhere_else(nodes: NodesInMemory) -> None:
    nodes.broker.append("orders", 0, records(3))
    leader, follower = nodes.leadership.of(nodes.partition("orders")).replicas
    (stranger,) = {1, 2, 3} - {leader, follower}

    assert results(nodes.ask(fetch(nodes, 0), at=leader))[0].records
    assert results(nodes.ask(fetch(nodes, 0), at=follower))[0].records
    refused = nodes.ask(fetch(nodes, 0), at=stranger)
    assert results(refused)[0].error_code == NotLeaderOrFollower.code
    assert results(refused)[0].current_leader.leader_id == leader
    assert results(nodes.ask(fetch(nodes, 0), at=follower, version=10))[0].error_code == NotLeaderOrFollower.code


def test_a_consumer_is_sent_to_a_replica_in_its_rack(nodes: NodesInMemory) -> None:
    nodes.broker.append("orders", 0, records(3))
    leader, follower = nodes.leadership.of(nodes.partition("orders")).replicas
    racks = {1: "a", 2: "b", 3: "c"}

    sent = results(nodes.ask(fetch(nodes, 0, rack_id=racks[follower]), at=leader))[0]
    assert (sent.preferred_read_replica, sent.records, sent.error_code, sent.high_watermark) == (follower, b"", 0, 3)
    for rack, node_id in ((racks[follower], follower), (racks[leader], leader), ("elsewhere", leader), ("", leader)):
        read = results(nodes.ask(fetch(nodes, 0, rack_id=rack), at=node_id))[0]
        assert (read.preferred_read_replica, bool(read.records)) == (-1, True)
    nodes.leadership.stop(follower)
    assert results(nodes.ask(fetch(nodes, 0, rack_id=racks[follower]), at=leader))[0].preferred_read_replica == -1


def test_a_consumer_in_a_session_is_sent_to_a_replica_that_came_back(nodes: NodesInMemory) -> None:
    """The leader names the replica also without new records, and in each answer until the consumer leaves."""
    leader, follower = nodes.leadership.of(nodes.partition("orders")).replicas
    rack = {1: "a", 2: "b", 3: "c"}[follower]
    nodes.leadership.stop(follower)
    opening = nodes.begin(fetch(nodes, 0, session_epoch=0, rack_id=rack), at=leader)
    nodes.broker.clock.advance(5000)
    opened = opening.answer()
    assert results(opened)[0].preferred_read_replica == NOWHERE

    def goes_on(epoch: int) -> k01_fetch.Request:
        return k01_fetch.Request(max_wait_ms=5000, min_bytes=1, topics=[], session_id=opened.session_id, session_epoch=epoch, rack_id=rack)

    waiting = nodes.begin(goes_on(1), at=leader)
    nodes.leadership.start(follower)
    nodes.broker.clock.advance(5000)
    assert waiting.answer().responses == []
    for epoch in (2, 3):
        result = results(nodes.ask(goes_on(epoch), at=leader))[0]
        assert (result.preferred_read_replica, result.error_code, result.high_watermark, result.records) == (follower, 0, 0, b"")


def test_a_partition_of_a_fetch_session_that_moves_away(nodes: NodesInMemory) -> None:
    leader = nodes.leader("orders")
    nodes.broker.append("orders", 0, records(1))
    opened = nodes.ask(fetch(nodes, 0, session_epoch=0), at=leader)
    stranger = next(node for node in (1, 2, 3) if node not in nodes.leadership.of(nodes.partition("orders")).replicas)
    nodes.leadership.reassign(nodes.partition("orders"), [stranger])

    request = k01_fetch.Request(max_wait_ms=5000, min_bytes=1, topics=[], session_id=opened.session_id, session_epoch=1)
    moved = results(nodes.ask(request, at=leader))[0]

    assert (moved.error_code, moved.current_leader.leader_id) == (NotLeaderOrFollower.code, stranger)


def test_only_leaders_answer_list_offsets(nodes: NodesInMemory) -> None:
    partitions = [k02_list_offsets.Partition(partition_index=index, timestamp=-1) for index in range(3)]
    request = k02_list_offsets.Request(replica_id=-1, topics=[k02_list_offsets.Topic(name="orders", partitions=partitions)])

    for node_id in (1, 2, 3):
        (topic,) = nodes.ask(request, at=node_id).topics
        found = {each.partition_index: each.error_code for each in topic.partitions}
        expected = {index: 0 if nodes.leader("orders", index) == node_id else NotLeaderOrFollower.code for index in range(3)}
        assert found == expected


@pytest.mark.parametrize("version", [4, 8])
def test_a_replica_looks_at_the_epoch_first(nodes: NodesInMemory, version: int) -> None:
    partition = nodes.partition("orders")
    before = nodes.leader("orders")
    nodes.leadership.move(partition, nodes.leadership.of(partition).replicas[1])
    (stranger,) = {1, 2, 3} - set(nodes.leadership.of(partition).replicas)

    def code(at: int, epoch: int) -> int:
        requested_partition = k02_list_offsets.Partition(partition_index=0, current_leader_epoch=epoch, timestamp=-1)
        request = k02_list_offsets.Request(replica_id=-1, topics=[k02_list_offsets.Topic(name="orders", partitions=[requested_partition])])
        found: int = nodes.ask(request, at=at, version=version).topics[0].partitions[0].error_code
        return found

    epoch = partition.leader_epoch
    assert [code(before, each) for each in (epoch - 1, epoch, epoch + 1, -1)] == [
        FencedLeaderEpoch.code, NotLeaderOrFollower.code, UnknownLeaderEpoch.code, NotLeaderOrFollower.code
    ]  # fmt: skip
    assert code(stranger, epoch - 1) == NotLeaderOrFollower.code


def coordinator(nodes: NodesInMemory, key: str, key_type: int = k10_find_coordinator.GROUP) -> int:
    request = k10_find_coordinator.Request(key_type=key_type, coordinator_keys=[key])
    (found,) = nodes.ask(request, at=1).coordinators
    assert found.error_code == 0
    assert nodes.ask(request, at=2).coordinators == [found]
    node_id: int = found.node_id
    return node_id


def test_groups_are_spread_and_served_by_their_coordinators(nodes: NodesInMemory) -> None:
    groups = {f"group-{number}": coordinator(nodes, f"group-{number}") for number in range(12)}
    assert set(groups.values()) == {1, 2, 3}
    for group, node_id in groups.items():
        request = k12_heartbeat.Request(group_id=group, generation_id=1, member_id="m")
        for at in (1, 2, 3):
            is_refused = nodes.ask(request, at=at).error_code == NotCoordinator.code
            assert is_refused == (at != node_id)


def test_each_of_several_groups_is_answered_for_itself(nodes: NodesInMemory) -> None:
    groups = {f"group-{number}": coordinator(nodes, f"group-{number}") for number in range(6)}

    described = nodes.ask(k15_describe_groups.Request(groups=list(groups)), at=2).groups
    assert {each.group_id: each.error_code == NotCoordinator.code for each in described} == {
        group: node_id != 2 for group, node_id in groups.items()
    }
    requested_groups = [k09_offset_fetch.Group(group_id=group, topics=None) for group in groups]
    fetched = nodes.ask(k09_offset_fetch.Request(groups=requested_groups), at=2).groups
    assert {each.group_id: each.error_code for each in fetched} == {
        group: 0 if node_id == 2 else NotCoordinator.code for group, node_id in groups.items()
    }
    single = k09_offset_fetch.Request(group_id="group-0", topics=None)
    assert (nodes.ask(single, at=2, version=7).error_code == NotCoordinator.code) == (groups["group-0"] != 2)


def test_each_broker_lists_the_groups_that_it_coordinates(nodes: NodesInMemory) -> None:
    groups = {f"group-{number}": coordinator(nodes, f"group-{number}") for number in range(6)}
    for group, node_id in groups.items():
        committed = nodes.ask(commit_request({("orders", 0): 1}, group=group), at=node_id, version=9)
        assert committed.topics[0].partitions[0].error_code == 0

    for at in (1, 2, 3):
        listed = nodes.ask(k16_list_groups.Request(), at=at).groups
        assert {each.group_id for each in listed} == {group for group, node_id in groups.items() if node_id == at}


def test_transactional_ids_have_coordinators(nodes: NodesInMemory) -> None:
    node_id = coordinator(nodes, "t", k10_find_coordinator.TRANSACTION)
    request = k22_init_producer_id.Request(transactional_id="t", transaction_timeout_ms=1000)

    for at in (1, 2, 3):
        assert nodes.ask(request, at=at).error_code == (0 if at == node_id else NotCoordinator.code)
        assert nodes.ask(k22_init_producer_id.Request(transactional_id=None, transaction_timeout_ms=0), at=at).error_code == 0


def test_a_coordinator_moves_with_the_leader_of_its_partition() -> None:
    nodes = NodesInMemory(2, replication_factor=2, config={"offsets.topic.replication.factor": "2", "offsets.topic.num.partitions": "1"})
    before = coordinator(nodes, "g")

    nodes.leadership.stop(before)

    request = k10_find_coordinator.Request(key_type=0, coordinator_keys=["g"])
    other = 3 - before
    assert nodes.ask(request, at=other).coordinators[0].node_id == other
    nodes.leadership.stop(other)
    assert nodes.ask(request, at=other).coordinators[0].error_code == CoordinatorNotAvailable.code


def test_directories_have_the_replicas_of_their_broker(nodes: NodesInMemory) -> None:
    for at in (1, 2, 3):
        (directory,) = nodes.ask(k35_describe_log_dirs.Request(topics=None), at=at).results
        found = {each.partition_index for topic in directory.topics for each in topic.partitions}
        assert found == {index for index in range(3) if at in nodes.leadership.of(nodes.partition("orders", index)).replicas}


def test_topics_have_the_requested_replication_factor(nodes: NodesInMemory) -> None:
    def create(name: str, replication_factor: int) -> k19_create_topics.TopicResult:
        topic = k19_create_topics.Topic(name=name, num_partitions=2, replication_factor=replication_factor, assignments=[], configs=[])
        (result,) = nodes.ask(k19_create_topics.Request(topics=[topic], timeout_ms=1000), at=3).topics
        assert isinstance(result, k19_create_topics.TopicResult)
        return result

    assert [create(f"t{count}", count).replication_factor for count in (1, 3, -1)] == [1, 3, 2]
    assert [len(nodes.leadership.of(nodes.partition(name)).replicas) for name in ("t1", "t3", "t-1")] == [1, 3, 2]
    assert create("t4", 4).error_code == InvalidReplicationFactor.code


def test_elections_and_reassignments_by_request(nodes: NodesInMemory) -> None:
    leader, follower = nodes.leadership.of(nodes.partition("orders")).replicas
    elect = k43_elect_leaders.Request(
        election_type=0, topic_partitions=[k43_elect_leaders.Topic(topic="orders", partitions=[0])], timeout_ms=1000
    )
    assert elected(nodes.ask(elect, at=1)) == {0: ElectionNotNeeded.code}
    nodes.leadership.move(nodes.partition("orders"), follower)
    assert elected(nodes.ask(elect, at=1)) == {0: 0}
    assert nodes.leader("orders") == leader
    nodes.leadership.move(nodes.partition("orders"), follower)
    assert elected(nodes.ask(k43_elect_leaders.Request(election_type=0, topic_partitions=None, timeout_ms=1000), at=2)) == {0: 0}

    partition = k45_alter_partition_reassignments.Partition(partition_index=0, replicas=[3, 1, 2])
    topic = k45_alter_partition_reassignments.Topic(name="orders", partitions=[partition])
    request = k45_alter_partition_reassignments.Request(timeout_ms=1000, topics=[topic], allow_replication_factor_change=False)
    (result,) = nodes.ask(request, at=2).responses[0].partitions
    assert (result.error_code, result.error_message) == (InvalidReplicationFactor.code, "The replication factor is changed from 2 to 3")
    request = k45_alter_partition_reassignments.Request(timeout_ms=1000, topics=[topic])
    assert nodes.ask(request, at=2).responses[0].partitions[0].error_code == 0
    assert nodes.leadership.of(nodes.partition("orders")).replicas == [3, 1, 2]


def elected(response: k43_elect_leaders.Response) -> dict[int, int]:
    return {each.partition_id: each.error_code for topic in response.replica_election_results for each in topic.partition_result}


def test_each_broker_describes_its_own_configs() -> None:
    addresses = {"listeners": "PLAINTEXT://:7000", "advertised.listeners": "PLAINTEXT://somewhere:8000"}
    nodes = NodesInMemory(3, racks=("a", "b", "c"), config=addresses)
    resource = k32_describe_configs.Resource(resource_type=4, resource_name="3", configuration_keys=None)
    (found,) = nodes.ask(k32_describe_configs.Request(resources=[resource]), at=3).results

    values = {config.name: config.value for config in found.configs}
    assert (values["node.id"], values["broker.id"], values["broker.rack"]) == ("3", "3", "c")
    assert (values["listeners"], values["advertised.listeners"]) == ("PLAINTEXT://:7002", "PLAINTEXT://somewhere:8002")
    (refused,) = nodes.ask(k32_describe_configs.Request(resources=[resource]), at=1).results
    assert refused.error_message.startswith("Unexpected broker id, expected 1")


def test_each_broker_has_its_own_dynamic_configs_and_keeps_them(tmp_path: Path) -> None:
    nodes = NodesInMemory(3, folder=tmp_path)

    def alter(at: int, name: str, value: str) -> int:
        change = k44_incremental_alter_configs.Config(name="max.connections", config_operation=0, value=value)
        resource = k44_incremental_alter_configs.Resource(resource_type=4, resource_name=name, configs=[change])
        (result,) = nodes.ask(k44_incremental_alter_configs.Request(resources=[resource], validate_only=False), at=at).responses
        assert isinstance(result.error_code, int)
        return result.error_code

    def in_force(nodes: NodesInMemory) -> list[int]:
        return [nodes.broker.cluster.configs.of_broker(node_id).max_connections for node_id in (1, 2, 3)]

    assert alter(3, "", "30") == 0
    assert alter(2, "2", "20") == 0
    assert alter(1, "2", "10") == InvalidRequest.code
    assert alter(2, "2", "none") == InvalidRequest.code
    assert alter(2, "", "none") == InvalidRequest.code
    assert in_force(nodes) == [30, 20, 30]
    nodes.broker.services.coordinators.stop()
    nodes.broker.cluster.close()
    assert in_force(NodesInMemory(3, folder=tmp_path)) == [30, 20, 30]
