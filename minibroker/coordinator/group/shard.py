"""What the records of one partition of `__consumer_offsets` say: groups, and the offsets that they committed.

Source: GroupCoordinatorShard.replay of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from minibroker.coordinator.group.kind import GroupType, load_kind
from minibroker.coordinator.group.offset_records import committed_offset
from minibroker.coordinator.group.offsets import NO_PRODUCER_ID, CommittedOffset, Offsets, TopicPartition
from minibroker.coordinator.record_frame import CoordinatorRecord
from minibroker.schemas.internal.consumer_group_records import ConsumerGroupMetadataKey
from minibroker.schemas.internal.coordinator_records import OFFSET_RECORD_TYPES
from minibroker.schemas.internal.offset_records import GroupMetadataKey, GroupMetadataValue, LegacyOffsetCommitKey, OffsetCommitKey
from minibroker.schemas.internal.share_group_records import ShareGroupMetadataKey
from minibroker.schemas.internal.streams_group_records import StreamsGroupMetadataKey

#: the record that has the epoch of a group, by kind
_OF_GROUPS: Final = {
    GroupType.CONSUMER: ConsumerGroupMetadataKey,
    GroupType.SHARE: ShareGroupMetadataKey,
    GroupType.STREAMS: StreamsGroupMetadataKey,
}
_TYPES: Final[dict[type, GroupType]] = {
    each.key: group_type
    for each in OFFSET_RECORD_TYPES
    for group_type in _OF_GROUPS
    if each.key.__name__.startswith(f"{group_type.name.capitalize()}Group")
}
_ENDS: Final = frozenset(_OF_GROUPS.values())


def type_of_key(key: object) -> GroupType | None:
    """Of which newer kind a record is; None of classic groups and offsets."""
    return _TYPES.get(type(key))


def is_of_group(key: object) -> bool:
    """Whether this is the record that has the group's epoch, whose tombstone is the end of the group."""
    return type(key) in _ENDS


class Group(NamedTuple):
    """One group: with records of its own, or simple, which is to say that it has offsets and nothing else."""

    stored: GroupMetadataValue | None = None  #: the last generation of a classic group
    group_type: GroupType = GroupType.CLASSIC
    image: Any = None  #: of a newer kind: what its records say
    is_heir: bool = False  #: a classic one that a consumer group became, which has had no generation of its own since

    @property
    def is_classic(self) -> bool:
        """Whether it is of no newer kind."""
        return self.group_type is GroupType.CLASSIC


SIMPLE = Group()

_OFFSET_KEYS: Final = (OffsetCommitKey, LegacyOffsetCommitKey)


class Shard:
    """Groups by id, and their offsets."""

    __slots__ = ("_last_end", "groups", "new_images", "offsets")

    def __init__(self) -> None:
        self.groups: dict[str, Group] = {}  #: every group that has offsets is here; a group may have none
        self.new_images: dict[str, Any] = {}  #: of a group whose first record is about to come; written by LiveGroups
        self.offsets = Offsets()
        self._last_end: tuple[str, int] | None = None  #: of a newer kind: which group, and where its last tombstone is

    def replay(self, record: CoordinatorRecord, record_offset: int, producer_id: int = NO_PRODUCER_ID) -> None:
        """Take one record of the log, in the order of the log."""
        key = record.key
        if isinstance(key, _OFFSET_KEYS):
            self._replay_offset(record, record_offset, producer_id)
        elif isinstance(key, GroupMetadataKey):
            is_heir = self._last_end == (key.group, record_offset - 1)
            self._replay_group(key.group, None if record.value is None else Group(record.value, is_heir=is_heir))
        elif (group_type := type_of_key(key)) is not None:
            self._replay_newer(record, record_offset, group_type)

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        """Take one marker of the log."""
        self.offsets.end_transaction(producer_id, is_commit=is_commit)

    def _replay_offset(self, record: CoordinatorRecord, record_offset: int, producer_id: int) -> None:
        key = record.key
        committed = committed_offset(record, record_offset)
        if committed is None:
            self.offsets.remove(key.group, (key.topic, key.partition))
            return
        self.commit(key.group, (key.topic, key.partition), committed, producer_id)

    def commit(self, group_id: str, partition: TopicPartition, committed: CommittedOffset, producer_id: int) -> None:
        """Take the record of a committed offset."""
        if group_id not in self.groups:
            self.groups[group_id] = SIMPLE
        self.offsets.put(group_id, partition, committed, producer_id)

    def _replay_group(self, group_id: str, group: Group | None) -> None:
        if group is None:
            self.groups.pop(group_id, None)
        else:
            self.groups[group_id] = group

    def _replay_newer(self, record: CoordinatorRecord, record_offset: int, group_type: GroupType) -> None:
        """Compaction may have left any record of a group as its first one."""
        group_id = record.key.group_id
        group = self.groups.get(group_id)
        if group is None or group.group_type is not group_type:
            if record.value is None:
                return
            image = self.new_images[group_id] if group_id in self.new_images else load_kind(group_type).new_image()
            group = self.groups[group_id] = Group(group_type=group_type, image=image)
        if record.value is None and is_of_group(record.key):
            del self.groups[group_id]
            self._last_end = group_id, record_offset
        else:
            group.image.replay(record)
