"""The groups in the records of one partition: the log of Apache Kafka has the groups that Apache Kafka described."""

from __future__ import annotations

import json
from uuid import UUID

import pytest

from minibroker.coordinator.group import store
from minibroker.coordinator.group.classic.members import group_record, group_tombstone
from minibroker.coordinator.group.consumer.members import (
    ConsumerGroupImage,
    ConsumerMember,
    epoch_record,
    group_tombstones,
    member_record,
    member_tombstones,
    target_record,
)
from minibroker.coordinator.group.kind import SIMPLE_GROUP, GroupType
from minibroker.coordinator.group.offsets import CommittedOffset, offset_record
from minibroker.coordinator.group.share.members import ShareGroupImage
from minibroker.coordinator.group.store import Shard
from minibroker.coordinator.group.streams.members import StreamsGroupImage
from minibroker.records.any_format import decode_records, split_batches
from minibroker.schemas.internal.coordinator_records import OFFSET_RECORD_TYPES
from minibroker.schemas.internal.offset_records import GroupMetadataValue
from minibroker.storage.record_frame import CONSUMER_OFFSETS, CoordinatorRecord
from tests.golden import FRAMES, golden

GROUP_RECORDS = FRAMES.parent / "records" / "groups_kafka_4.3.1.json"
OFFSET = offset_record("g", ("a", 0), CommittedOffset(1, -1, "", 1_000))
CLASSIC = group_record(
    "g", GroupMetadataValue(protocol_type="consumer", generation=3, protocol=None, leader=None, current_state_timestamp=0, members=[])
)
EPOCH = epoch_record("g", 5, 77)
MEMBER = member_record("g", ConsumerMember("m", topic_names=("a",)))
IMAGES = {GroupType.CONSUMER: ConsumerGroupImage, GroupType.SHARE: ShareGroupImage, GroupType.STREAMS: StreamsGroupImage}
TARGET = target_record("g", "m", {UUID(int=1): frozenset({0})})


def new_shard() -> Shard:
    return Shard(lambda group_type: IMAGES[group_type]())


def shard_of(*records: CoordinatorRecord) -> Shard:
    shard = new_shard()
    for record_offset, record in enumerate(records):
        shard.replay(record, record_offset)
    return shard


def types(shard: Shard) -> dict[str, GroupType]:
    return {group_id: group.group_type for group_id, group in shard.groups.items()}


def test_loaded_groups_match_kafkas_descriptions() -> None:
    """One log, and what ConsumerGroupDescribe answered about the groups in it at its end."""
    shard = new_shard()
    for segment in json.loads(GROUP_RECORDS.read_text())["segments"].values():
        for batch in split_batches(memoryview(bytes.fromhex(segment["segment"]))):
            for record in decode_records(batch) if not batch.is_control else ():
                if (found := CONSUMER_OFFSETS.decode(record.key, record.value)) is not None:
                    shard.replay(found, record.offset)
    result = golden("k69_consumer_group_describe_v1_response_java_4.3.1_group_tools").decode().groups
    empty = {each.group_id: each for each in result if each.group_state == "Empty" and each.group_id in shard.groups}
    assert len(empty) >= 5
    for group_id, kafka in empty.items():
        image = shard.groups[group_id].image
        assert (shard.groups[group_id].group_type, image.members) == (GroupType.CONSUMER, {})
        assert (image.epoch, image.assignment_epoch) == (kafka.group_epoch, kafka.assignment_epoch)
    others = {each.group_id for each in result if "is not a consumer group" in (each.error_message or "")} & shard.groups.keys()
    assert others
    assert all(shard.groups[each].is_classic for each in others)


@pytest.mark.parametrize("first", [EPOCH, MEMBER, TARGET])
def test_any_record_may_be_the_first_of_a_group(first: CoordinatorRecord) -> None:
    """Compaction leaves the last one of each key."""
    shard = shard_of(first)
    assert types(shard) == {"g": GroupType.CONSUMER}
    whole = shard_of(*dict.fromkeys([first, EPOCH, MEMBER, TARGET]))
    image: ConsumerGroupImage = whole.groups["g"].image
    assert (image.epoch, image.metadata_hash, list(image.members), list(image.targets)) == (5, 77, ["m"], ["m"])


def test_group_is_deleted_by_its_epoch_tombstone() -> None:
    *others, last = group_tombstones("g", ["m"])
    shard = shard_of(EPOCH, MEMBER, *others)
    assert types(shard) == {"g": GroupType.CONSUMER}
    shard.replay(last, 9)
    assert types(shard) == {}


def test_tombstones_of_unknown_groups_create_none() -> None:
    assert types(shard_of(*member_tombstones("g", "m"), *group_tombstones("g"), group_tombstone("g"))) == {}
    shard = shard_of(CLASSIC, *member_tombstones("g", "m"), *group_tombstones("g"))
    assert types(shard) == {"g": GroupType.CLASSIC}


def test_group_types_replace_each_other() -> None:
    shard = shard_of(OFFSET)
    assert shard.groups == {"g": SIMPLE_GROUP}
    shard.replay(EPOCH, 1)  # no tombstone for a simple group: it has no record of its own
    assert types(shard) == {"g": GroupType.CONSUMER}
    shard = shard_of(OFFSET, CLASSIC, group_tombstone("g"), MEMBER, EPOCH)
    assert types(shard) == {"g": GroupType.CONSUMER}
    shard = shard_of(OFFSET, MEMBER, EPOCH, *group_tombstones("g", ["m"]), CLASSIC)
    assert types(shard) == {"g": GroupType.CLASSIC}
    assert list(shard.offsets.of_group("g")) == [("a", 0)]


def test_new_group_uses_the_image_of_its_state_machine() -> None:
    shard, image = new_shard(), ConsumerGroupImage()
    shard.new_images["g"] = image
    shard.replay(EPOCH, 0)
    assert shard.groups["g"].image is image
    assert image.epoch == 5


def test_every_record_type_has_a_group_type() -> None:
    of_none = {each.key for each in OFFSET_RECORD_TYPES} - store._TYPES.keys()
    assert {each.__name__ for each in of_none} == {"LegacyOffsetCommitKey", "OffsetCommitKey", "GroupMetadataKey"}
