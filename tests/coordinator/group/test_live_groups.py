"""Machines of groups: made, replaced, forgotten; and nothing has happened where the log took no records."""

from __future__ import annotations

import errno

import pytest

from minibroker.coordinator.group import live_groups
from minibroker.coordinator.group.store import StoredShard
from tests.support.broker_in_memory import BrokerInMemory
from tests.support.committed_offsets import TOPIC, commit, fetch, groups_of
from tests.support.consumer_members import beat, broker_with_consumers, join, leave, two_members
from tests.support.faulty_files import FaultyFiles
from tests.support.group_members import leave as classic_leave
from tests.support.group_members import listed, stable


def stored_of(broker: BrokerInMemory) -> StoredShard:
    return groups_of(broker).live.shard_of("readers")


def test_refused_member_leaves_no_group() -> None:
    broker = broker_with_consumers()
    assert join(broker, "a", server_assignor="nope").error_code == 112
    assert join(broker, "", version=1).error_code == 42
    assert (stored_of(broker).live, stored_of(broker).shard.groups, stored_of(broker).shard.new_images) == ({}, {}, {})


def test_group_that_cannot_be_stored_does_not_exist() -> None:
    files = FaultyFiles()
    broker = broker_with_consumers(files=files)
    files.fail("write", errno.ENOSPC)
    assert join(broker, "a").error_code == 16
    assert broker.services.coordinators.groups.live.store.loaded[0].live == {}  # the directory is offline
    assert listed(broker) == {}


def test_classic_group_is_kept_if_its_replacement_cannot_be_stored() -> None:
    broker = broker_with_consumers()
    joined = stable(broker)
    classic_leave(broker, (joined.member_id, None))
    stored = stored_of(broker)
    before = stored.live["readers"]
    limit = stored.partition.log.config
    stored.partition.log.update_config(limit._replace(max_message_bytes=100))
    assert join(broker, "a").error_code == -1
    assert stored.live == {"readers": before}
    assert listed(broker) == {"readers": ("consumer", "Empty", "classic")}
    stored.partition.log.update_config(limit)
    assert join(broker, "a").member_epoch == 2
    assert stored.live["readers"] is not before


def test_deleted_group_has_no_timers() -> None:
    broker = broker_with_consumers()
    two_members(broker)
    for name in "ab":
        leave(broker, name)
    groups_of(broker).delete_group("readers")
    assert stored_of(broker).live == {}
    broker.clock.advance(100_000)
    assert listed(broker) == {}


def test_loaded_groups_have_state_machines() -> None:
    broker = broker_with_consumers()
    join(broker, "a")
    leave(broker, "a")
    commit(broker, {("t", 0): 1}, group="simple")
    again = broker.restart()
    assert fetch(again, group="simple") == {("t", 0): 1}
    assert list(stored_of(again).live) == ["readers"]


def test_subscribed_topics_are_updated_when_a_topic_is_deleted() -> None:
    broker = broker_with_consumers()
    two_members(broker)
    broker.cluster.delete_topic(TOPIC)
    assert beat(broker, "a", 3).error_code == 16
    broker.clock.advance(100_000)  # their time-outs have nothing to write to
    groups_of(broker)
    assert beat(broker, "a", 3).error_code == 69
    assert join(broker, "a").member_epoch == 2


def test_many_groups_are_loaded_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = broker_with_consumers()
    for number in range(20):
        join(broker, "a", group=f"group {number}")
    monkeypatch.setattr(live_groups, "GROUPS_A_TURN", 2)
    again = broker.restart()
    assert beat(again, "a", 2, group="group 19").error_code == 14  # COORDINATOR_LOAD_IN_PROGRESS
    again.clock.advance(0)
    assert beat(again, "a", 2, group="group 19").error_code == 0
    assert len(stored_of(again).live) == 20
    again.clock.advance(45_000)
    assert {state for _, state, _ in listed(again).values()} == {"Empty"}
