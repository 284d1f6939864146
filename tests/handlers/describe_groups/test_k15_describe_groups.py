"""DescribeGroups: codes as Apache Kafka 4.3.1 gave them to the same requests (raw frames, one KRaft node, 2026-11-21).

What a group does when: tests/coordinator/group/classic.
"""

from __future__ import annotations

import pytest

from minibroker.schemas import k15_describe_groups as schema
from tests.support.broker_in_memory import BrokerInMemory
from tests.support.committed_offsets import broker_with_groups, commit
from tests.support.group_members import SUBSCRIPTION, begin_join, describe, enter, join, leave, stable

VERSIONS = range(schema.VERSIONS[0], schema.VERSIONS[1] + 1)
ALL_OPERATIONS = 3400  #: read, delete, describe, describe configs, alter configs
NOT_ASKED_FOR = -(2**31)


@pytest.mark.parametrize("version", VERSIONS)
def test_stable_group(version: int) -> None:
    broker = broker_with_groups()
    joined = stable(broker, instance="one")
    group = describe(broker, version=version)
    assert (group.error_code, group.group_state, group.protocol_type, group.protocol_data) == (0, "Stable", "consumer", "range")
    (member,) = group.members
    assert (member.member_id, member.client_id, member.client_host) == (joined.member_id, "client", "/127.0.0.1")
    assert (member.member_metadata, member.member_assignment) == (SUBSCRIPTION, b"all")
    assert member.group_instance_id == ("one" if version >= 4 else None)


def test_other_group_states() -> None:
    broker = broker_with_groups({"a": 1})
    commit(broker, {("a", 0): 1}, group="simple")
    simple = describe(broker, "simple")
    assert (simple.group_state, simple.protocol_type, simple.protocol_data, simple.members) == ("Empty", "", "", [])

    joined = enter(broker)
    group = describe(broker)
    assert (group.group_state, group.protocol_data) == ("CompletingRebalance", "")
    assert [(each.member_metadata, each.member_assignment) for each in group.members] == [(b"", b"")]
    begin_join(broker, join(broker).member_id)
    assert (describe(broker).group_state, len(describe(broker).members)) == ("PreparingRebalance", 2)
    leave(broker, *((each.member_id, None) for each in describe(broker).members))
    group = describe(broker)
    assert (group.group_state, group.protocol_type, joined.generation_id) == ("Empty", "consumer", 1)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("group", ["absent", ""])
def test_unknown_group(version: int, group: str) -> None:
    found = describe(broker_with_groups(), group, version=version)
    expected = (69, f"Group {group} not found.") if version >= 6 else (0, None)
    assert (found.error_code, found.error_message, found.group_state, found.protocol_type) == (*expected, "Dead", "")


@pytest.mark.parametrize("version", [3, 6])
def test_operations(version: int) -> None:
    broker = broker_with_groups()
    stable(broker)
    assert describe(broker, version=version).authorized_operations == NOT_ASKED_FOR
    assert describe(broker, version=version, include_authorized_operations=True).authorized_operations == ALL_OPERATIONS


@pytest.mark.parametrize("version", VERSIONS)
def test_without_a_coordinator(version: int) -> None:
    found = describe(BrokerInMemory(), version=version)
    assert (found.error_code, found.group_id, found.group_state) == (16, "readers", "")
