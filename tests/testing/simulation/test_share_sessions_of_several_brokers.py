"""A member of a share group that speaks to several brokers has a session with each, and hears of leaders that move."""

from __future__ import annotations

import pytest

from minibroker.coordinator.share_state.records import InitialState
from minibroker.errors import NotLeaderOrFollower, ShareSessionNotFound
from minibroker.schemas import k78_share_fetch as schema
from tests.support.broker_in_memory import Pending, records
from tests.support.nodes_in_memory import NodesInMemory

MEMBER, OTHER = "AAAAAAAAAAAAAAAAAAAAAA", "BBBBBBBBBBBBBBBBBBBBBB"


@pytest.fixture
def nodes() -> NodesInMemory:
    """Each node leads a partition."""
    nodes = NodesInMemory(3, {"orders": 3})
    for index in range(3):
        nodes.broker.append("orders", index, records(1))
    persister, topic_id = nodes.broker.services.coordinators.share_persister, nodes.partition("orders").topic_id
    persister.ensure_topic()
    persister.initialize("readers", [InitialState(topic_id, index, 1, 0) for index in range(3)])
    assert {nodes.leader("orders", index) for index in range(3)} == {1, 2, 3}
    return nodes


def begin(nodes: NodesInMemory, at: int, epoch: int, *indexes: int, max_wait_ms: int = 0, member: str = MEMBER) -> Pending:
    partitions = [schema.Partition(partition_index=index, acknowledgement_batches=[]) for index in indexes]
    request = schema.Request(
        group_id="readers",
        member_id=member,
        share_session_epoch=epoch,
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_records=100,
        batch_size=100,
        topics=[schema.Topic(topic_id=nodes.partition("orders").topic_id, partitions=partitions)] if partitions else [],
        forgotten_topics_data=[],
    )
    return nodes.begin(request, at=at)


def acquired(pending: Pending) -> dict[int, tuple[int, int]]:
    """Error code and number of records by partition."""
    answer = pending.answer()
    assert answer.error_code == 0
    return {
        each.partition_index: (each.error_code, sum(found.last_offset - found.first_offset + 1 for found in each.acquired_records))
        for topic in answer.responses
        for each in topic.partitions
    }


def test_each_broker_has_its_own_session_with_a_member(nodes: NodesInMemory) -> None:
    for index in range(3):
        assert acquired(begin(nodes, nodes.leader("orders", index), 0, index)) == {index: (0, 1)}
        nodes.broker.append("orders", index, records(1))
    for index in range(3):
        assert acquired(begin(nodes, nodes.leader("orders", index), 1)) == {index: (0, 1)}, "it goes on there"


def test_closing_a_session_releases_the_records_of_its_broker(nodes: NodesInMemory) -> None:
    first, second = nodes.leader("orders", 0), nodes.leader("orders", 1)
    for index, at in enumerate((first, second)):
        assert acquired(begin(nodes, at, 0, index)) == {index: (0, 1)}

    assert acquired(begin(nodes, first, -1)) == {}

    assert acquired(begin(nodes, first, 0, 0, member=OTHER)) == {0: (0, 1)}
    assert acquired(begin(nodes, second, 0, 1, member=OTHER)) == {1: (0, 0)}, "the first one has it still"
    assert begin(nodes, first, 1).answer().error_code == ShareSessionNotFound.code
    assert acquired(begin(nodes, second, 1)) == {}


def test_member_that_left_has_no_session_on_any_broker(nodes: NodesInMemory) -> None:
    for index in range(2):
        begin(nodes, nodes.leader("orders", index), 0, index)

    nodes.broker.services.coordinators.share_partitions.end_sessions("readers", MEMBER)

    for index in range(2):
        at = nodes.leader("orders", index)
        assert begin(nodes, at, 1).answer().error_code == ShareSessionNotFound.code
        assert acquired(begin(nodes, at, 0, index, member=OTHER)) == {index: (0, 1)}


def test_waiting_fetch_is_answered_when_leadership_moves(nodes: NodesInMemory) -> None:
    leader, other = nodes.leader("orders", 0), nodes.other("orders", 0)
    assert acquired(begin(nodes, leader, 0, 0)) == {0: (0, 1)}
    pending = begin(nodes, leader, 1, max_wait_ms=60_000)

    nodes.leadership.move(nodes.partition("orders", 0), other)
    nodes.broker.append("orders", 0, records(1))
    nodes.broker.clock.advance(0)

    assert acquired(pending) == {0: (NotLeaderOrFollower.code, 0)}
    assert pending.answer().responses[0].partitions[0].current_leader.leader_id == other
    assert acquired(begin(nodes, other, 0, 0)) == {0: (0, 1)}
