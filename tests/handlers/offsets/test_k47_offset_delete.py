"""OffsetDelete: codes as Apache Kafka 4.3.1 gave them to the same requests (raw frames, one KRaft node, 2026-11-21).

What a group does when: tests/coordinator/group/classic.
"""

from __future__ import annotations

from minibroker.coordinator.group.kind import Membership
from minibroker.coordinator.group.offsets import NewOffset
from minibroker.schemas import k47_offset_delete as schema
from tests.support.broker_in_memory import BrokerInMemory
from tests.support.committed_offsets import broker_with_groups, commit, fetch
from tests.support.group_members import begin_join, join, leave, stable

Codes = list[tuple[str, list[tuple[int, int]]]]


def delete(broker: BrokerInMemory, group: str, *topics: tuple[str, int]) -> tuple[int, Codes]:
    partitions = [schema.Topic(name=name, partitions=[schema.Partition(partition_index=index)]) for name, index in topics]
    answer = broker.ask(schema.Request(group_id=group, topics=partitions), 0)
    return answer.error_code, [
        (topic.name, [(each.partition_index, each.error_code) for each in topic.partitions]) for topic in answer.topics
    ]


def test_offsets_of_a_simple_group() -> None:
    broker = broker_with_groups({"a": 2})
    commit(broker, {("a", 0): 1, ("a", 1): 2})
    assert delete(broker, "readers", ("a", 0), ("absent", 0), ("a", 9)) == (0, [("absent", [(0, 3)]), ("a", [(9, 3), (0, 0)])])
    assert fetch(broker) == {("a", 1): 2}
    assert fetch(broker.restart(clean=False)) == {("a", 1): 2}


def test_offsets_of_subscribed_topics_cannot_be_deleted() -> None:
    broker = broker_with_groups({"a": 1, "b": 1})
    commit(broker, {("a", 0): 1, ("b", 0): 2})
    joined = stable(broker)
    assert delete(broker, "readers", ("a", 0), ("b", 0)) == (0, [("a", [(0, 86)]), ("b", [(0, 0)])])
    assert fetch(broker) == {("a", 0): 1}
    begin_join(broker, join(broker).member_id)
    assert delete(broker, "readers", ("a", 0))[1] == [("a", [(0, 86)])]
    leave(broker, (joined.member_id, None))


def test_when_all_have_left() -> None:
    broker = broker_with_groups({"a": 1})
    joined = stable(broker)
    leave(broker, (joined.member_id, None))
    commit(broker, {("a", 0): 1})
    assert delete(broker, "readers", ("a", 0)) == (0, [("a", [(0, 0)])])
    assert fetch(broker) == {}


def test_request_is_refused_as_a_whole() -> None:
    broker = broker_with_groups({"a": 1})
    assert delete(broker, "absent", ("a", 0)) == (69, [])
    assert delete(broker, "", ("a", 0)) == (24, [])
    for group, code in (("absent", 69), ("", 24)):
        assert delete(broker, group) == (code, [])
        assert delete(broker, group, ("absent", 0)) == (code, [])
        assert delete(broker, group, ("a", 0), ("a", 7), ("absent", 0)) == (code, [])
    commit(broker, {("a", 0): 1})
    assert delete(broker, "readers") == (0, [])
    assert delete(broker, "readers", ("absent", 0)) == (0, [("absent", [(0, 3)])])
    commit(broker, {("a", 0): 1}, group="")
    assert delete(broker, "", ("a", 0)) == (24, [])
    assert delete(BrokerInMemory({"a": 1}), "readers", ("a", 0)) == (16, [])
    assert join(broker, group="workers", protocol_type="connect", version=3).error_code == 0
    assert delete(broker, "workers", ("a", 0)) == (68, [])
    assert delete(broker, "workers", ("absent", 0)) == (68, [])


def test_deletion_is_answered_after_the_sync() -> None:
    broker = broker_with_groups({"a": 1}, {"log.flush.interval.messages": "1"})
    broker.services.coordinators.groups.commit("readers", [NewOffset(("a", 0), 1)], Membership())
    partitions = [schema.Topic(name="a", partitions=[schema.Partition(partition_index=0)])]
    pending = broker.begin(schema.Request(group_id="readers", topics=partitions), 0)
    assert not pending.is_done
    broker.clock.advance(0)
    assert pending.answer().topics[0].partitions[0].error_code == 0
