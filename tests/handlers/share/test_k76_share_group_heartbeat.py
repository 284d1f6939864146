"""ShareGroupHeartbeat: members over time, restarts and changes of configs. What a group does when: tests/coordinator/group/share."""

from __future__ import annotations

import pytest

from minibroker.schemas import k44_incremental_alter_configs as k44
from tests.golden.share_scenario import A, B, beat
from tests.support.share_groups import members, share_broker, told

INTERVALS = {"share.heartbeat.interval.ms": "6000", "share.session.timeout.ms": "50000"}


def test_first_answer_assigns_partitions() -> None:
    broker = share_broker()
    assert told(broker.ask(beat(A, 0, "t"))) == (0, 2, [0, 1, 2, 3])
    assert told(broker.ask(beat(A, 2))) == (0, 2, None)
    assert told(broker.ask(beat(B, 0, "t"))) == (0, 3, [0, 1])
    assert told(broker.ask(beat(A, 2))) == (0, 3, [2, 3])


@pytest.mark.parametrize("is_clean", [True, False])
def test_members_survive_a_restart_for_a_session_timeout(is_clean: bool) -> None:
    broker = share_broker()
    broker.ask(beat(A, 0, "t"))
    broker.ask(beat(B, 0, "t"))
    broker = broker.restart(clean=is_clean)
    assert members(broker) == [A, B]
    assert told(broker.ask(beat(A, 2))) == (0, 3, [2, 3])
    broker.clock.advance(44_999)
    assert told(broker.ask(beat(A, 3))) == (0, 3, None)
    broker.clock.advance(1)
    assert members(broker) == [A]
    assert told(broker.ask(beat(A, 3))) == (0, 4, [0, 1, 2, 3])


def test_group_configs_apply_immediately() -> None:
    broker = share_broker()
    config = [k44.Config(name=name, config_operation=0, value=value) for name, value in INTERVALS.items()]
    broker.ask(k44.Request(resources=[k44.Resource(resource_type=32, resource_name="s", configs=config)], validate_only=False))
    assert broker.ask(beat(A, 0, "t")).heartbeat_interval_ms == 6_000
    broker.clock.advance(49_999)
    assert members(broker) == [A]
    broker.clock.advance(1)
    assert members(broker) == []


def test_removed_members_are_reported() -> None:
    broker = share_broker()
    gone: list[tuple[str, str]] = []
    broker.services.coordinators.groups.on_share_member_gone.append(lambda *each: gone.append(each))
    broker.ask(beat(A, 0, "t"))
    broker.ask(beat(B, 0, "t"))
    broker.ask(beat(B, -1))
    broker.clock.advance(45_000)
    assert gone == [("s", B), ("s", A)]
