"""Records of consumer groups: those that Apache Kafka 4.3.1 wrote are read, and ours for the same steps are the same."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import pytest

from minibroker.coordinator.group.consumer.members import (
    ConsumerGroupImage,
    ConsumerMember,
    MemberState,
    ResolvedRegex,
    current_record,
    epoch_record,
    group_tombstones,
    member_record,
    member_tombstones,
    regex_record,
    regex_tombstone,
    target_epoch_record,
    target_record,
)
from minibroker.coordinator.group.consumer.requests import ConsumerGroupLimits, ConsumerHeartbeat
from minibroker.coordinator.group.modern import FIRST_EPOCH
from minibroker.schemas.internal.consumer_group_records import (
    AssignedPartitions,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMetadataKey,
)
from minibroker.storage.record_frame import CoordinatorRecord
from tests.coordinator.group.consumer.world import World
from tests.coordinator.group.modern_world import KnownTopics, raw, records_of
from tests.golden import FRAMES

SEGMENTS = json.loads((FRAMES.parent / "records" / "groups_kafka_4.3.1.json").read_text())["segments"]
KINDS = (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMetadataKey,
)


KAFKA = records_of((each["segment"] for each in SEGMENTS.values()), KINDS)
TOPIC_ID = next(
    found.value.topic_partitions[0].topic_id
    for found, _ in KAFKA["consumer-of-java-groups"]
    if isinstance(found.key, ConsumerGroupTargetAssignmentMemberKey) and found.value is not None
)


def again(group_id: str, image: ConsumerGroupImage, record: CoordinatorRecord) -> CoordinatorRecord:
    """What we write for what this record of Kafka says."""
    key = record.key
    if isinstance(key, ConsumerGroupMetadataKey):
        return epoch_record(group_id, image.epoch, image.metadata_hash)
    if isinstance(key, ConsumerGroupMemberMetadataKey):
        return member_record(group_id, image.members[key.member_id])
    if isinstance(key, ConsumerGroupRegularExpressionKey):
        return regex_record(group_id, key.regular_expression, image.regexes[key.regular_expression])
    if isinstance(key, ConsumerGroupTargetAssignmentMetadataKey):
        return target_epoch_record(group_id, image.assignment_epoch, image.assignment_timestamp_ms)
    if isinstance(key, ConsumerGroupTargetAssignmentMemberKey):
        return target_record(group_id, key.member_id, image.targets[key.member_id])
    return current_record(group_id, image.members[key.member_id])


def comparable(record: CoordinatorRecord) -> CoordinatorRecord:
    """Kafka's hash tables take topics and partitions in an order of their own."""
    value = record.value
    for name in ("topic_partitions", "assigned_partitions", "partitions_pending_revocation"):
        if hasattr(value, name):
            sorted_ = sorted(getattr(value, name), key=lambda each: each.topic_id)
            value = type(value)(**{field: getattr(value, field) for field in value.__slots__} | {name: sorted_})
    return record._replace(value=value)


@pytest.mark.parametrize("group_id", sorted(KAFKA))
def test_kafka_records_round_trip(group_id: str) -> None:
    image = ConsumerGroupImage()
    for record, theirs in KAFKA[group_id]:
        image.replay(record)
        if record.value is None:
            assert record in [
                *member_tombstones(group_id, getattr(record.key, "member_id", "")),
                *group_tombstones(group_id),
                regex_tombstone(group_id, getattr(record.key, "regular_expression", "")),
            ]
            continue
        ours = again(group_id, image, record)
        assert comparable(ours) == comparable(record)
        if comparable(record) == record:
            assert raw(ours) == theirs


def asked_of(record: CoordinatorRecord) -> dict[str, Any]:
    value = record.value
    return {
        "instance_id": value.instance_id,
        "client_id": value.client_id,
        "client_host": value.client_host,
        "rebalance_timeout_ms": value.rebalance_timeout_ms,
        "topic_names": tuple(value.subscribed_topic_names),
        "topic_regex": value.subscribed_topic_regex,
        "owned": {},
    }


