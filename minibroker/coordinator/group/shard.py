"""What the records of one partition of `__consumer_offsets` say: groups, and the offsets that they committed.

Of a group of KIP-848 it is kept that there is one. Records of other kinds (its members and assignments, share groups) are passed over and
stay where they are.

Source: GroupCoordinatorShard.replay of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from typing import NamedTuple

from minibroker.coordinator.group.offsets import NO_PRODUCER_ID, Offsets
from minibroker.coordinator.group.records import committed_offset
from minibroker.coordinator.record_frame import CoordinatorRecord
from minibroker.schemas.internal.consumer_group_records import ConsumerGroupMetadataKey
from minibroker.schemas.internal.offset_records import GroupMetadataKey, GroupMetadataValue, LegacyOffsetCommitKey, OffsetCommitKey


class Group(NamedTuple):
    """One group: with a record of its own, or simple, which is to say that it has offsets and nothing else."""

    stored: GroupMetadataValue | None = None  #: the last generation of a classic group
    is_classic: bool = True  #: False of one of KIP-848


SIMPLE = Group()


class Shard:
    """Groups by id, and their offsets."""

    __slots__ = ("groups", "offsets")

    def __init__(self) -> None:
        self.groups: dict[str, Group] = {}  #: every group that has offsets is here; a group may have none
        self.offsets = Offsets()

    def replay(self, record: CoordinatorRecord, record_offset: int, producer_id: int = NO_PRODUCER_ID) -> None:
        """Take one record of the log, in the order of the log."""
        key = record.key
        if isinstance(key, OffsetCommitKey | LegacyOffsetCommitKey):
            self._replay_offset(record, record_offset, producer_id)
        elif isinstance(key, GroupMetadataKey):
            self._replay_group(key.group, None if record.value is None else Group(record.value))
        elif isinstance(key, ConsumerGroupMetadataKey):
            self._replay_group(key.group_id, None if record.value is None else Group(is_classic=False))

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        """Take one marker of the log."""
        self.offsets.end_transaction(producer_id, is_commit=is_commit)

    def _replay_offset(self, record: CoordinatorRecord, record_offset: int, producer_id: int) -> None:
        key = record.key
        committed = committed_offset(record, record_offset)
        if committed is None:
            self.offsets.remove(key.group, (key.topic, key.partition))
            return
        self.groups.setdefault(key.group, SIMPLE)
        self.offsets.put(key.group, (key.topic, key.partition), committed, producer_id)

    def _replay_group(self, group_id: str, group: Group | None) -> None:
        if group is None:
            self.groups.pop(group_id, None)
        else:
            self.groups[group_id] = group
