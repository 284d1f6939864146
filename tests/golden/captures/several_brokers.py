"""Capture what three Apache Kafkas answer to requests at the right broker, at the wrong one, and while one is down.

Starts a cluster of three Kafkas with racks a, b, c, and writes `several_brokers_kafka_4.3.1.json` in tests/golden;
tests/testing/test_several_brokers_golden.py asks
minibroker the same. Topics have their replicas as they are given here, so that every answer is the same
each time. Topic ids are removed, ports and hosts become names, and lists of partitions are ordered.
"""

from __future__ import annotations

import json
import re
import socket
import struct
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from minibroker.schemas import (
    k00_produce,
    k01_fetch,
    k02_list_offsets,
    k03_metadata,
    k09_offset_fetch,
    k10_find_coordinator,
    k12_heartbeat,
    k15_describe_groups,
    k19_create_topics,
    k22_init_producer_id,
    k23_offset_for_leader_epoch,
    k42_delete_groups,
    k43_elect_leaders,
    k45_alter_partition_reassignments,
    k60_describe_cluster,
    k61_describe_producers,
    k65_describe_transactions,
    k69_consumer_group_describe,
)
from minibroker.wire.api import api_of
from minibroker.wire.codec import decode
from minibroker.wire.header import decode_response_header, response_header_version
from tests.support.broker_in_memory import frame_of, records
from tests.support.java import KAFKA_VERSION
from tests.support.kafka_cluster import KafkaCluster

GOLDEN = Path(__file__).parents[1] / "several_brokers_kafka_4.3.1.json"
TIMEOUT_S = 60.0
CONSUMER, DEBUGGING = -1, -2  #: replica ids
LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
REPLICAS = ([1, 2], [2, 3], [3, 1])  #: of the topic's partitions


class Cluster:
    """Three brokers by their addresses, over sockets."""

    def __init__(self, addresses: Sequence[str], stop: Callable[[int], None]) -> None:
        self.addresses = dict(enumerate(addresses, 1))
        self.stop = stop
        self.said: dict[str, Any] = {}

    def ask(self, node: int, request: Any, version: int | None = None) -> Any:
        host, _, port = self.addresses[node].rpartition(":")
        api = api_of(sys.modules[type(request).__module__])
        number = api.max_version if version is None else version
        frame = bytes(frame_of(request, number))
        with socket.create_connection((host, int(port)), TIMEOUT_S) as connection, connection.makefile("rb") as answers:
            connection.sendall(struct.pack(">i", len(frame)) + frame)
            body = answers.read(struct.unpack(">i", answers.read(4))[0])
        _, position = decode_response_header(body, response_header_version(api, number))
        return decode(api.Response, body[position:], number, flexible=api.flexible(number))

    def note(self, what: str, answer: Any) -> None:
        """Keep an answer as text without what differs each time."""
        text = re.sub(r"UUID\('[^']*'\)", "ID", str(answer))
        for node, address in self.addresses.items():
            host, _, port = address.rpartition(":")
            text = text.replace(port, f"PORT{node}").replace(repr(host), "HOST")
        self.said[what] = text

    def until(self, look: Callable[[], Any], wanted: Callable[[Any], bool]) -> Any:
        deadline = time.monotonic() + TIMEOUT_S
        while not wanted(found := look()):
            assert time.monotonic() < deadline, found
            time.sleep(0.1)
        return found


def create(
    cluster: Cluster, name: str, *, partitions: int = -1, factor: int = -1, replicas: Sequence[list[int]] = (), **configs: str
) -> Any:
    assignments = [k19_create_topics.Assignment(partition_index=index, broker_ids=each) for index, each in enumerate(replicas)]
    settings = [k19_create_topics.Config(name=key.replace("_", "."), value=text) for key, text in configs.items()]
    topic = k19_create_topics.Topic(
        name=name, num_partitions=partitions, replication_factor=factor, assignments=assignments, configs=settings
    )
    return cluster.ask(1, k19_create_topics.Request(topics=[topic], timeout_ms=10_000)).topics[0]