def test_same_steps_write_the_same_records() -> None:
    """Two static members of Java: both join, share, leave for a while and are back as others."""
    group_id = "consumer_static-of-java-groups"
    theirs = [record for record, _ in KAFKA[group_id]]
    topics = KnownTopics()
    topics.create("java-groups", 2, TOPIC_ID)
    world = World(limits=ConsumerGroupLimits(assignment_interval_ms=1_000), topics=topics, group_id=group_id)
    joins: dict[str, CoordinatorRecord] = {}
    for each in theirs:
        if isinstance(each.key, ConsumerGroupMemberMetadataKey) and each.value is not None:
            joins.setdefault(each.key.member_id, each)
    first, second, second_again, first_again = joins

    def owns(*partitions: int) -> dict[str, Any]:
        return {"owned": {TOPIC_ID: frozenset(partitions)}}

    def join(member_id: str, **said: Any) -> None:
        world.group.heartbeat(ConsumerHeartbeat(member_id, 0, **(asked_of(joins[member_id]) | said)))

    join(first)
    join(second)
    world.let_pass(1_000)
    beat = {"client_id": "first", "instance_id": "one"}
    world.group.heartbeat(beat_of(first, 2, **beat, **owns(0, 1)))
    world.group.heartbeat(beat_of(first, 2, **beat, **owns(0)))
    world.group.heartbeat(beat_of(second, 2, client_id="second", instance_id="two", owned={}))
    world.group.heartbeat(beat_of(second, -2, client_id="second", instance_id="two"))
    join(second_again, client_id="second again")
    world.group.heartbeat(beat_of(first, -2, **beat))
    join(first_again, client_id="first again")
    ours = world.stored
    expected = theirs[: len(ours)]
    assert [normal(each) for each in ours] == [normal(each) for each in expected]
    assert len(ours) > 30


def beat_of(member_id: str, member_epoch: int, *, client_id: str, **said: Any) -> ConsumerHeartbeat:
    return ConsumerHeartbeat(member_id, member_epoch, client_id, "/127.0.0.1", **said)


def normal(record: CoordinatorRecord) -> Any:
    """Without times."""
    if isinstance(record.key, ConsumerGroupTargetAssignmentMetadataKey) and record.value is not None:
        return record.key, record.value.assignment_epoch
    return record.key, record.value


# Replay


def current(state: int, epochs: list[int] | None = None, *, epoch: int = 3) -> CoordinatorRecord:
    partitions = [AssignedPartitions(topic_id=UUID(int=1), partitions=[0, 1], assignment_epochs=epochs)]
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=epoch, previous_member_epoch=2, state=state, assigned_partitions=partitions, partitions_pending_revocation=[]
    )
    return CoordinatorRecord(ConsumerGroupCurrentMemberAssignmentKey(group_id="g", member_id="a"), value, 0)


def test_unknown_states_and_epochs() -> None:
    image = ConsumerGroupImage()
    image.replay(current(9))
    assert image.members["a"][11:14] == (2, MemberState.UNKNOWN, {UUID(int=1): {0: 0, 1: 0}})
    image.replay(current(2, [2, 3]))
    assert image.members["a"][11:14] == (2, MemberState.UNRELEASED_PARTITIONS, {UUID(int=1): {0: 2, 1: 3}})


def test_current_assignment_may_be_replayed_first() -> None:
    image = ConsumerGroupImage()
    image.replay(current(0, [2, 3]))
    image.replay(member_record("g", ConsumerMember("a", instance_id="i", topic_names=("t",))))
    assert (image.members["a"].member_epoch, image.members["a"].topic_names) == (3, ("t",))
    assert image.owners == {(UUID(int=1), 0): "a", (UUID(int=1), 1): "a"}
    assert image.instances == {"i": "a"}
    for tombstone in member_tombstones("g", "a"):
        image.replay(tombstone)
    assert (image.members, image.owners, image.instances, image.targets) == ({}, {}, {}, {})


def test_deleted_group() -> None:
    image = ConsumerGroupImage()
    for record in (epoch_record("g", 7, 1), target_epoch_record("g", 7, 5), *group_tombstones("g")):
        image.replay(record)
    assert (image.epoch, image.assignment_epoch, image.metadata_hash, image.assignment_timestamp_ms) == (FIRST_EPOCH, FIRST_EPOCH, 0, 0)


def test_copy_is_independent() -> None:
    image = ConsumerGroupImage()
    image.replay(current(0, [2, 3]))
    copied = image.copy()
    copied.replay(regex_record("g", "x", ResolvedRegex(("t",), 1, 2)))
    for tombstone in member_tombstones("g", "a"):
        copied.replay(tombstone)
    assert image.members.keys() == {"a"}
    assert len(image.owners) == 2
    assert image.regexes == {}
