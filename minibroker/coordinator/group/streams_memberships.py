"""Members of streams groups (KIP-1071): what they ask for goes to their group's state machine (streams/).

    who asks      there is no group     an empty classic one     one of another kind
    epoch 0       a new group           is replaced              GROUP_ID_NOT_FOUND
    others        GROUP_ID_NOT_FOUND    GROUP_ID_NOT_FOUND       GROUP_ID_NOT_FOUND

Source: GroupCoordinatorService, GroupMetadataManager.getOrCreateStreamsGroup of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from minibroker.coordinator.group.kinds import GroupType
from minibroker.coordinator.group.live_groups import LiveGroups
from minibroker.coordinator.group.member_epochs import JOINS
from minibroker.coordinator.group.store import StoredShard
from minibroker.coordinator.group.streams.group import StreamsGroup
from minibroker.coordinator.group.streams.requests import Heartbeat, HeartbeatAnswer
from minibroker.errors import GroupIdNotFound, KafkaError

Told = Callable[[HeartbeatAnswer | KafkaError], None]


class StreamsMemberships:
    """Of all streams groups."""

    def __init__(self, groups: LiveGroups) -> None:
        self._groups = groups

    def heartbeat(self, group_id: str, asked: Heartbeat, told: Told) -> None:
        """Join, be alive, leave; told when what changed is safe."""
        try:
            stored = self._groups.shard_of(group_id)
            answer = self._group_of(stored, group_id, asked.member_epoch).heartbeat(asked)
        except KafkaError as error:
            told(error)
            return
        tell: Callable[[HeartbeatAnswer | KafkaError], None] = self._groups.when_safe(stored, told, lambda error: error())
        tell(answer)

    def describe(self, group_id: str) -> StreamsGroup:
        """The group as it is now, for reading; GroupIdNotFound."""
        return self._groups.find_of_type(group_id, StreamsGroup, "streams")[1]

    def _group_of(self, stored: StoredShard, group_id: str, member_epoch: int) -> StreamsGroup:
        group = self._groups.find(stored, group_id)
        if isinstance(group, StreamsGroup):
            return group
        is_known = group_id in stored.shard.groups
        if not is_known and member_epoch != JOINS:
            raise GroupIdNotFound(f"{'Streams group' if member_epoch > JOINS else 'Group'} {group_id} not found.")
        is_replaced = group is not None and group.group_type is GroupType.CLASSIC and group.is_empty
        if member_epoch != JOINS or (is_known and not is_replaced):
            raise GroupIdNotFound(f"Group {group_id} is not a streams group.")
        first_records = [] if group is None else group.tombstones()
        return cast("StreamsGroup", self._groups.begin(stored, group_id, GroupType.STREAMS, first_records=first_records))
