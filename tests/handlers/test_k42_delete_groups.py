"""DeleteGroups: codes as Apache Kafka 4.3.1 gave them to the same requests (raw frames, one KRaft node, 2026-11-21).

What a group does when: tests/coordinator/group/classic.
"""

from __future__ import annotations

import errno

import pytest

from minibroker.coordinator.group.kind import Membership
from minibroker.coordinator.group.offsets import NewOffset
from minibroker.schemas import k42_delete_groups as schema
from tests.support.broker_in_memory import BrokerInMemory
from tests.support.committed_offsets import broker_with_groups, commit, commit_in_transaction, fetch
from tests.support.faulty_files import FaultyFiles
from tests.support.group_members import describe, leave, listed, stable
from tests.support.transactional_ids import init_producer

VERSIONS = range(schema.VERSIONS[0], schema.VERSIONS[1] + 1)


def delete(broker: BrokerInMemory, *groups: str, version: int = 2) -> dict[str, int]:
    answer = broker.ask(schema.Request(groups_names=list(groups)), version)
    return {each.group_id: each.error_code for each in answer.results}


@pytest.mark.parametrize("version", VERSIONS)
def test_groups_are_deleted_with_their_offsets(version: int) -> None:
    broker = broker_with_groups({"a": 2})
    commit(broker, {("a", 0): 1, ("a", 1): 2}, group="simple")
    live, left = stable(broker, group="live"), stable(broker, group="left")
    leave(broker, (left.member_id, None), group="left")
    commit(broker, {("a", 0): 3}, group="left")

    assert delete(broker, "simple", "live", "left", "absent", "", version=version) == {
        "simple": 0,
        "live": 68,
        "left": 0,
        "absent": 69,
        "": 69,
    }
    for _ in range(2):
        assert set(listed(broker)) == {"live"}
        assert (fetch(broker, group="simple"), fetch(broker, group="left")) == ({}, {})
        broker = broker.restart(clean=False)
    assert describe(broker, "live").members[0].member_id == live.member_id


def test_offsets_of_an_open_transaction_are_deleted() -> None:
    broker = broker_with_groups({"a": 1})
    ids = init_producer(broker)
    commit_in_transaction(broker, ids, {("a", 0): 1}, group="simple")
    assert delete(broker, "simple", "simple") == {"simple": 0}
    assert fetch(broker, [("a", 0)], group="simple", require_stable=True) == {("a", 0): -1}


@pytest.mark.parametrize("version", VERSIONS)
def test_without_a_coordinator(version: int) -> None:
    assert delete(BrokerInMemory(), "simple", version=version) == {"simple": 16}


def test_deletion_is_answered_after_the_sync() -> None:
    files = FaultyFiles()
    broker = broker_with_groups({"a": 1}, {"log.flush.interval.messages": "1"}, files=files)
    offset = NewOffset(("a", 0), 1)
    for group in ("one", "two"):
        broker.services.coordinators.groups.commit(group, [offset], Membership())
    pending = broker.begin(schema.Request(groups_names=["one", "absent"]), 2)
    assert not pending.is_done
    broker.clock.advance(0)
    assert [each.error_code for each in pending.answer().results] == [0, 69]

    pending = broker.begin(schema.Request(groups_names=["two"]), 2)
    files.fail("sync", errno.EIO)
    broker.clock.advance(0)
    assert [each.error_code for each in pending.answer().results] == [16]
