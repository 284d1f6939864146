"""ConsumerGroupDescribe: answers as Apache Kafka 4.3.1 gave them to the same requests (raw frames, one KRaft node, 2026-11-21)."""

from __future__ import annotations

import pytest

from minibroker.schemas import k69_consumer_group_describe as schema
from minibroker.wire.codec import decode, encode
from tests.golden import all_golden, golden
from tests.support.broker_in_memory import BrokerInMemory
from tests.support.consumer_members import (
    as_in_the_golden_exchange,
    beat,
    broker_with_consumers,
    by_name,
    describe,
    join,
    leave,
    two_members,
)
from tests.support.golden_exchange import kafka_answers, serve
from tests.support.group_members import describe as describe_classic
from tests.support.group_members import stable

VERSIONS = range(schema.VERSIONS[0], schema.VERSIONS[1] + 1)
GOLDEN = [name for name in all_golden() if name.startswith("k69_") and "_response_" in name]

Has = tuple[int, dict[str, list[int]], dict[str, list[int]]]


def members(broker: BrokerInMemory) -> dict[str, Has]:
    """Of each its epoch, what it has and what it shall have."""
    return {
        each.member_id: (each.member_epoch, by_name(broker, each.assignment), by_name(broker, each.target_assignment))
        for each in describe(broker).members
    }


@pytest.mark.parametrize("name", GOLDEN)
def test_kafka_answers_round_trip(name: str) -> None:
    frame = golden(name)
    answer = frame.decode()
    assert decode(schema.Response, encode(answer, frame.version, flexible=True), frame.version, flexible=True) == answer


@pytest.mark.parametrize("version", VERSIONS)
def test_golden_request_gets_kafka_bytes(version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    broker = as_in_the_golden_exchange(monkeypatch, version)
    request = golden(f"k69_consumer_group_describe_v{version}_request_franz_go_1.22.2_groups")
    living, gone = sorted(kafka_answers(request), key=len, reverse=True)
    assert serve(broker, request) == living
    (member,) = describe(broker, f"golden-next-{version}").members
    leave(broker, member.member_id, group=f"golden-next-{version}")
    assert serve(broker, request) == gone


@pytest.mark.parametrize("version", VERSIONS)
def test_group_with_members(version: int) -> None:
    broker = broker_with_consumers()
    two_members(broker)
    group = describe(broker, version=version)
    assert (group.error_code, group.error_message, group.group_id, group.group_state) == (0, None, "readers", "Stable")
    assert (group.group_epoch, group.assignment_epoch, group.assignor_name, group.authorized_operations) == (3, 3, "uniform", -(2**31))
    first, second = group.members
    assert (first.member_id, first.instance_id, first.rack_id, first.member_epoch) == ("a", None, None, 3)
    assert (first.client_id, first.client_host) == ("client", "/127.0.0.1")
    assert (first.subscribed_topic_names, first.subscribed_topic_regex) == (["t"], "")
    assert (first.member_type, second.member_type) == ((1, 1) if version else (-1, -1))
    assert [each.topic_name for each in first.assignment.topic_partitions] == ["t"]


def test_partitions_to_revoke_are_still_assigned() -> None:
    broker = broker_with_consumers()
    everything = {"t": [0, 1, 2, 3]}
    join(broker, "a")
    join(broker, "b")
    for owned in (None, everything):
        assert members(broker) == {"a": (2, everything, {"t": [0, 1]}), "b": (3, {}, {"t": [2, 3]})}
        assert describe(broker).group_state == "Reconciling"
        beat(broker, "a", 2, owned)
    beat(broker, "a", 2, {"t": [0, 1]})
    assert members(broker) == {"a": (3, {"t": [0, 1]}, {"t": [0, 1]}), "b": (3, {}, {"t": [2, 3]})}


def test_states() -> None:
    broker = broker_with_consumers(config={"group.consumer.assignment.interval.ms": "1000"})
    join(broker, "a")
    join(broker, "b")
    group = describe(broker)
    assert (group.group_state, group.group_epoch, group.assignment_epoch) == ("Assigning", 3, 2)
    assert members(broker)["b"] == (2, {}, {})
    leave(broker, "a")
    leave(broker, "b")
    group = describe(broker)
    assert (group.group_state, group.group_epoch, group.members) == ("Empty", 5, [])


def test_deleted_topics_are_omitted() -> None:
    broker = broker_with_consumers({"t": 1, "u": 1})
    join(broker, "a", "t", "u")
    broker.cluster.delete_topic("t")
    assert members(broker) == {"a": (2, {"u": [0]}, {"u": [0]})}


@pytest.mark.parametrize("version", VERSIONS)
def test_unknown_classic_and_empty_group_ids(version: int) -> None:
    broker = broker_with_consumers()
    stable(broker, group="classic")
    found = [describe(broker, name, version=version) for name in ("nope", "classic", "")]
    assert [(each.error_code, each.error_message, each.group_state) for each in found] == [
        (69, "Group nope not found.", ""),
        (69, "Group classic is not a consumer group.", ""),
        (24, None, ""),
    ]
    join(broker, "a")
    group = describe_classic(broker)
    assert (group.error_code, group.error_message, group.group_state) == (69, "Group readers is not a classic group.", "Dead")


def test_operations() -> None:
    broker = broker_with_consumers()
    join(broker, "a")
    assert describe(broker, include_authorized_operations=True).authorized_operations == 3400
    assert describe(broker, "nope", include_authorized_operations=True).authorized_operations == -(2**31)


def test_coordinator_does_not_exist_yet() -> None:
    assert describe(BrokerInMemory()).error_code == 16
