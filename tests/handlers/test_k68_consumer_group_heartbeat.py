"""ConsumerGroupHeartbeat: answers as Apache Kafka 4.3.1 gave them to the same requests (raw frames, one KRaft node, 2026-11-21).

What a group does when: tests/coordinator/group/consumer.
"""

from __future__ import annotations

import errno
from typing import Any

import pytest

from minibroker.cluster.metadata.frame import run
from minibroker.schemas import k10_find_coordinator as k10
from minibroker.schemas import k57_update_features as k57
from minibroker.schemas import k68_consumer_group_heartbeat as schema
from minibroker.wire.codec import decode, encode
from tests.golden import all_golden, golden
from tests.support.broker_in_memory import BrokerInMemory
from tests.support.committed_offsets import broker_with_groups, commit
from tests.support.consumer_members import (
    as_in_the_golden_exchange,
    beat,
    begin_join,
    broker_with_consumers,
    describe,
    join,
    leave,
    told,
    two_members,
)
from tests.support.faulty_files import FaultyFiles
from tests.support.golden_exchange import kafka_answers, serve
from tests.support.group_members import leave as classic_leave
from tests.support.group_members import listed, stable

VERSIONS = range(schema.VERSIONS[0], schema.VERSIONS[1] + 1)
GOLDEN = [name for name in all_golden() if name.startswith("k68_") and "_response_" in name]


@pytest.mark.parametrize("name", GOLDEN)
def test_kafka_answers_round_trip(name: str) -> None:
    frame = golden(name)
    answer = frame.decode()
    assert decode(schema.Response, encode(answer, frame.version, flexible=True), frame.version, flexible=True) == answer
    assert answer.error_code == 0 or (answer.member_id, answer.member_epoch, answer.heartbeat_interval_ms) == (None, 0, 0)


