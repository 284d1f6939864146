"""Committed offsets as records of `__consumer_offsets`, and back; groups as such records.

A commit is OffsetCommitValue v4; v1 when it has a time of its own at which it expires, which alone has a place for it, and then has no
leader epoch and no topic id. A deleted offset is a tombstone of its key, a group that is gone one of GroupMetadataKey. Records of one
request are one batch: without a producer (but with base sequence 0, as Apache Kafka writes it), or transactional with the producer's id
and epoch. Source: GroupCoordinatorRecordHelpers, CoordinatorRuntime of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from functools import lru_cache
from struct import Struct
from typing import Final

from minibroker.coordinator.group.offsets import NO_TIMESTAMP, CommittedOffset, NewOffset, TopicPartition
from minibroker.coordinator.record_frame import CONSUMER_OFFSETS, CoordinatorRecord
from minibroker.schemas.internal.offset_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    OffsetCommitKey,
    OffsetCommitValue,
)
from minibroker.wire.primitives import UUID_SIZE, unsigned_varint

OFFSET_VERSION: Final = 4
EXPIRING_OFFSET_VERSION: Final = 1
GROUP_VERSION: Final = 3
_TOMBSTONE: Final = -1
_CACHED_KEYS: Final = 4_096  #: a member commits for the same partitions again and again

_pack_offset = Struct(">hqi").pack  #: version of the value, offset, leader_epoch; metadata is next
_pack_untagged = Struct(">qB").pack  #: commit_timestamp; no tagged field
_pack_tagged = Struct(f">qBBB{UUID_SIZE}s").pack  #: commit_timestamp; one tagged field: its tag, its size, topic_id


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


def encode_commit(group_id: str, new: NewOffset, commit_timestamp_ms: int) -> tuple[bytes, bytes]:
    """Key and value of the record of a commit that has no time of its own at which it expires: what `offset_record` becomes, at once."""
    metadata = (new.metadata or "").encode()
    value = b"%b%b%b%b" % (
        _pack_offset(OFFSET_VERSION, new.offset, new.leader_epoch),
        unsigned_varint(len(metadata) + 1),
        metadata,
        _pack_tagged(commit_timestamp_ms, 1, 0, UUID_SIZE, new.topic_id.int.to_bytes(UUID_SIZE))
        if new.topic_id.int
        else _pack_untagged(commit_timestamp_ms, 0),
    )
    return _encode_key(group_id, *new.partition), value


@lru_cache(_CACHED_KEYS)
def _encode_key(group_id: str, topic: str, index: int) -> bytes:
    return CONSUMER_OFFSETS.encode_key(OffsetCommitKey(group=group_id, topic=topic, partition=index))


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
