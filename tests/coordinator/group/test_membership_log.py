"""What an operator reads of groups: a line for each generation or epoch, and why a member is gone that did not say so."""

from __future__ import annotations

import logging

import pytest

from minibroker.coordinator.group import membership_log
from minibroker.coordinator.group.consumer.members import ConsumerGroupImage, ConsumerMember
from tests.support.broker_in_memory import BrokerInMemory
from tests.support.committed_offsets import broker_with_groups
from tests.support.consumer_members import broker_with_consumers, join, leave, two_members
from tests.support.group_members import SESSION_MS, stable
from tests.support.group_members import leave as classic_leave

CLASSIC = "minibroker.coordinator.group.classic.rebalance"
TIMEOUTS = "minibroker.coordinator.group.modern"


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    names = (membership_log.__name__, CLASSIC, TIMEOUTS)
    return [f"{record.levelname} {record.getMessage()}" for record in caplog.records if record.name in names]


def test_classic_group_members_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    broker = broker_with_groups({"t": 1})
    with caplog.at_level(logging.INFO):
        member_id = stable(broker).member_id
        classic_leave(broker, (member_id, None))
        second_id = stable(broker).member_id
        broker.clock.advance(SESSION_MS)
    client_id = member_id[: -len("-") - 36]  # a UUID is behind it
    assert said(caplog) == [
        f"INFO group readers: generation 1, members: 1; joined: {member_id} ({client_id} at 127.0.0.1)",
        f"INFO group readers: generation 2, members: 0; gone: {member_id}",
        f"INFO group readers: generation 3, members: 1; joined: {second_id} ({client_id} at 127.0.0.1)",
        f"INFO group readers: member {second_id} was removed: its session timed out",
        f"INFO group readers: generation 4, members: 0; gone: {second_id}",
    ]


def test_members_with_epochs_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    broker: BrokerInMemory = broker_with_consumers()
    with caplog.at_level(logging.INFO):
        two_members(broker)
        leave(broker, "a")
        broker.clock.advance(60_000)
    assert said(caplog) == [
        "INFO group readers: epoch 2, members: 1; joined: a (client at 127.0.0.1)",
        "INFO group readers: epoch 3, members: 2; joined: b (client at 127.0.0.1)",
        "INFO group readers: epoch 4, members: 1; gone: a",
        "INFO group readers: epoch 5, members: 0; gone: b",
        "INFO group readers: member b was removed: its session timed out",
    ]


def test_nothing_is_logged_by_default(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        join(broker_with_consumers(), "a")
    assert said(caplog) == []


def test_long_member_lists_are_abbreviated(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        membership_log.log_members(
            "g", "generation 1", (), {str(number): ConsumerMember(str(number), client_id="c", client_host="h") for number in range(12)}
        )
    (line,) = said(caplog)
    assert line.startswith("INFO group g: generation 1, members: 12; joined: 0 (c at h), 1 (c at h), ")
    assert line.endswith("9 (c at h) and 2 more")


def test_downgrade_to_a_classic_group_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    image = ConsumerGroupImage()
    image.epoch, image.members = 3, {"a": ConsumerMember("a")}

    def end(_: object) -> None:
        image.members = {}

    with caplog.at_level(logging.INFO):
        membership_log.with_log_lines("g", image, end)([])
    assert said(caplog) == ["INFO group g now uses the classic protocol"]
