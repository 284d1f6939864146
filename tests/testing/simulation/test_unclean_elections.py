"""Unclean elections with minibroker.like.kafka: what the new leader lacks is lost, from every segment and index, and for good."""

from __future__ import annotations

import pytest

from minibroker.config.broker_properties import LIKE_KAFKA
from minibroker.log.partition_log import PartitionLog
from minibroker.schemas import k23_offset_for_leader_epoch as k23
from tests.support.broker_in_memory import records
from tests.support.nodes_in_memory import NodesInMemory

UNCLEAN: dict[str, str | None] = {"unclean.leader.election.enable": "true"}


def three_nodes(*, like_kafka: bool = True, **configs: str) -> NodesInMemory:
    """With a topic `orders` on nodes 1, 2 and 3, of which any may lead."""
    nodes = NodesInMemory(3, config={LIKE_KAFKA: str(like_kafka).lower()})
    cluster = nodes.broker.cluster
    own = UNCLEAN | {name.replace("_", "."): text for name, text in configs.items()}
    cluster.create_topics([cluster.new_topic("orders", assignments={0: (1, 2, 3)}, configs=own)])
    return nodes


def write(nodes: NodesInMemory, count: int, **options: int) -> None:
    for number in range(count):
        nodes.broker.append("orders", 0, records(1, **({"base_sequence": options["first"] + number} if options else {}), **_ids(options)))


def _ids(options: dict[str, int]) -> dict[str, int]:
    return {"producer_id": options["producer_id"], "producer_epoch": 0} if options else {}


def log_of(nodes: NodesInMemory) -> PartitionLog:
    return nodes.partition("orders").log


def lose(nodes: NodesInMemory) -> None:
    """Node 3 leaves, two more records are written at 1 and 2, which leave too; then 3 is back."""
    nodes.leadership.stop(3)
    write(nodes, 2)
    nodes.leadership.stop(2)
    nodes.leadership.stop(1)
    nodes.leadership.start(3)


def test_records_missing_on_the_new_leader_are_lost() -> None:
    nodes = three_nodes()
    write(nodes, 3)
    lose(nodes)
    log = log_of(nodes)
    assert nodes.leader("orders") == 3
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (0, 3, 3)
    write(nodes, 1)
    nodes.leadership.start(1)
    assert log_of(nodes).log_end_offset == 4


def test_clients_find_out_by_the_leader_epoch() -> None:
    nodes = three_nodes()
    write(nodes, 3)
    before = nodes.partition("orders").leader_epoch
    lose(nodes)
    write(nodes, 1)
    partition = k23.Partition(partition=0, current_leader_epoch=-1, leader_epoch=before)
    request = k23.Request(replica_id=-1, topics=[k23.Topic(topic="orders", partitions=[partition])])
    (topic,) = nodes.ask(request, at=3).topics
    assert [(each.error_code, each.leader_epoch, each.end_offset) for each in topic.partitions] == [(0, before, 3)]


def test_records_of_many_segments_are_lost() -> None:
    nodes = three_nodes(segment_bytes="200", index_interval_bytes="0")
    write(nodes, 20)
    nodes.leadership.stop(3)
    write(nodes, 20)
    assert len(log_of(nodes).segments) > 10
    for node_id in (1, 2):
        nodes.leadership.stop(node_id)
    nodes.leadership.start(3)
    log = log_of(nodes)
    assert (log.log_end_offset, log.segments.active.base_offset) == (20, log.segments.floor(20).base_offset)
    names = nodes.broker.services.cluster.logs._files.names(log.directory)
    assert max(int(name.split(".")[0]) for name in names if name.endswith((".log", ".index", ".timeindex"))) <= 20
    write(nodes, 5)
    again = nodes.broker.restart()
    assert again.cluster.partition("orders", 0).log.log_end_offset == 25


def test_producer_continues_with_the_state_of_the_new_leader() -> None:
    nodes = three_nodes()
    producer_id = nodes.broker.cluster.metadata.allocate_producer_id()
    write(nodes, 3, producer_id=producer_id, first=0)
    nodes.leadership.stop(3)
    write(nodes, 2, producer_id=producer_id, first=3)
    for node_id in (1, 2):
        nodes.leadership.stop(node_id)
    nodes.leadership.start(3)
    write(nodes, 1, producer_id=producer_id, first=3)
    assert log_of(nodes).log_end_offset == 4


def test_a_replica_that_was_in_sync_again_has_everything() -> None:
    nodes = three_nodes()
    nodes.leadership.stop(3)
    write(nodes, 2)
    nodes.leadership.start(3)
    for node_id in (1, 2, 3):
        nodes.leadership.stop(node_id)
    nodes.leadership.start(2)
    assert log_of(nodes).log_end_offset == 2


def test_the_last_replica_that_was_in_sync_loses_nothing() -> None:
    nodes = three_nodes()
    nodes.leadership.stop(3)
    nodes.leadership.stop(2)
    write(nodes, 2)
    nodes.leadership.stop(1)
    nodes.leadership.start(1)
    assert (nodes.leader("orders"), log_of(nodes).log_end_offset) == (1, 2)


@pytest.mark.parametrize("like_kafka", [False, True])
def test_nothing_is_lost_without_the_switch_or_without_an_unclean_election(*, like_kafka: bool) -> None:
    nodes = three_nodes(like_kafka=like_kafka, **({"unclean_leader_election_enable": "false"} if like_kafka else {}))
    write(nodes, 3)
    lose(nodes)
    nodes.leadership.start(1)
    assert log_of(nodes).log_end_offset == 5


def test_internal_topics_lose_nothing() -> None:
    nodes = three_nodes(like_kafka=True)
    nodes.broker.services.coordinators.groups.ensure_topic()
    partition = nodes.partition("__consumer_offsets")
    nodes.broker.cluster.configs.alter_topic("__consumer_offsets", UNCLEAN)
    first, *others = nodes.leadership.state(partition).replicas
    nodes.leadership.stop(first)
    partition.append_own(bytearray(records(2)))
    for node_id in others:
        nodes.leadership.stop(node_id)
    nodes.leadership.start(first)
    assert partition.log.log_end_offset == 2