@pytest.mark.parametrize("size", ["", "_small"])
def test_golden_request_gets_kafka_bytes(size: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A heartbeat, and one of an epoch to come."""
    broker = as_in_the_golden_exchange(monkeypatch, 0)
    request = golden(f"k68_consumer_group_heartbeat_v0_request_franz_go_1.22.2_groups{size}")
    assert serve(broker, request) in kafka_answers(request)


@pytest.mark.parametrize("version", VERSIONS)
def test_member_joins_and_leaves(version: int) -> None:
    broker = broker_with_consumers()
    answer = join(broker, "a", version=version)
    assert (answer.error_code, answer.error_message, answer.member_id, answer.heartbeat_interval_ms) == (0, None, "a", 1_000)
    assert told(broker, answer) == (2, {"t": [0, 1, 2, 3]})
    assert told(broker, beat(broker, "a", 2, {"t": [0, 1, 2, 3]}, version=version)) == (2, None)
    answer = leave(broker, "a", version=version)
    assert (answer.error_code, answer.member_id, answer.member_epoch, answer.heartbeat_interval_ms) == (0, "a", -1, 0)
    assert listed(broker) == {"readers": ("consumer", "Empty", "consumer")}


def test_broker_generates_member_ids_in_version_0() -> None:
    broker = broker_with_consumers()
    answer = join(broker, "", version=0)
    assert (answer.error_code, len(answer.member_id), answer.member_epoch) == (0, 22, 2)
    assert beat(broker, "", 0, version=1).error_message == "MemberId can't be empty."


def test_two_members_share_partitions() -> None:
    broker = broker_with_consumers()
    two_members(broker)
    assert listed(broker) == {"readers": ("consumer", "Stable", "consumer")}


REFUSED: list[tuple[dict[str, Any], int, str | None]] = [
    ({"group": ""}, 42, "GroupId can't be empty."),
    ({"rebalance_timeout_ms": -1}, 42, "RebalanceTimeoutMs must be provided in first request."),
    ({"owned": {"t": [0]}}, 42, "TopicPartitions must be empty when (re-)joining."),
    (
        {"subscribed_topic_names": None},
        42,
        "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
    ),
    ({"instance_id": ""}, 42, "InstanceId can't be empty."),
    ({"rack_id": ""}, 42, "RackId can't be empty."),
    ({"server_assignor": "nope"}, 112, "ServerAssignor nope is not supported. Supported assignors: uniform, range."),
    (
        {"subscribed_topic_regex": "a["},
        128,
        "SubscribedTopicRegex `a[` is not a valid regular expression: missing ]: [.",
    ),
]


@pytest.mark.parametrize(("said", "code", "message"), REFUSED)
def test_invalid_joins_are_refused(said: dict[str, Any], code: int, message: str | None) -> None:
    broker = broker_with_consumers()
    answer = join(broker, "a", **said)
    assert (answer.error_code, answer.error_message) == (code, message)
    assert (answer.member_id, answer.member_epoch, answer.heartbeat_interval_ms, answer.assignment) == (None, 0, 0, None)
    assert listed(broker) == {}


@pytest.mark.parametrize(
    ("epoch", "code", "message"),
    [
        (1, 69, "Consumer group readers not found."),
        (-1, 69, "Group readers not found."),
        (-3, 42, "MemberEpoch is invalid."),
        (-2, 42, "InstanceId can't be null."),
    ],
)
def test_unknown_group(epoch: int, code: int, message: str) -> None:
    broker = broker_with_consumers()
    answer = beat(broker, "a", epoch)
    assert (answer.error_code, answer.error_message) == (code, message)


def test_unknown_members_and_epochs() -> None:
    broker = broker_with_consumers()
    join(broker, "a")
    answer = beat(broker, "zz", 2)
    assert (answer.error_code, answer.error_message) == (25, "Member zz is not a member of group readers.")
    answer = beat(broker, "a", 7)
    assert answer.error_code == 110
    assert answer.error_message.startswith("The consumer group member has a greater member epoch (7) than the one known")


def test_assignors_are_configured_on_the_broker() -> None:
    broker = broker_with_consumers(config={"group.consumer.assignors": "range"})
    answer = join(broker, "a", server_assignor="uniform")
    assert (answer.error_code, answer.error_message) == (112, "ServerAssignor uniform is not supported. Supported assignors: range.")
    join(broker, "a")
    assert describe(broker).assignor_name == "range"


def test_a_full_group() -> None:
    broker = broker_with_consumers(config={"group.consumer.max.size": "1"})
    join(broker, "a")
    answer = join(broker, "b")
    assert (answer.error_code, answer.error_message) == (81, "The consumer group has reached its maximum capacity of 1 members.")


def test_coordinator_does_not_exist_yet() -> None:
    broker = BrokerInMemory({"t": 1})
    assert join(broker, "a").error_code == 16
    broker.ask(k10.Request(key_type=0, coordinator_keys=["readers"]), 6)
    assert join(broker, "a").error_code == 0


def test_empty_classic_group_is_converted_and_back() -> None:
    broker = broker_with_consumers()
    joined = stable(broker)
    commit(broker, {("t", 0): 5}, generation_id=joined.generation_id, member_id=joined.member_id)
    classic_leave(broker, (joined.member_id, None))
    assert listed(broker) == {"readers": ("consumer", "Empty", "classic")}
    assert beat(broker, "a", 1).error_message == "Group readers is not a consumer group."
    assert told(broker, join(broker, "a")) == (2, {"t": [0, 1, 2, 3]})
    assert listed(broker) == {"readers": ("consumer", "Stable", "consumer")}
    leave(broker, "a")
    again = broker.restart(clean=False)
    assert listed(again) == {"readers": ("consumer", "Empty", "consumer")}
    assert stable(again).generation_id == 1
    assert listed(again.restart()) == {"readers": ("consumer", "Stable", "classic")}


def test_simple_group_is_converted() -> None:
    broker = broker_with_consumers()
    commit(broker, {("t", 0): 5})
    assert told(broker, join(broker, "a")) == (2, {"t": [0, 1, 2, 3]})
    assert listed(broker.restart()) == {"readers": ("consumer", "Stable", "consumer")}


@pytest.mark.parametrize("clean", [True, False])
def test_members_survive_a_restart(clean: bool) -> None:
    broker = broker_with_consumers()
    two_members(broker)
    again = broker.restart(clean=clean)
    assert told(again, beat(again, "a", 3, {"t": [0, 1]})) == (3, None)
    again.clock.advance(44_999)
    assert told(again, beat(again, "a", 3)) == (3, None)
    again.clock.advance(1)
    assert [each.member_id for each in describe(again).members] == ["a"]
    assert told(again, beat(again, "a", 3)) == (4, {"t": [0, 1, 2, 3]})


def test_topics_are_created_grown_and_deleted() -> None:
    broker = broker_with_consumers()
    assert told(broker, join(broker, "a", "t", "u")) == (2, {"t": [0, 1, 2, 3]})
    broker.cluster.create_topic("u", partition_count=1)
    assert told(broker, beat(broker, "a", 2)) == (3, {"t": [0, 1, 2, 3], "u": [0]})
    run(broker.cluster.create_partitions_in_steps("u", 2))
    assert told(broker, beat(broker, "a", 3)) == (4, {"t": [0, 1, 2, 3], "u": [0, 1]})
    broker.cluster.delete_topic("t")
    answer = beat(broker, "a", 4, {"u": [0, 1]})
    assert told(broker, answer) == (5, {"u": [0, 1]})
    broker.cluster.delete_topic("u")
    before = broker.cluster.create_topic("u", partition_count=2).topic_id
    answer = beat(broker, "a", 5, {})
    assert told(broker, answer) == (6, {"u": [0, 1]})
    assert answer.assignment.topic_partitions[0].topic_id == before


def test_regex_follows_the_topics() -> None:
    broker = broker_with_consumers()
    fields = {"subscribed_topic_names": None, "subscribed_topic_regex": "orders-.*"}
    assert told(broker, join(broker, "a", **fields)) == (2, {})
    broker.cluster.create_topic("orders-1", partition_count=1)
    broker.clock.advance(10_000)
    assert told(broker, beat(broker, "a", 2)) == (3, {"orders-1": [0]})


def test_group_configs_override_intervals() -> None:
    broker = broker_with_consumers()
    own = {"consumer.heartbeat.interval.ms": "3000", "consumer.session.timeout.ms": "50000"}
    assert join(broker, "a").heartbeat_interval_ms == 1_000
    broker.cluster.configs.alter_group("readers", own)
    assert beat(broker, "a", 2).heartbeat_interval_ms == 3_000
    broker.clock.advance(49_999)
    assert beat(broker, "a", 2).error_code == 0
    broker.clock.advance(50_000)
    assert beat(broker, "a", 2).error_code == 25


def test_protocol_or_feature_is_disabled() -> None:
    broker = broker_with_groups({"t": 1}, {"group.coordinator.rebalance.protocols": "classic"})
    assert join(broker, "a").error_code == describe(broker).error_code == 35
    broker = broker_with_consumers()
    update = k57.FeatureUpdate(feature="group.version", max_version_level=0, upgrade_type=2)
    assert broker.ask(k57.Request(feature_updates=[update])).error_code == 0
    answer = join(broker, "a")
    assert (answer.error_code, answer.error_message, answer.member_id, answer.member_epoch) == (35, None, None, 0)
    update = k57.FeatureUpdate(feature="group.version", max_version_level=1, upgrade_type=1)
    broker.ask(k57.Request(feature_updates=[update]))
    assert join(broker, "a").error_code == 0


def test_heartbeat_is_answered_after_the_sync() -> None:
    files = FaultyFiles()
    broker = broker_with_consumers(config={"log.flush.interval.messages": "1"}, files=files)
    pending = begin_join(broker, "a")
    assert not pending.is_done
    broker.clock.advance(0)
    assert told(broker, pending.answer()) == (2, {"t": [0, 1, 2, 3]})
    assert beat(broker, "a", 2).error_code == 0  # nothing to sync
    pending = begin_join(broker, "b")
    files.fail("sync", errno.EIO)
    broker.clock.advance(0)
    assert pending.answer().error_code == 16
