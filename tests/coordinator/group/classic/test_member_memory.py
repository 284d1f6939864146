"""The protocols of all members of classic groups share a limit of memory, which is given back with each member."""

from __future__ import annotations

import pytest

from minibroker.coordinator.group.classic import requests
from minibroker.errors import GroupMaxSizeReached, MemberIdRequired
from minibroker.schemas import k11_join_group as schema
from tests.support.broker_in_memory import BrokerInMemory
from tests.support.committed_offsets import broker_with_groups

SIZE = 1000


def join(broker: BrokerInMemory, group_id: str, member_id: str = "") -> schema.Response:
    request = schema.Request(
        group_id=group_id,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[schema.Protocol(name="range", metadata=b"x" * (SIZE - len("range")))],
    )
    waiting = broker.begin(request, 9)
    broker.clock.advance(0)
    answer: schema.Response = waiting.answer()
    return answer


def test_members_of_all_groups_share_a_memory_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "MAX_BYTES", 3 * SIZE)
    broker = broker_with_groups({"t": 1})
    memory = broker.services.coordinators.groups.classic.member_memory
    ids = {}
    for group_id in ("a", "b", "c"):
        first = join(broker, group_id)
        assert first.error_code == MemberIdRequired.code
        ids[group_id] = first.member_id
        assert join(broker, group_id, first.member_id).error_code == 0
    assert memory.used_bytes == 3 * SIZE
    assert join(broker, "d").error_code == GroupMaxSizeReached.code
    assert join(broker, "a", ids["a"]).error_code == GroupMaxSizeReached.code  # a member that joins again brings its protocols again
    assert memory.used_bytes == 3 * SIZE
    broker.clock.advance(10_000)  # every session times out
    assert memory.used_bytes == 0
    assert join(broker, "d").error_code == MemberIdRequired.code
