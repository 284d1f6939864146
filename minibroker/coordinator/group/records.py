"""Committed offsets as records of `__consumer_offsets`, and back; groups as such records.

A commit is OffsetCommitValue v4; v1 when it has a time of its own at which it expires, which alone has a place for it, and then has no
leader epoch and no topic id. A deleted offset is a tombstone of its key, a group that is gone one of GroupMetadataKey. Records of one
request are one batch: without a producer (but with base sequence 0, as Apache Kafka writes it), or transactional with the producer's id
and epoch. Source: GroupCoordinatorRecordHelpers, CoordinatorRuntime of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from typing import Final

from minibroker.coordinator.group.offsets import NO_TIMESTAMP, CommittedOffset, TopicPartition
from minibroker.coordinator.record_frame import CoordinatorRecord
from minibroker.schemas.internal.offset_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    OffsetCommitKey,
    OffsetCommitValue,
)

OFFSET_VERSION: Final = 4
EXPIRING_OFFSET_VERSION: Final = 1
GROUP_VERSION: Final = 3
_TOMBSTONE: Final = -1


def offset_record(group_id: str, partition: TopicPartition, committed: CommittedOffset) -> CoordinatorRecord:
    """A commit."""
    key = _offset_key(group_id, partition)
    offset, metadata, timestamp_ms = committed.offset, committed.metadata, committed.commit_timestamp_ms
    if committed.expire_timestamp_ms != NO_TIMESTAMP:
        expiring = OffsetCommitValue(
            offset=offset, metadata=metadata, commit_timestamp=timestamp_ms, expire_timestamp=committed.expire_timestamp_ms
        )
        return CoordinatorRecord(key, expiring, EXPIRING_OFFSET_VERSION)
    value = OffsetCommitValue(
        offset=offset,
        leader_epoch=committed.leader_epoch,
        metadata=metadata,
        commit_timestamp=timestamp_ms,
        topic_id=committed.topic_id,
    )
    return CoordinatorRecord(key, value, OFFSET_VERSION)


def offset_tombstone(group_id: str, partition: TopicPartition) -> CoordinatorRecord:
    """The offset is deleted."""
    return CoordinatorRecord(_offset_key(group_id, partition), None, _TOMBSTONE)


def group_record(group_id: str, value: GroupMetadataValue) -> CoordinatorRecord:
    """A generation of a classic group."""
    return CoordinatorRecord(GroupMetadataKey(group=group_id), value, GROUP_VERSION)


def group_tombstone(group_id: str) -> CoordinatorRecord:
    """The group is gone."""
    return CoordinatorRecord(GroupMetadataKey(group=group_id), None, _TOMBSTONE)


def _offset_key(group_id: str, partition: TopicPartition) -> OffsetCommitKey:
    topic, index = partition
    return OffsetCommitKey(group=group_id, topic=topic, partition=index)


def committed_offset(record: CoordinatorRecord, record_offset: int) -> CommittedOffset | None:
    """What the record of an offset says; None for a tombstone."""
    value = record.value
    if value is None:
        return None
    if isinstance(record.key, LegacyOffsetCommitKey):
        return CommittedOffset(value.offset, -1, value.metadata, value.commit_timestamp, record_offset=record_offset)
    return CommittedOffset(
        value.offset, value.leader_epoch, value.metadata, value.commit_timestamp, value.expire_timestamp, value.topic_id, record_offset
    )