def metadata(cluster: Cluster, topic: str, node: int = 1) -> Any:
    return cluster.ask(node, k03_metadata.Request(topics=[k03_metadata.Topic(name=topic)]))


def converse(cluster: Cluster) -> dict[str, Any]:
    """Send all requests, and return the answers."""
    made = create(cluster, "orders", replicas=REPLICAS, min_insync_replicas="2")
    for what, refused in {
        "four replicas": create(cluster, "no", partitions=1, factor=4),
        "no replicas": create(cluster, "no", partitions=1, factor=0),
        "unknown broker": create(cluster, "no", replicas=[[1, 7]]),
        "a broker twice": create(cluster, "no", replicas=[[1, 1]]),
        "unequal lists": create(cluster, "no", replicas=[[1, 2], [3]]),
    }.items():
        cluster.note(f"create with {what}", (refused.error_code, refused.error_message))
    for node in cluster.addresses:
        cluster.until(partial(metadata, cluster, "orders", node), led)
    note_partitions(cluster, "metadata")
    ask_leaders(cluster, made.topic_id)
    ask_coordinators(cluster)
    ask_controller(cluster)
    ask_followers(cluster, made.topic_id)
    describe_cluster(cluster, "all are there")
    cluster.stop(2)
    cluster.until(lambda: metadata(cluster, "orders"), lambda found: len(found.brokers) == 2 and all_left(found, 2))
    note_partitions(cluster, "metadata without broker 2")
    describe_cluster(cluster, "broker 2 is gone")
    cluster.note("Produce, too few in sync", cluster.ask(1, produce(made.topic_id, 0, acks=-1)))
    cluster.note("elect a preferred leader that is gone", elect(cluster, 1, 0))
    cluster.note("elect uncleanly what has a leader", elect(cluster, 1, 1))
    return cluster.said


def led(found: Any) -> bool:
    return not found.topics[0].error_code and all(not each.error_code for each in found.topics[0].partitions)


def all_left(found: Any, node: int) -> bool:
    return all(node not in each.isr_nodes for each in found.topics[0].partitions)


def note_partitions(cluster: Cluster, what: str) -> None:
    found = metadata(cluster, "orders")
    results = [
        (each.partition_index, each.leader_id, each.replica_nodes, each.isr_nodes, each.offline_replicas, each.error_code)
        for each in sorted(found.topics[0].partitions, key=lambda each: int(each.partition_index))
    ]
    cluster.note(what, (results, [(each.node_id, each.rack) for each in sorted(found.brokers, key=lambda each: int(each.node_id))]))


def produce(topic_id: Any, *indexes: int, acks: int = 1) -> k00_produce.Request:
    partitions = [k00_produce.Partition(index=index, records=records(1)) for index in indexes]
    return k00_produce.Request(
        acks=acks, timeout_ms=3000, topic_data=[k00_produce.Topic(name="orders", topic_id=topic_id, partition_data=partitions)]
    )


def ask_leaders(cluster: Cluster, topic_id: Any) -> None:
    for version in (9, 10, 13):
        cluster.note(f"Produce {version}", cluster.ask(1, produce(topic_id, 1), version))
    cluster.ask(1, produce(topic_id, 0, acks=-1))  # its replica has it, too
    for what, node, version, more in (
        ("at a follower that is too old", 2, 10, {}),
        ("at a stranger", 3, 18, {}),
        ("at a stranger, 13", 3, 13, {}),
        ("at the leader, rack of the follower", 1, 18, {"rack_id": "b"}),
        ("at the leader, its own rack", 1, 18, {"rack_id": "a"}),
        ("at the leader, rack without a replica", 1, 18, {"rack_id": "c"}),
        ("at the leader, read_committed", 1, 18, {"rack_id": "b", "isolation_level": 1}),
    ):
        partition = k01_fetch.Partition(partition=0, fetch_offset=0, partition_max_bytes=1000)
        topic = k01_fetch.Topic(topic="orders", topic_id=topic_id, partitions=[partition])
        answer = cluster.ask(node, k01_fetch.Request(max_wait_ms=500, min_bytes=1, topics=[topic], **more), version)
        result = answer.responses[0].partitions[0]
        response = (
            result.error_code,
            result.high_watermark,
            result.preferred_read_replica,
            bool(result.records),
            result.aborted_transactions,
        )
        cluster.note(f"Fetch {what}", (answer.error_code, response, result.current_leader, answer.node_endpoints))
    offsets = k02_list_offsets.Topic(name="orders", partitions=[k02_list_offsets.Partition(partition_index=0, timestamp=-1)])
    cluster.note("ListOffsets", cluster.ask(3, k02_list_offsets.Request(replica_id=-1, topics=[offsets])))
    place = k23_offset_for_leader_epoch.Partition(partition=0, leader_epoch=0, current_leader_epoch=-1)
    requested_topic = k23_offset_for_leader_epoch.Topic(topic="orders", partitions=[place])
    cluster.note("OffsetForLeaderEpoch", cluster.ask(3, k23_offset_for_leader_epoch.Request(replica_id=-1, topics=[requested_topic])))


