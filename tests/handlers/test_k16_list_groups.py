"""ListGroups: codes as Apache Kafka 4.3.1 gave them to the same requests (raw frames, one KRaft node, 2026-11-21).

What a group does when: tests/coordinator/group/classic.
"""

from __future__ import annotations

from typing import Any

import pytest

from minibroker.coordinator import stored_topic
from minibroker.schemas import k16_list_groups as schema
from tests.support.broker_in_memory import BrokerInMemory
from tests.support.committed_offsets import broker_with_groups, commit
from tests.support.group_members import join, leave, listed, stable

VERSIONS = range(schema.VERSIONS[0], schema.VERSIONS[1] + 1)


@pytest.fixture
def broker() -> BrokerInMemory:
    broker = broker_with_groups({"a": 1}, {"offsets.topic.num.partitions": "5"})
    commit(broker, {("a", 0): 1}, group="simple")
    stable(broker, group="live")
    left = stable(broker, group="left")
    leave(broker, (left.member_id, None), group="left")
    join(broker, group="asked for an id")
    return broker


ALL = {
    "simple": ("", "Empty", "classic"),
    "live": ("consumer", "Stable", "classic"),
    "left": ("consumer", "Empty", "classic"),
    "asked for an id": ("", "Empty", "classic"),
}


@pytest.mark.parametrize("version", VERSIONS)
def test_all_groups(broker: BrokerInMemory, version: int) -> None:
    expected = {name: (each[0], each[1] if version >= 4 else "", each[2] if version >= 5 else "") for name, each in ALL.items()}
    assert listed(broker, version=version) == expected
    assert listed(broker.restart(clean=False), version=version) == expected


@pytest.mark.parametrize(
    ("filters", "names"),
    [
        ({"states_filter": ["Stable"]}, {"live"}),
        ({"states_filter": ["stable", "EMPTY"]}, set(ALL)),
        ({"states_filter": ["nonsense"]}, set()),
        ({"types_filter": ["Classic"]}, set(ALL)),
        ({"types_filter": ["consumer"]}, set()),
        ({"types_filter": ["classic"], "states_filter": ["Stable"]}, {"live"}),
    ],
)
def test_filters(broker: BrokerInMemory, filters: dict[str, Any], names: set[str]) -> None:
    assert set(listed(broker, **filters)) == names


@pytest.mark.parametrize("version", VERSIONS)
def test_no_groups(version: int) -> None:
    assert listed(BrokerInMemory(), version=version) == {}


def test_groups_cannot_be_listed_while_loading(broker: BrokerInMemory, monkeypatch: pytest.MonkeyPatch) -> None:
    for offset in range(30):
        commit(broker, {("a", 0): offset}, group="simple", metadata="x" * 1000)
    monkeypatch.setattr(stored_topic, "READ_BYTES", 4_000)
    again = broker.restart()
    assert again.ask(schema.Request(), 5).error_code == 14
    again.clock.advance(1)
    assert set(listed(again)) == set(ALL)
