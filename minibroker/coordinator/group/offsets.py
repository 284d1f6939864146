"""Committed offsets of one partition of `__consumer_offsets`: those that count, and those that wait for the end of a transaction.

Invariants
  - what an open transaction committed is seen by nobody; it counts from the commit marker on, and is gone with an abort marker
  - of two commits for one partition the later record counts, even when the earlier one is transactional and its marker comes last:
    compaction keeps the later record alone, and a replay must come to the same
  - no group has an empty table of offsets, no producer one of groups without any

Source: OffsetMetadataManager, OffsetAndMetadata of Apache Kafka 4.3.1.

A commit of offsets: what a client asks for, and what it is told. Not in coordinator.py, because handlers are imported at every start.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple
from uuid import UUID

from minibroker.errors import KafkaError
from minibroker.log.partition_log import PartitionLog
from minibroker.wire.schema import NIL_UUID

NO_PRODUCER_ID = -1
NO_TIMESTAMP = -1

TopicPartition = tuple[str, int]


class CommittedOffset(NamedTuple):
    """How far a group has read one partition; times are in milliseconds since the epoch."""

    offset: int  #: the next one to read
    leader_epoch: int  #: -1 when the client does not say
    metadata: str  #: whatever the client keeps with it
    commit_timestamp_ms: int
    expire_timestamp_ms: int = NO_TIMESTAMP  #: as OffsetCommit 2 to 4 may ask for; -1 leaves it to offsets.retention.minutes
    topic_id: UUID = NIL_UUID  #: nil where the client names topics only, as in TxnOffsetCommit
    record_offset: int = -1  #: where in the log it stands


_ByPartition = dict[TopicPartition, CommittedOffset]
_NOTHING: Mapping[TopicPartition, CommittedOffset] = {}


class Offsets:
    """Offsets by group and partition."""

    __slots__ = ("_committed", "_open", "_pending")

    def __init__(self) -> None:
        self._committed: dict[str, _ByPartition] = {}
        self._pending: dict[int, dict[str, _ByPartition]] = {}  #: by producer id, then group
        self._open: dict[str, set[int]] = {}  #: group -> producer ids whose pending offsets are its own, too

    def of_group(self, group_id: str) -> Mapping[TopicPartition, CommittedOffset]:
        """Those that count."""
        return self._committed.get(group_id, _NOTHING)

    def is_unstable(self, group_id: str, partition: TopicPartition) -> bool:
        """Whether an open transaction has an offset for it."""
        return any(partition in self._pending[producer_id].get(group_id, _NOTHING) for producer_id in self._open.get(group_id, ()))

    def has_open_transaction(self, group_id: str) -> bool:
        """Whether some transaction has yet to decide about offsets of the group."""
        return group_id in self._open

    def partitions_of(self, group_id: str) -> list[TopicPartition]:
        """Those of the group with an offset that counts, or will when a transaction commits."""
        pending = (self._pending[producer_id].get(group_id, _NOTHING) for producer_id in self._open.get(group_id, ()))
        return list(dict.fromkeys(partition for each in (self.of_group(group_id), *pending) for partition in each))

    def all(self) -> Iterator[tuple[str, TopicPartition, CommittedOffset]]:
        """Every offset with its group, also those of open transactions; what is found may be removed meanwhile."""
        stores = [self._committed, *self._pending.values()]
        found = [(group_id, *item) for store in stores for group_id, offsets in store.items() for item in offsets.items()]
        return iter(found)

    def put(self, group_id: str, partition: TopicPartition, committed: CommittedOffset, producer_id: int = NO_PRODUCER_ID) -> None:
        """Take a record: it counts at once, or with the transaction of `producer_id`."""
        store = self._committed
        if producer_id != NO_PRODUCER_ID:
            store = self._pending.setdefault(producer_id, {})
            self._open.setdefault(group_id, set()).add(producer_id)
        offsets = store.get(group_id)
        if offsets is None:
            offsets = store[group_id] = {}
        offsets[partition] = committed

    def remove(self, group_id: str, partition: TopicPartition) -> None:
        """Take a tombstone: also what open transactions have for this partition is forgotten."""
        _remove(self._committed, group_id, partition)
        for producer_id in list(self._open.get(group_id, ())):
            pending = self._pending[producer_id]
            _remove(pending, group_id, partition)
            if group_id not in pending:
                self._close(group_id, producer_id)
                if not pending:
                    del self._pending[producer_id]

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        """Take a marker; harmless when the producer has committed no offsets."""
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
    """What is to be committed for one partition."""

    partition: tuple[str, int]  #: topic and index
    offset: int
    leader_epoch: int = -1
    metadata: str | None = None
    topic_id: UUID = NIL_UUID


class Membership(NamedTuple):
    """Who commits: a member of a generation, or with -1 a client that is no member."""

    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


class Commit(NamedTuple):
    """What became of it: an error or None for each offset, in their order, and the log that must be synced before anybody is told."""

    errors: list[KafkaError | None]
    log: PartitionLog | None