def ask_followers(cluster: Cluster, topic_id: Any) -> None:
    """Partition 1 at its leader 2, at its follower 3 and at the stranger 1: what a debugging replica may ask, and the producers."""
    producer_id = cluster.until(
        lambda: cluster.ask(2, k22_init_producer_id.Request(transactional_id=None, transaction_timeout_ms=1000)).producer_id,
        lambda found: found >= 0,
    )
    batch = records(3, producer_id=producer_id, producer_epoch=0, base_sequence=0)
    written = k00_produce.Topic(name="orders", topic_id=topic_id, partition_data=[k00_produce.Partition(index=1, records=batch)])
    (answer,) = cluster.ask(2, k00_produce.Request(acks=-1, timeout_ms=3000, topic_data=[written])).responses
    assert answer.partition_responses[0].error_code == 0, answer
    names = {2: "leader", 3: "follower", 1: "stranger"}

    def offsets(node: int, replica_id: int, timestamp: int, epoch: int = -1, version: int | None = None) -> Any:
        partition = k02_list_offsets.Partition(partition_index=1, timestamp=timestamp, current_leader_epoch=epoch)
        topic = k02_list_offsets.Topic(name="orders", partitions=[partition])
        return cluster.ask(node, k02_list_offsets.Request(replica_id=replica_id, topics=[topic]), version).topics[0].partitions[0]

    cluster.until(lambda: offsets(3, DEBUGGING, LATEST).offset, lambda offset: offset >= 3)
    for node, who in names.items():
        for replica_id in (CONSUMER, DEBUGGING, 1, 3):
            for timestamp in (LATEST, EARLIEST, MAX_TIMESTAMP):
                cluster.note(f"ListOffsets {timestamp} of replica {replica_id} at the {who}", offsets(node, replica_id, timestamp))
        for epoch in (0, 5):
            cluster.note(f"ListOffsets in epoch {epoch} of a debugging replica at the {who}", offsets(node, DEBUGGING, LATEST, epoch))
        for version in (1, 4):
            result = offsets(node, DEBUGGING, LATEST, version=version)
            cluster.note(f"ListOffsets {version} of a debugging replica at the {who}", result)
        place = k23_offset_for_leader_epoch.Partition(partition=1, leader_epoch=0, current_leader_epoch=-1)
        partition = k23_offset_for_leader_epoch.Topic(topic="orders", partitions=[place])
        result = cluster.ask(node, k23_offset_for_leader_epoch.Request(replica_id=DEBUGGING, topics=[partition]))
        cluster.note(f"OffsetForLeaderEpoch of a debugging replica at the {who}", result)
        requested_topic = k61_describe_producers.Topic(name="orders", partition_indexes=[1, 9])
        unknown = k61_describe_producers.Topic(name="absent", partition_indexes=[0])
        result = cluster.ask(node, k61_describe_producers.Request(topics=[requested_topic, unknown]))
        found = str({topic.name: sorted(topic.partitions, key=lambda each: int(each.partition_index)) for topic in result.topics})
        cluster.note(f"DescribeProducers at the {who}", found.replace(f"producer_id={producer_id},", "producer_id=P,"))


