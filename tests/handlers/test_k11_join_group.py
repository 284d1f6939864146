"""JoinGroup: codes as Apache Kafka 4.3.1 gave them to the same requests (raw frames, one KRaft node, 2026-11-21).

What a group does when: tests/coordinator/group/classic.
"""

from __future__ import annotations

import pytest

from minibroker.schemas import k11_join_group as schema
from minibroker.schemas import k76_share_group_heartbeat as k76
from tests.support.broker_in_memory import BrokerInMemory
from tests.support.committed_offsets import broker_with_groups, commit
from tests.support.group_members import GROUP, SUBSCRIPTION, begin_join, enter, heartbeat, join, stable, sync

VERSIONS = range(schema.VERSIONS[0], schema.VERSIONS[1] + 1)
MEMBER_ID_REQUIRED = 79


@pytest.mark.parametrize("version", VERSIONS)
def test_first_member_is_the_leader(version: int) -> None:
    broker = broker_with_groups()
    answer = join(broker, version=version)
    if version >= 4:
        assert (answer.error_code, answer.generation_id, answer.leader) == (MEMBER_ID_REQUIRED, -1, "")
        assert answer.member_id.startswith("client-")
        assert answer.protocol_name == (None if version >= 7 else "")
        answer = join(broker, answer.member_id, version=version)
    assert (answer.error_code, answer.generation_id, answer.leader, answer.protocol_name) == (0, 1, answer.member_id, "range")
    assert answer.protocol_type == ("consumer" if version >= 7 else None)
    assert [(each.member_id, bytes(each.metadata)) for each in answer.members] == [(answer.member_id, SUBSCRIPTION)]


def test_two_members() -> None:
    broker = broker_with_groups()
    first = stable(broker)
    waits = begin_join(broker, join(broker).member_id)
    assert not waits.is_done
    assert heartbeat(broker, first) == 27
    result = join(broker, first.member_id)
    second = waits.answer()
    assert (result.generation_id, len(result.members), second.generation_id, second.members) == (2, 2, 2, [])
    assert second.leader == first.member_id


def test_group_of_another_type_does_not_know_the_member() -> None:
    broker = broker_with_groups()
    member = k76.Request(group_id=GROUP, member_id="m" * 22, member_epoch=0, subscribed_topic_names=["t"])
    assert broker.ask(member).error_code == 0
    answer = join(broker, "somebody")
    assert (answer.error_code, answer.member_id, answer.generation_id) == (23, "", -1)


@pytest.mark.parametrize(("version", "skip"), [(5, False), (8, False), (9, True)])
def test_static_leader_rejoins(version: int, skip: bool) -> None:
    broker = broker_with_groups()
    first = stable(broker, instance="one")
    assert first.member_id.startswith("one-")
    again = join(broker, instance="one", version=version)
    assert (again.error_code, again.generation_id, again.skip_assignment) == (0, 1, skip)
    assert again.leader == (again.member_id if skip else first.member_id)
    assert sync(broker, again, instance="one").assignment == b"all"
    assert heartbeat(broker, first, instance="one") == 82


@pytest.mark.parametrize("version", [0, 4, 6, 7, 9])
def test_refused(version: int) -> None:
    broker = broker_with_groups()
    name = None if version >= 7 else ""

    def told(answer: schema.Response) -> tuple[object, ...]:
        return answer.error_code, answer.generation_id, answer.member_id, answer.protocol_name, answer.leader, answer.members

    assert told(join(broker, "stranger", version=version)) == (25, -1, "stranger", name, "", [])
    assert told(join(broker, group="", version=version)) == (24, -1, "", name, "", [])
    assert told(join(broker, session_ms=5_999, version=version)) == (26, -1, "", name, "", [])
    assert told(join(broker, session_ms=1_800_001, version=version)) == (26, -1, "", name, "", [])
    assert told(join(broker, protocols=(), version=version)) == (23, -1, "", name, "", [])
    assert told(join(broker, protocol_type="", version=version)) == (23, -1, "", name, "", [])
    stable(broker)
    assert told(join(broker, protocols=("sticky",), version=version)) == (23, -1, "", name, "", [])


@pytest.mark.parametrize("version", VERSIONS)
def test_without_a_coordinator(version: int) -> None:
    answer = begin_join(BrokerInMemory(), version=version).answer()
    assert (answer.error_code, answer.generation_id, answer.member_id) == (16, -1, "")


def test_full_group() -> None:
    broker = broker_with_groups(config={"group.max.size": "1"})
    stable(broker)
    assert (join(broker).error_code, join(broker).member_id) == (81, "")


def test_new_group_waits_for_more_members() -> None:
    broker = broker_with_groups(config={"group.initial.rebalance.delay.ms": "3000"})
    waits = begin_join(broker, version=3)
    broker.clock.advance(2_999)
    assert not waits.is_done
    broker.clock.advance(1)
    assert waits.answer().generation_id == 1


def test_client_without_a_client_id() -> None:
    assert enter(broker_with_groups(), client_id=None).member_id.startswith("-")


def test_group_with_only_offsets() -> None:
    broker = broker_with_groups({"a": 1})
    commit(broker, {("a", 0): 1})
    assert stable(broker).generation_id == 1


def test_stopping_broker_answers_waiting_members() -> None:
    broker = broker_with_groups()
    stable(broker)
    waits = begin_join(broker, join(broker).member_id)
    broker.services.coordinators.stop()
    assert waits.answer().error_code == 16


def test_join_is_answered_when_the_group_is_stored() -> None:
    broker = broker_with_groups(config={"log.flush.interval.messages": "1"})
    waits = begin_join(broker)
    assert not waits.is_done
    broker.clock.advance(0)
    assert waits.answer().error_code == MEMBER_ID_REQUIRED
