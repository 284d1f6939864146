"""The time line of groups: the coordinator reports each change, also when no request and no page asks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from minibroker.console import group_events
from minibroker.console.observer import Observer
from minibroker.schemas import k10_find_coordinator as k10
from minibroker.schemas import k42_delete_groups as k42
from minibroker.schemas import k68_consumer_group_heartbeat as k68
from minibroker.schemas import k76_share_group_heartbeat as k76
from minibroker.testing.recording import RecordingDispatcher
from tests.support import group_members
from tests.support.broker_in_memory import BrokerInMemory

GROUP = "readers"


class Watched:
    """A broker in memory whose requests an observer sees."""

    def __init__(self, broker: BrokerInMemory | None = None) -> None:
        self.broker = broker or BrokerInMemory(topics={"a": 2})
        self.observer = Observer()
        self.broker.dispatcher = RecordingDispatcher(self.broker.services, observer=self.observer)
        self.broker.ask(k10.Request(key_type=k10.GROUP, coordinator_keys=["any"]))

    def events(self, group: str = GROUP) -> list[Any]:
        """What changed, oldest first: state, members, request."""
        found = self.observer.group_events.of(group)
        return [(each["state"], each["members"], each["request"]) for each in reversed(found)]


def classic_member(broker: BrokerInMemory) -> Callable[[], object]:
    joined = group_members.stable(broker, group=GROUP)
    return lambda: group_members.leave(broker, (joined.member_id, None), group=GROUP)


def consumer_member(broker: BrokerInMemory) -> Callable[[], object]:
    def beat(epoch: int) -> object:
        request = k68.Request(group_id=GROUP, member_id="a" * 22, member_epoch=epoch, rebalance_timeout_ms=1000,
                              subscribed_topic_names=["a"], topic_partitions=[])  # fmt: skip
        answer = broker.ask(request)
        assert answer.error_code == 0
        return answer

    beat(0)
    return lambda: beat(-1)


def share_member(broker: BrokerInMemory) -> Callable[[], object]:
    def beat(epoch: int) -> object:
        answer = broker.ask(k76.Request(group_id=GROUP, member_id="m" * 22, member_epoch=epoch, subscribed_topic_names=["a"]))
        assert answer.error_code == 0
        return answer

    beat(0)
    return lambda: beat(-1)


MEMBERS = {"classic": classic_member, "consumer": consumer_member, "share": share_member}
EXPIRY_MS = 45_000


@pytest.mark.parametrize("kind", MEMBERS)
def test_the_end_of_a_session_is_an_event_at_once(kind: str) -> None:
    watched = Watched()
    MEMBERS[kind](watched.broker)
    assert watched.events()[-1][:2] == ("Stable", 1)
    before = len(watched.events())
    began_ms = watched.broker.clock.now_ms()
    watched.broker.clock.advance(EXPIRY_MS + 1_000)
    new = watched.events()[before:]
    assert new[-1] == ("Empty", 0, None), "no request and no page has asked since"
    newest = watched.observer.group_events.of(GROUP)
    assert began_ms < newest[0]["time_ms"] <= began_ms + EXPIRY_MS
    assert 1 in {each["members_before"] for each in newest[: len(new)]}


@pytest.mark.parametrize("kind", MEMBERS)
def test_a_change_is_that_of_the_request_that_made_it(kind: str) -> None:
    watched = Watched()
    leave = MEMBERS[kind](watched.broker)
    joining, leaving = ("JoinGroup", "LeaveGroup") if kind == "classic" else (f"{kind.capitalize()}GroupHeartbeat",) * 2
    assert joining in {request for _, _, request in watched.events()}
    leave()
    assert watched.events()[-1] == ("Empty", 0, leaving)


def test_states_of_a_rebalance_are_all_seen() -> None:
    watched = Watched()
    group_members.stable(watched.broker, group=GROUP)
    assert [state for state, _, _ in watched.events()] == ["PreparingRebalance", "CompletingRebalance", "Stable"]


def test_members_of_a_stored_group_that_do_not_return_are_noticed(tmp_path: Any) -> None:
    broker = BrokerInMemory(topics={"a": 2}, folder=tmp_path)
    broker.ask(k10.Request(key_type=k10.GROUP, coordinator_keys=["any"]))
    group_members.stable(broker, group=GROUP)
    broker = broker.restart()
    observer = Observer()
    observer.group_events.follow(broker.services)
    group_members.listed(broker)  # reads the log of the groups
    broker.clock.advance(0)
    broker.clock.advance(EXPIRY_MS)
    assert [each["state"] for each in observer.group_events.of(GROUP)] == ["Empty", "PreparingRebalance"]


def test_errors_of_members_are_in_the_time_line() -> None:
    watched = Watched()
    group_members.stable(watched.broker, group=GROUP)
    group_members.leave(watched.broker, ("stranger", None), group=GROUP)
    newest = watched.observer.group_events.of(GROUP)[0]
    assert (newest["request"], newest["errors"], newest["state"]) == ("LeaveGroup", ["UNKNOWN_MEMBER_ID"], "Stable")


def test_a_deleted_group_is_dead() -> None:
    watched = Watched()
    MEMBERS["classic"](watched.broker)()
    assert watched.broker.ask(k42.Request(groups_names=[GROUP])).results[0].error_code == 0
    assert watched.events()[-1] == ("Dead", 0, "DeleteGroups")


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_events, "GROUPS_MAX", 3)
    watched = Watched()
    for number in range(5):
        group_members.stable(watched.broker, group=f"group-{number}")
    assert [bool(watched.events(f"group-{number}")) for number in range(5)] == [False, False, True, True, True]
    joined = group_members.stable(watched.broker, group="busy")
    for _ in range(group_events.EVENTS_MAX):
        group_members.leave(watched.broker, (joined.member_id, None), group="busy")
        joined = group_members.stable(watched.broker, group="busy")
    assert len(watched.events("busy")) == group_events.EVENTS_MAX