def describe_cluster(cluster: Cluster, when: str) -> None:
    """With and without fenced brokers."""
    for version, more in ((0, {}), (1, {}), (2, {"include_fenced_brokers": False}), (2, {"include_fenced_brokers": True})):
        answer = cluster.ask(1, k60_describe_cluster.Request(include_cluster_authorized_operations=False, **more), version)
        brokers = sorted(answer.brokers, key=lambda each: int(each.broker_id))
        cluster.note(f"DescribeCluster {version} {more}, {when}", (answer.error_code, brokers))


def stranger(cluster: Cluster, key_type: int, key: str) -> int:
    """A broker that does not coordinate `key`."""
    request = k10_find_coordinator.Request(key_type=key_type, coordinator_keys=[key])
    found = cluster.until(lambda: cluster.ask(1, request).coordinators[0], lambda each: not each.error_code)
    return next(node for node in cluster.addresses if node != found.node_id)


def ask_coordinators(cluster: Cluster) -> None:
    at = stranger(cluster, k10_find_coordinator.GROUP, "g")
    for what, request, version in (
        ("Heartbeat", k12_heartbeat.Request(group_id="g", generation_id=1, member_id="m"), None),
        ("DescribeGroups", k15_describe_groups.Request(groups=["g"]), None),
        ("OffsetFetch", k09_offset_fetch.Request(groups=[k09_offset_fetch.Group(group_id="g", topics=None)]), None),
        ("OffsetFetch 7", k09_offset_fetch.Request(group_id="g", topics=None), 7),
        ("DeleteGroups", k42_delete_groups.Request(groups_names=["g"]), None),
        ("ConsumerGroupDescribe", k69_consumer_group_describe.Request(group_ids=["g"], include_authorized_operations=False), None),
    ):
        cluster.note(f"{what} at the wrong coordinator", cluster.ask(at, request, version))
    at = stranger(cluster, k10_find_coordinator.TRANSACTION, "t")
    cluster.note("InitProducerId", cluster.ask(at, k22_init_producer_id.Request(transactional_id="t", transaction_timeout_ms=1000)))
    cluster.note("DescribeTransactions", cluster.ask(at, k65_describe_transactions.Request(transactional_ids=["t"])))


def elect(cluster: Cluster, index: int, election_type: int) -> Any:
    topics = [k43_elect_leaders.Topic(topic="orders", partitions=[index])]
    return cluster.ask(1, k43_elect_leaders.Request(election_type=election_type, topic_partitions=topics, timeout_ms=5000))


def ask_controller(cluster: Cluster) -> None:
    cluster.note("elect who leads already", elect(cluster, 0, 0))
    for what, replicas, more in (
        ("more replicas than allowed", [1, 2, 3], {"allow_replication_factor_change": False}),
        ("an unknown broker", [1, 9], {}),
        ("a broker twice", [1, 1], {}),
        ("no broker", [], {}),
        ("nothing", None, {}),
        ("what is there", [1, 2], {}),
    ):
        partition = k45_alter_partition_reassignments.Partition(partition_index=0, replicas=replicas)
        topic = k45_alter_partition_reassignments.Topic(name="orders", partitions=[partition])
        answer = cluster.ask(2, k45_alter_partition_reassignments.Request(timeout_ms=5000, topics=[topic], **more))
        cluster.note(f"reassign to {what}", answer)


def capture() -> None:
    """Ask three Kafkas, and write down what they say."""
    settings = {
        "offsets.topic.num.partitions": "5",
        "transaction.state.log.num.partitions": "5",
        "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    }
    with KafkaCluster(settings) as kafka:
        result = converse(Cluster(kafka.addresses, kafka.stop))
    provenance = f"Apache Kafka {KAFKA_VERSION}, three brokers, tests/golden/captures/several_brokers.py"
    GOLDEN.write_text(json.dumps({"provenance": provenance, "answers": result}, indent=1) + "\n")
