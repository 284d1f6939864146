"""Heartbeat: codes as Apache Kafka 4.3.1 gave them to the same requests (raw frames, one KRaft node, 2026-11-21).

What a group does when: tests/coordinator/group/classic.
"""

from __future__ import annotations

import pytest

from minibroker.coordinator import stored_topic
from minibroker.schemas import k12_heartbeat as schema
from tests.support.broker_in_memory import BrokerInMemory
from tests.support.committed_offsets import broker_with_groups, commit
from tests.support.group_members import SESSION_MS, enter, heartbeat, join, leave, stable

VERSIONS = range(schema.VERSIONS[0], schema.VERSIONS[1] + 1)


@pytest.mark.parametrize("version", VERSIONS)
def test_heartbeat_extends_the_session(version: int) -> None:
    broker = broker_with_groups()
    joined = stable(broker)
    for _ in range(3):
        broker.clock.advance(SESSION_MS - 1)
        assert heartbeat(broker, joined, version=version) == 0
    broker.clock.advance(SESSION_MS)
    assert heartbeat(broker, joined, version=version) == 25


@pytest.mark.parametrize("version", VERSIONS)
def test_refused(version: int) -> None:
    broker = broker_with_groups()
    joined = stable(broker)
    assert heartbeat(broker, joined, group="another", version=version) == 25
    assert heartbeat(broker, joined, group="", version=version) == 24
    joined.generation_id += 1
    assert heartbeat(broker, joined, version=version) == 22
    joined.member_id = "stranger"
    assert heartbeat(broker, joined, version=version) == 25
    assert heartbeat(BrokerInMemory(), joined, version=version) == 16


def test_rebalance_in_progress() -> None:
    broker = broker_with_groups()
    joined = stable(broker)
    given = join(broker)
    assert heartbeat(broker, joined) == 0  # who was given an id has not joined yet
    enter_pending = given.member_id
    leave(broker, (enter_pending, None))
    assert heartbeat(broker, joined) == 0


@pytest.mark.parametrize("clean", [True, False])
def test_member_continues_after_a_restart(clean: bool) -> None:
    broker = broker_with_groups()
    joined = stable(broker)
    again = broker.restart(clean=clean)
    assert heartbeat(again, joined) == 0
    again.clock.advance(SESSION_MS)
    assert heartbeat(again, joined) == 25


def test_heartbeats_succeed_while_the_group_is_loading(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = broker_with_groups({"a": 1})
    for offset in range(30):
        commit(broker, {("a", 0): offset}, metadata="x" * 1000)
    joined = enter(broker, group="members")
    monkeypatch.setattr(stored_topic, "READ_BYTES", 4_000)
    again = broker.restart()
    assert heartbeat(again, joined, group="members") == 0
    again.clock.advance(1)
    assert heartbeat(again, joined, group="members") == 25  # its generation was never stored
