"""A Fetch that waits while its partition gets another leader, loses a replica, or is deleted: as three Apache Kafkas answer it."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

from minibroker.errors import FencedLeaderEpoch, NotLeaderOrFollower
from minibroker.schemas import k01_fetch
from tests.golden.captures.waiting import ANSWERS, AT_ONCE_MS, WAIT_MS, Fetching, converse, fetch_of
from tests.support.broker_in_memory import Pending, records
from tests.support.nodes_in_memory import NodesInMemory

#: Kafka notices the new epoch of these when their time is up, or with the next record
SOONER = {"moved: the next leader", "shrunk: the leader that stays"}


class Brokers:
    """Of the conversation."""

    def __init__(self, nodes: NodesInMemory) -> None:
        self.nodes = nodes

    def ask(self, node: int, request: Any, version: int | None = None) -> Any:
        return self.nodes.ask(request, at=node, version=version)

    def begin(self, node: int, request: Any, version: int | None = None) -> Pending:
        return self.nodes.begin(request, at=node, version=version)

    def let_pass(self, ms: int) -> None:
        self.nodes.broker.clock.advance(ms)


def test_waits_end_like_on_three_kafka_brokers() -> None:
    found = converse(Brokers(NodesInMemory(3, racks=("a", "b", "c"))))

    expected = json.loads(ANSWERS.read_text())["answers"]
    for what in SOONER:
        assert expected[what][0] == "in the end"
        expected[what][0] = "at once"
    assert found == expected


def waiting(nodes: NodesInMemory, *topics: str, at: int, **more: Any) -> Pending:
    each = Fetching(at, version=10, epoch=-1)
    request = fetch_of(each, topics, {name: UUID(int=0) for name in topics}, 0, **more)
    return nodes.begin(request, at=at, version=10)


def codes(pending: Pending) -> list[int]:
    return [each.error_code for topic in pending.answer().responses for each in topic.partitions]


def test_leadership_change_ends_the_wait() -> None:
    nodes = NodesInMemory(3, {"orders": 1, "other": 1})
    leader = nodes.leader("orders")
    nodes.leadership.move(nodes.partition("other"), leader)
    pending, other = waiting(nodes, "orders", at=leader), waiting(nodes, "other", at=leader)

    nodes.leadership.take_away(nodes.partition("orders"))
    nodes.broker.clock.advance(0)

    assert codes(pending) == [NotLeaderOrFollower.code]
    assert not other.is_done
    nodes.broker.append("other", 0, records(1))
    nodes.broker.clock.advance(0)
    assert codes(other) == [0]


def test_records_appended_after_a_move_are_not_read_at_the_old_leader() -> None:
    nodes = NodesInMemory(3, {"orders": 1})
    leader = nodes.leader("orders")
    pending = waiting(nodes, "orders", at=leader)

    nodes.leadership.move(nodes.partition("orders"), nodes.other("orders"))
    nodes.broker.append("orders", 0, records(1))
    nodes.broker.clock.advance(0)

    assert codes(pending) == [NotLeaderOrFollower.code]


def test_settled_partition_ends_the_wait_of_its_session() -> None:
    nodes = NodesInMemory(3, {"orders": 1})
    leader = nodes.leader("orders")
    opened = waiting(nodes, "orders", at=leader, session_epoch=0, max_wait_ms=0).answer().session_id
    pending = waiting(nodes, at=leader, session_id=opened, session_epoch=1, max_wait_ms=0)
    assert pending.answer().responses == [], "it is settled"
    pending = waiting(nodes, at=leader, session_id=opened, session_epoch=2)

    nodes.leadership.move(nodes.partition("orders"), nodes.other("orders"))
    nodes.broker.clock.advance(0)

    assert codes(pending) == [NotLeaderOrFollower.code]


def test_follower_fetch_is_notified_of_a_new_leader() -> None:
    nodes = NodesInMemory(3, {"orders": 1})
    partition = nodes.partition("orders")
    leader, follower, other = nodes.leadership.of(partition).replicas
    topic = k01_fetch.Topic(
        topic_id=partition.topic_id,
        partitions=[k01_fetch.Partition(partition=0, fetch_offset=0, current_leader_epoch=0, partition_max_bytes=100)],
    )
    pending = nodes.begin(k01_fetch.Request(max_wait_ms=WAIT_MS, min_bytes=1, topics=[topic]), at=follower)

    nodes.leadership.stop(leader)
    nodes.broker.clock.advance(AT_ONCE_MS)

    assert codes(pending) == [FencedLeaderEpoch.code]
    assert pending.answer().responses[0].partitions[0].current_leader.leader_id in {follower, other}
