"""The groups and committed offsets of one partition of `__consumer_offsets`, replayed from its records.

Source: GroupCoordinatorShard.replay of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from typing import Any, Final

from minibroker.coordinator.group.kind import SIMPLE_GROUP, GroupType, StoredGroup
from minibroker.coordinator.group.offsets import NO_PRODUCER_ID, CommittedOffset, Offsets, TopicPartition, committed_offset
from minibroker.schemas.internal.consumer_group_records import ConsumerGroupMetadataKey
from minibroker.schemas.internal.coordinator_records import OFFSET_RECORD_TYPES
from minibroker.schemas.internal.offset_records import GroupMetadataKey, LegacyOffsetCommitKey, OffsetCommitKey
from minibroker.schemas.internal.share_group_records import ShareGroupMetadataKey
from minibroker.schemas.internal.streams_group_records import StreamsGroupMetadataKey
from minibroker.storage.record_frame import CoordinatorRecord

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
    """Return the newer kind of group that a record belongs to; None for classic groups and offsets."""
    return _TYPES.get(type(key))


def is_of_group(key: object) -> bool:
    """Whether a record has the epoch of its group: its tombstone ends the group."""
    return type(key) in _ENDS


def new_image(group_type: GroupType) -> Any:
    """Return the empty image of a group; None for a classic group, which has none."""
    if group_type is GroupType.CONSUMER:
        from minibroker.coordinator.group.consumer.members import ConsumerGroupImage  # noqa: PLC0415  many brokers have none

        return ConsumerGroupImage()
    if group_type is GroupType.SHARE:
        from minibroker.coordinator.group.share.members import ShareGroupImage  # noqa: PLC0415  as above

        return ShareGroupImage()
    if group_type is GroupType.STREAMS:
        from minibroker.coordinator.group.streams.members import StreamsGroupImage  # noqa: PLC0415  as above

        return StreamsGroupImage()
    return None


_OFFSET_KEYS: Final = (OffsetCommitKey, LegacyOffsetCommitKey)


class Shard:
    """Groups by id, and their offsets."""

    __slots__ = ("_last_end", "groups", "new_images", "offsets")

    def __init__(self) -> None:
        self.groups: dict[str, StoredGroup] = {}  #: contains every group that has offsets; a group may have none
        self.new_images: dict[str, Any] = {}  #: images of groups whose first record comes next; written by LiveGroups
        self.offsets = Offsets()
        self._last_end: tuple[str, int] | None = None  #: of a newer kind: the group that ended last, and the offset of its last tombstone

    def replay(self, record: CoordinatorRecord, record_offset: int, producer_id: int = NO_PRODUCER_ID) -> None:
        """Replay one record, in the order of the log."""
        key = record.key
        if isinstance(key, _OFFSET_KEYS):
            self._replay_offset(record, record_offset, producer_id)
        elif isinstance(key, GroupMetadataKey):
            was_downgraded = self._last_end == (key.group, record_offset - 1)
            self._replay_group(key.group, None if record.value is None else StoredGroup(record.value, was_downgraded=was_downgraded))
        elif (group_type := type_of_key(key)) is not None:
            self._replay_newer(record, record_offset, group_type)

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        """Replay one transaction marker."""
        self.offsets.end_transaction(producer_id, is_commit=is_commit)

    def _replay_offset(self, record: CoordinatorRecord, record_offset: int, producer_id: int) -> None:
        key = record.key
        committed = committed_offset(record, record_offset)
        if committed is None:
            self.offsets.remove(key.group, (key.topic, key.partition))
            return
        self.commit(key.group, (key.topic, key.partition), committed, producer_id)

    def commit(self, group_id: str, partition: TopicPartition, committed: CommittedOffset, producer_id: int) -> None:
        """Replay the record of a committed offset."""
        if group_id not in self.groups:
            self.groups[group_id] = SIMPLE_GROUP
        self.offsets.put(group_id, partition, committed, producer_id)

    def _replay_group(self, group_id: str, group: StoredGroup | None) -> None:
        if group is None:
            self.groups.pop(group_id, None)
        else:
            self.groups[group_id] = group

    def _replay_newer(self, record: CoordinatorRecord, record_offset: int, group_type: GroupType) -> None:
        """Replay a record of a newer kind. Compaction may have left any record of a group as the first one."""
        group_id = record.key.group_id
        group = self.groups.get(group_id)
        if group is None or group.group_type is not group_type:
            if record.value is None:
                return
            image = self.new_images[group_id] if group_id in self.new_images else new_image(group_type)
            group = self.groups[group_id] = StoredGroup(group_type=group_type, image=image)
        if record.value is None and is_of_group(record.key):
            del self.groups[group_id]
            self._last_end = group_id, record_offset
        else:
            group.image.replay(record)
