"""Committed offsets as records of `__consumer_offsets`, and back.

A commit is OffsetCommitValue v4. It is v1 if it has its own expiry time: only v1 has a field for
that, and it has no leader epoch and no topic id. A deleted offset is a tombstone of its key. The
records of one request are one batch: transactional with the producer's id and epoch, or without a
producer, then with base sequence 0 as Apache Kafka writes it. Source:
GroupCoordinatorRecordHelpers, CoordinatorRuntime of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from functools import lru_cache
from struct import Struct
from typing import Final

from minibroker.coordinator.group.offsets import NO_TIMESTAMP, CommittedOffset, NewOffset, TopicPartition
from minibroker.schemas.internal.offset_records import (
    LegacyOffsetCommitKey,
    OffsetCommitKey,
    OffsetCommitValue,
)
from minibroker.storage.record_frame import CONSUMER_OFFSETS, CoordinatorRecord
from minibroker.wire.primitives import UUID_SIZE, unsigned_varint

OFFSET_VERSION: Final = 4
EXPIRING_OFFSET_VERSION: Final = 1
_TOMBSTONE: Final = -1
_CACHED_KEYS: Final = 4_096  #: a member commits the same partitions repeatedly

_pack_offset = Struct(">hqi").pack  #: version of the value, offset, leader_epoch; metadata follows
_pack_untagged = Struct(">qB").pack  #: commit_timestamp; no tagged field
_pack_tagged = Struct(f">qBBB{UUID_SIZE}s").pack  #: commit_timestamp; one tagged field: its tag, its size, topic_id


def offset_record(group_id: str, partition: TopicPartition, committed: CommittedOffset) -> CoordinatorRecord:
    """Return the record of a commit."""
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
    """Encode a commit without an expiry time: the key and value that `offset_record` would become, in one step."""
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
    """Return the tombstone of an offset."""
    return CoordinatorRecord(_offset_key(group_id, partition), None, _TOMBSTONE)


def _offset_key(group_id: str, partition: TopicPartition) -> OffsetCommitKey:
    topic, index = partition
    return OffsetCommitKey(group=group_id, topic=topic, partition=index)


def committed_offset(record: CoordinatorRecord, record_offset: int) -> CommittedOffset | None:
    """Return the offset that a record has; None for a tombstone."""
    value = record.value
    if value is None:
        return None
    if isinstance(record.key, LegacyOffsetCommitKey):
        return CommittedOffset(value.offset, -1, value.metadata, value.commit_timestamp, record_offset=record_offset)
    return CommittedOffset(
        value.offset, value.leader_epoch, value.metadata, value.commit_timestamp, value.expire_timestamp, value.topic_id, record_offset
    )
