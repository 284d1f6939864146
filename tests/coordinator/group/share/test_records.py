"""Records of share groups: those that Apache Kafka 4.3.1 wrote are read, and written again they are the same."""

from __future__ import annotations

import json
from uuid import UUID

import pytest

from minibroker.coordinator.group.modern import FIRST_EPOCH
from minibroker.coordinator.group.share.members import (
    ShareGroupImage,
    ShareMember,
    StatePartitions,
    current_record,
    epoch_record,
    group_tombstones,
    member_record,
    member_tombstones,
    named,
    state_partitions_record,
    target_epoch_record,
    target_record,
)
from minibroker.schemas.internal.share_group_records import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupMemberMetadataKey,
    ShareGroupMetadataKey,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMetadataKey,
)
from minibroker.storage.record_frame import CoordinatorRecord
from tests.coordinator.group.modern_world import facts, raw, records_of
from tests.golden import FRAMES

SEGMENTS = json.loads((FRAMES.parent / "records" / "groups_kafka_4.3.1.json").read_text())["segments"]
KINDS = (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupMemberMetadataKey,
    ShareGroupMetadataKey,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMetadataKey,
)
TOPIC = UUID(int=1)


KAFKA = records_of((each["segment"] for each in SEGMENTS.values()), KINDS)


def again(group_id: str, image: ShareGroupImage, record: CoordinatorRecord) -> CoordinatorRecord:
    """What we write for what this record of Kafka says."""
    key = record.key
    if isinstance(key, ShareGroupMetadataKey):
        return epoch_record(group_id, image.epoch, image.metadata_hash)
    if isinstance(key, ShareGroupMemberMetadataKey):
        return member_record(group_id, image.members[key.member_id])
    if isinstance(key, ShareGroupTargetAssignmentMetadataKey):
        return target_epoch_record(group_id, image.assignment_epoch, image.assignment_timestamp_ms)
    if isinstance(key, ShareGroupTargetAssignmentMemberKey):
        return target_record(group_id, key.member_id, image.targets[key.member_id])
    if isinstance(key, ShareGroupStatePartitionMetadataKey):
        return state_partitions_record(group_id, image.state_partitions)
    return current_record(group_id, image.members[key.member_id])


@pytest.mark.parametrize("group_id", sorted(KAFKA))
def test_kafka_records_round_trip(group_id: str) -> None:
    image = ShareGroupImage()
    kinds: set[type] = set()
    for record, theirs in KAFKA[group_id]:
        kinds.add(type(record.key))
        image.replay(record)
        if record.value is None:
            member_id = getattr(record.key, "member_id", "")
            assert record in [*member_tombstones(group_id, member_id), *group_tombstones(group_id)]
        else:
            assert raw(again(group_id, image, record)) == theirs
    assert kinds == set(KINDS)


def test_tombstone_order_matches_kafka() -> None:
    ends = [
        [type(record.key) for record, _ in records if record.value is None and type(record.key) in KINDS[2:4] + KINDS[5:]]
        for records in KAFKA.values()
    ]
    expected = [type(each.key) for each in group_tombstones("g")]
    assert expected in ends


# Replay


def every_record() -> list[CoordinatorRecord]:
    partitions = named([(TOPIC, "t", [0, 1])])
    member = ShareMember("a", "rack", "client", "/host", ("t",), 3, 2, {TOPIC: frozenset({0})})
    return [
        epoch_record("g", 7, -5),
        member_record("g", member),
        target_epoch_record("g", 6, 99),
        target_record("g", "a", {TOPIC: frozenset({0, 1})}),
        current_record("g", member),
        state_partitions_record("g", StatePartitions(partitions, partitions, {UUID(int=2): "gone"})),
    ]


@pytest.mark.parametrize("turn", range(6))
def test_records_may_be_replayed_in_any_order(turn: int) -> None:
    expected, image = ShareGroupImage(), ShareGroupImage()
    records = every_record()
    for record in records:
        expected.replay(record)
    for record in records[turn:] + records[:turn]:
        image.replay(record)
    assert facts(image) == facts(expected)
    assert image.members["a"].assigned == {TOPIC: {0}}
    assert image.state_partitions.deleting == {UUID(int=2): "gone"}
    assert image.subscribed == {"t"}


def test_deleted_group() -> None:
    image = ShareGroupImage()
    for record in [*every_record(), *member_tombstones("g", "a"), *group_tombstones("g")]:
        image.replay(record)
    assert facts(image) == facts(ShareGroupImage())
    assert image.epoch == image.assignment_epoch == FIRST_EPOCH


def test_copy_is_independent() -> None:
    image = ShareGroupImage()
    for record in every_record():
        image.replay(record)
    copied = image.copy()
    assert facts(copied) == facts(image)
    for tombstone in [*member_tombstones("g", "a"), *group_tombstones("g")]:
        copied.replay(tombstone)
    assert image.members.keys() == image.targets.keys() == {"a"}
