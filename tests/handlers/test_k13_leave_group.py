"""LeaveGroup: codes as Apache Kafka 4.3.1 gave them to the same requests (raw frames, one KRaft node, 2026-11-21).

What a group does when: tests/coordinator/group/classic.
"""

from __future__ import annotations

import pytest

from minibroker.schemas import k13_leave_group as schema
from tests.support.broker_in_memory import BrokerInMemory
from tests.support.committed_offsets import broker_with_groups
from tests.support.group_members import GROUP, describe, join, leave, stable

VERSIONS = range(schema.VERSIONS[0], schema.VERSIONS[1] + 1)


@pytest.mark.parametrize("version", VERSIONS)
def test_member_leaves(version: int) -> None:
    broker = broker_with_groups()
    joined = stable(broker)
    assert leave(broker, (joined.member_id, None), version=version) == [0]
    assert describe(broker).group_state == "Empty"
    assert leave(broker, (joined.member_id, None), version=version) == [25]
    assert describe(broker.restart(clean=False)).group_state == "Empty"


@pytest.mark.parametrize("version", VERSIONS)
def test_refused(version: int) -> None:
    broker = broker_with_groups()
    assert leave(broker, ("m", None), version=version) == [25]  # there is no such group
    assert leave(broker, ("m", None), group="", version=version) == [24]
    stable(broker)
    assert leave(broker, ("m", None), version=version) == [25]
    assert leave(BrokerInMemory(), ("m", None), version=version) == [16]


@pytest.mark.parametrize("version", [3, 4, 5])
def test_several(version: int) -> None:
    broker = broker_with_groups()
    one = stable(broker, instance="one")
    given = join(broker)
    members = [("stranger", None), ("", "nobody"), ("stranger", "one"), ("", "one"), (one.member_id, "one"), (given.member_id, None)]
    assert leave(broker, *members, version=version) == [25, 25, 82, 0, 25, 0]


def test_the_members_are_named_in_the_answer() -> None:
    broker = broker_with_groups()
    stable(broker, instance="one")
    members = [schema.Member(member_id="", group_instance_id="one", reason="it is old"), schema.Member(member_id="x")]
    answer = broker.ask(schema.Request(group_id=GROUP, members=members), 5)
    assert [(each.member_id, each.group_instance_id, each.error_code) for each in answer.members] == [("", "one", 0), ("x", None, 25)]


def test_unknown_member_is_answered_without_a_sync() -> None:
    broker = broker_with_groups(config={"log.flush.interval.messages": "1"})
    pending = broker.begin(schema.Request(group_id=GROUP, members=[schema.Member(member_id="x")]), 5)
    assert [each.error_code for each in pending.answer().members] == [25]
