"""SyncGroup: codes as Apache Kafka 4.3.1 gave them to the same requests (raw frames, one KRaft node, 2026-11-21).

What a group does when: tests/coordinator/group/classic.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from minibroker.schemas import k14_sync_group as schema
from tests.support.broker_in_memory import BrokerInMemory
from tests.support.committed_offsets import broker_with_groups
from tests.support.group_members import begin_join, begin_sync, enter, join, stable, sync

VERSIONS = range(schema.VERSIONS[0], schema.VERSIONS[1] + 1)


@pytest.mark.parametrize("version", VERSIONS)
def test_leader_assigns(version: int) -> None:
    broker = broker_with_groups()
    joined = enter(broker)
    answer = sync(broker, joined, {joined.member_id: b"everything"}, version=version)
    names = ("consumer", "range") if version >= 5 else (None, None)
    assert (answer.error_code, answer.assignment, answer.protocol_type, answer.protocol_name) == (0, b"everything", *names)
    assert sync(broker.restart(clean=False), joined, version=version).assignment == b"everything"


def test_follower_waits() -> None:
    broker = broker_with_groups()
    leader = stable(broker)
    waits = begin_join(broker, join(broker).member_id)
    leader = join(broker, leader.member_id)
    follower = waits.answer()
    pending = begin_sync(broker, follower)
    assert not pending.is_done
    sync(broker, leader, {follower.member_id: b"a part"})
    assert not pending.is_done, "the leader hears first"
    broker.clock.advance(0)
    assert pending.answer().assignment == b"a part"


@pytest.mark.parametrize("version", VERSIONS)
def test_refused(version: int) -> None:
    broker = broker_with_groups()
    joined = stable(broker)

    def code(**changes: Any) -> int:
        return int(sync(broker, joined, version=version, **changes).error_code)

    assert code(group="another") == 25
    assert code(group="") == 24
    assert code(generation_id=7) == 22
    assert code(member_id="stranger") == 25
    if version >= 3:
        assert code(instance="nobody") == 25
    if version >= 5:
        assert [code(protocol_type=None), code(protocol_name=None), code(protocol_type="x"), code(protocol_name="x")] == [23] * 4
    begin_join(broker, join(broker).member_id)
    assert code() == 27


@pytest.mark.parametrize("version", VERSIONS)
def test_without_a_coordinator(version: int) -> None:
    joined = SimpleNamespace(generation_id=1, member_id="m")
    assert sync(BrokerInMemory(), joined, version=version).error_code == 16


def test_sync_is_answered_when_the_generation_is_synced() -> None:
    broker = broker_with_groups(config={"log.flush.interval.messages": "1"})
    waits = begin_join(broker, version=3)
    broker.clock.advance(1)
    joined = waits.answer()
    pending = begin_sync(broker, joined, {joined.member_id: b"all"})
    assert not pending.is_done
    broker.clock.advance(0)
    assert pending.answer().assignment == b"all"
