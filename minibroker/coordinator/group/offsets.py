"""Committed offsets of one partition of `__consumer_offsets`, with those of open transactions.

Invariants
  - offsets of an open transaction are not visible; a commit marker makes them visible, and an abort
    marker drops them
  - of two commits for one partition the later record wins, even if the earlier one is transactional
    and its marker comes last: compaction keeps only the later record, and a replay must have the
    same result
  - no group has an empty table of offsets, and no producer an empty table of groups

The record of a commit is OffsetCommitValue v4. It is v1 if the commit has its own expiry time: only
v1 has a field for that, and it has no leader epoch and no topic id. A deleted offset is a tombstone
of its key. The records of one request are one batch, either transactional with the producer's id
and epoch, or without a producer. Without a producer the base sequence is 0, as in Apache Kafka.

Source: OffsetMetadataManager, OffsetAndMetadata, GroupCoordinatorRecordHelpers, CoordinatorRuntime
of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from struct import Struct
from typing import Final, NamedTuple
from uuid import UUID

from minibroker.errors import KafkaError
from minibroker.log.partition_log import PartitionLog
from minibroker.schemas.internal.offset_records import (
    LegacyOffsetCommitKey,
    OffsetCommitKey,
    OffsetCommitValue,
)
from minibroker.storage.record_frame import CONSUMER_OFFSETS, CoordinatorRecord
from minibroker.wire.primitives import UUID_SIZE, unsigned_varint
from minibroker.wire.schema import NIL_UUID

NO_PRODUCER_ID = -1
NO_TIMESTAMP = -1

TopicPartition = tuple[str, int]


class CommittedOffset(NamedTuple):
    """How far a group has read one partition. Times are in milliseconds since the epoch."""

    offset: int  #: the next offset to read
    leader_epoch: int  #: -1 if the client did not send it
    metadata: str  #: any text from the client
    commit_timestamp_ms: int
    expire_timestamp_ms: int = NO_TIMESTAMP  #: set by OffsetCommit 2 to 4; -1: offsets.retention.minutes decides
    topic_id: UUID = NIL_UUID  #: nil if the client named the topic only, as in TxnOffsetCommit
    record_offset: int = -1  #: of its record in the log


_ByPartition = dict[TopicPartition, CommittedOffset]
_NOTHING: Mapping[TopicPartition, CommittedOffset] = {}


class Offsets:
    """Offsets by group and partition."""

    __slots__ = ("_committed", "_open", "_pending")

    def __init__(self) -> None:
        self._committed: dict[str, _ByPartition] = {}
        self._pending: dict[int, dict[str, _ByPartition]] = {}  #: by producer id, then group
        self._open: dict[str, set[int]] = {}  #: group -> producer ids with pending offsets of it

    def of_group(self, group_id: str) -> Mapping[TopicPartition, CommittedOffset]:
        """Return the committed offsets of a group."""
        return self._committed.get(group_id, _NOTHING)

    def is_unstable(self, group_id: str, partition: TopicPartition) -> bool:
        """Whether an open transaction has an offset for the partition."""
        return any(partition in self._pending[producer_id].get(group_id, _NOTHING) for producer_id in self._open.get(group_id, ()))

    def has_open_transaction(self, group_id: str) -> bool:
        """Whether an open transaction has offsets of the group."""
        return group_id in self._open

    def partitions_of(self, group_id: str) -> list[TopicPartition]:
        """Return the partitions of a group that have an offset, committed or in an open transaction."""
        pending = (self._pending[producer_id].get(group_id, _NOTHING) for producer_id in self._open.get(group_id, ()))
        return list(dict.fromkeys(partition for each in (self.of_group(group_id), *pending) for partition in each))

    def all(self) -> Iterator[tuple[str, TopicPartition, CommittedOffset]]:
        """Return every offset with its group, also those of open transactions.

        The caller may remove them while it iterates.
        """
        stores = [self._committed, *self._pending.values()]
        found = [(group_id, *item) for store in stores for group_id, offsets in store.items() for item in offsets.items()]
        return iter(found)

    def put(self, group_id: str, partition: TopicPartition, committed: CommittedOffset, producer_id: int = NO_PRODUCER_ID) -> None:
        """Replay a commit.

        It takes effect immediately, or when the transaction of `producer_id` commits.
        """
        store = self._committed
        if producer_id != NO_PRODUCER_ID:
            store = self._pending.setdefault(producer_id, {})
            self._open.setdefault(group_id, set()).add(producer_id)
        offsets = store.get(group_id)
        if offsets is None:
            offsets = store[group_id] = {}
        offsets[partition] = committed

    def remove(self, group_id: str, partition: TopicPartition) -> None:
        """Replay a tombstone. It also removes the partition's offsets of open transactions."""
        _remove(self._committed, group_id, partition)
        for producer_id in list(self._open.get(group_id, ())):
            pending = self._pending[producer_id]
            _remove(pending, group_id, partition)
            if group_id not in pending:
                self._close(group_id, producer_id)
                if not pending:
                    del self._pending[producer_id]

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        """Replay a marker. Does nothing if the producer has committed no offsets."""
        for group_id, offsets in self._pending.pop(producer_id, {}).items():
            self._close(group_id, producer_id)
            if is_commit:
                committed = self._committed.setdefault(group_id, {})
                for partition, offset in offsets.items():
                    if partition not in committed or committed[partition].record_offset < offset.record_offset:
                        committed[partition] = offset

    def _close(self, group_id: str, producer_id: int) -> None:
        self._open[group_id].remove(producer_id)
        if not self._open[group_id]:
            del self._open[group_id]


def _remove(store: dict[str, _ByPartition], group_id: str, partition: TopicPartition) -> None:
    offsets = store.get(group_id)
    if offsets is not None and offsets.pop(partition, None) is not None and not offsets:
        del store[group_id]


class NewOffset(NamedTuple):
    """An offset to commit for one partition."""

    partition: tuple[str, int]  #: topic and index
    offset: int
    leader_epoch: int = -1
    metadata: str | None = None
    topic_id: UUID = NIL_UUID


class Commit(NamedTuple):
    """The result of a commit: an error or None for each offset in order, and the log to sync before the answer."""

    errors: list[KafkaError | None]
    log: PartitionLog | None


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
    """Encode a commit without an expiry time: the same bytes as the record of `offset_record`, in one step."""
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
    """Return the offset in a record; None for a tombstone."""
    value = record.value
    if value is None:
        return None
    if isinstance(record.key, LegacyOffsetCommitKey):
        return CommittedOffset(value.offset, -1, value.metadata, value.commit_timestamp, record_offset=record_offset)
    return CommittedOffset(
        value.offset, value.leader_epoch, value.metadata, value.commit_timestamp, value.expire_timestamp, value.topic_id, record_offset
    )
