"""GroupMember: partitions move between members, commits are stored, and a fenced member joins again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import pytest

from minibroker.client.client import Client
from minibroker.client.group_member import GroupMember
from minibroker.testing import BrokerThread

TURNS: Final = 200


@pytest.fixture
def broker() -> Iterator[BrokerThread]:
    with BrokerThread() as broker:
        broker.create_topic("orders", partitions=4)
        yield broker


@pytest.fixture
def client(broker: BrokerThread) -> Iterator[Client]:
    with Client(broker.bootstrap_servers) as client:
        yield client


def always_due() -> Callable[[], float]:
    """A clock by which every heartbeat is due."""
    seconds = iter(range(10**9))
    return lambda: next(seconds) * 1000.0


def settle(*members: GroupMember, until: Callable[[], bool]) -> None:
    """Send heartbeats and release revoked partitions at once, until a condition holds."""
    for _ in range(TURNS):
        for member in members:
            before = member.assigned
            member.heartbeat_if_due()
            if member.assigned != before:
                member.release_revoked()
        if until():
            return
    pytest.fail(f"not settled: {[member.assigned for member in members]}")


def all_partitions() -> list[tuple[str, int]]:
    return [("orders", index) for index in range(4)]


def test_partitions_move_to_a_second_member_and_back_when_it_leaves(client: Client) -> None:
    first = GroupMember(client, "readers", ["orders"], now_s=always_due())
    settle(first, until=lambda: list(first.assigned) == all_partitions())
    second = GroupMember(client, "readers", ["orders"], now_s=always_due())
    settle(first, second, until=lambda: len(first.assigned) == len(second.assigned) == 2)
    assert sorted([*first.assigned, *second.assigned]) == all_partitions()
    first.commit(dict.fromkeys(first.assigned, 7))
    second.commit(dict.fromkeys(second.assigned, 8))
    second.leave()
    settle(first, until=lambda: list(first.assigned) == all_partitions())
    assert sorted(first.committed().values()) == [7, 7, 8, 8]
    first.leave()
    assert first.assigned == ()


def test_a_member_that_was_forgotten_joins_again(broker: BrokerThread, client: Client) -> None:
    member = GroupMember(client, "readers", ["orders"], now_s=always_due())
    settle(member, until=lambda: len(member.assigned) == 4)
    broker.advance(minutes=10)  # its session expires
    member.commit(dict.fromkeys(member.assigned, 3))  # the commit of a fenced member is skipped
    settle(member, until=lambda: len(member.assigned) == 4)
    assert member.committed() == {}
    member.commit(dict.fromkeys(member.assigned, 5))
    assert set(member.committed().values()) == {5}


def test_heartbeats_are_sent_when_they_are_due(client: Client) -> None:
    now = [0.0]
    member = GroupMember(client, "readers", ["orders"], now_s=lambda: now[0])
    assert member.heartbeat_if_due()
    assert not member.heartbeat_if_due()
    now[0] += 60
    assert member.heartbeat_if_due()
