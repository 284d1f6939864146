"""Members of classic groups of a broker in memory, through its handlers."""

from __future__ import annotations

from typing import Any

from minibroker.schemas import k11_join_group as k11
from minibroker.schemas import k12_heartbeat as k12
from minibroker.schemas import k13_leave_group as k13
from minibroker.schemas import k14_sync_group as k14
from minibroker.schemas import k15_describe_groups as k15
from minibroker.schemas import k16_list_groups as k16
from tests.support.broker_in_memory import BrokerInMemory, Pending

GROUP = "readers"
SESSION_MS = 10_000
SUBSCRIPTION = b"\x00\x00\x00\x00\x00\x01\x00\x01a\xff\xff\xff\xff"  #: version 0, topic a, no user data


def begin_join(
    broker: BrokerInMemory,
    member_id: str = "",
    *,
    group: str = GROUP,
    version: int = 9,
    instance: str | None = None,
    session_ms: int = SESSION_MS,
    protocol_type: str = "consumer",
    protocols: tuple[str, ...] = ("range",),
    client_id: str | None = "client",
) -> Pending:
    """A JoinGroup on its way."""
    request = k11.Request(
        group_id=group,
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=session_ms if version else -1,
        member_id=member_id,
        group_instance_id=instance,
        protocol_type=protocol_type,
        protocols=[k11.Protocol(name=name, metadata=SUBSCRIPTION) for name in protocols],
    )
    return broker.begin(request, version, client_id=client_id)


def join(broker: BrokerInMemory, member_id: str = "", **options: Any) -> Any:
    """The answer to a JoinGroup, given the time that a new group takes."""
    pending = begin_join(broker, member_id, **options)
    broker.clock.advance(0)
    return pending.answer()


def enter(broker: BrokerInMemory, **options: Any) -> Any:
    """Join as a new member; one that is told its id first joins again with it."""
    answer = join(broker, **options)
    return join(broker, answer.member_id, **options) if answer.error_code == 79 else answer


def begin_sync(
    broker: BrokerInMemory,
    joined: Any,
    assignments: dict[str, bytes] | None = None,
    *,
    group: str = GROUP,
    version: int = 5,
    instance: str | None = None,
    **changes: Any,
) -> Pending:
    """A SyncGroup on its way, of who was answered `joined`."""
    fields: dict[str, Any] = {
        "group_id": group,
        "generation_id": joined.generation_id,
        "member_id": joined.member_id,
        "group_instance_id": instance,
        "protocol_type": "consumer" if version >= 5 else None,
        "protocol_name": "range" if version >= 5 else None,
        "assignments": [k14.Assignment(member_id=name, assignment=each) for name, each in (assignments or {}).items()],
    }
    return broker.begin(k14.Request(**fields | changes), version)


def sync(broker: BrokerInMemory, joined: Any, assignments: dict[str, bytes] | None = None, **options: Any) -> Any:
    """The answer to a SyncGroup."""
    return begin_sync(broker, joined, assignments, **options).answer()


def stable(broker: BrokerInMemory, **options: Any) -> Any:
    """A member that is alone in a stable group: what its JoinGroup was answered."""
    joined = enter(broker, **options)
    assert joined.error_code == 0, joined
    group, instance = options.get("group", GROUP), options.get("instance")
    assert sync(broker, joined, {joined.member_id: b"all"}, group=group, instance=instance, protocol_type=None, version=4).error_code == 0
    return joined


def heartbeat(broker: BrokerInMemory, joined: Any, *, group: str = GROUP, version: int = 4, instance: str | None = None) -> int:
    """The error code of a Heartbeat."""
    request = k12.Request(group_id=group, generation_id=joined.generation_id, member_id=joined.member_id, group_instance_id=instance)
    return int(broker.ask(request, version).error_code)


def leave(broker: BrokerInMemory, *members: tuple[str, str | None], group: str = GROUP, version: int = 5) -> list[int]:
    """The error code of each member that leaves."""
    if version < 3:
        return [broker.ask(k13.Request(group_id=group, member_id=members[0][0]), version).error_code]
    leaving = [k13.Member(member_id=member_id, group_instance_id=instance) for member_id, instance in members]
    answer = broker.ask(k13.Request(group_id=group, members=leaving), version)
    return [each.error_code for each in answer.members] or [answer.error_code]


def describe(broker: BrokerInMemory, group: str = GROUP, *, version: int = 6, **options: Any) -> Any:
    """What DescribeGroups says of one group."""
    (found,) = broker.ask(k15.Request(groups=[group], **options), version).groups
    return found


def listed(broker: BrokerInMemory, *, version: int = 5, **filters: Any) -> dict[str, tuple[str, str, str]]:
    """Protocol type, state and type of each group."""
    answer = broker.ask(k16.Request(**filters), version)
    assert answer.error_code == 0
    return {each.group_id: (each.protocol_type, each.group_state, each.group_type) for each in answer.groups}
