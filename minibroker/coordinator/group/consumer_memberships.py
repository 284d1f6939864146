"""Members of consumer groups (KIP-848): what they ask for goes to their group's state machine (consumer/).

    who asks      there is no group     an empty classic one     one of another kind
    epoch 0       a new group           is replaced              GROUP_ID_NOT_FOUND
    others        GROUP_ID_NOT_FOUND    GROUP_ID_NOT_FOUND       GROUP_ID_NOT_FOUND

Source: GroupCoordinatorService, GroupMetadataManager.getOrMaybeCreateConsumerGroup of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from minibroker.coordinator.group.consumer.group import ConsumerGroup
from minibroker.coordinator.group.consumer.members import JOINS
from minibroker.coordinator.group.consumer.requests import Heartbeat, HeartbeatAnswer, check_heartbeat
from minibroker.coordinator.group.kinds import GroupType
from minibroker.coordinator.group.live_groups import LiveGroups
from minibroker.coordinator.group.store import StoredShard
from minibroker.errors import GroupIdNotFound, KafkaError

Told = Callable[[HeartbeatAnswer | KafkaError], None]


class ConsumerMemberships:
    """Of all consumer groups."""

    def __init__(self, groups: LiveGroups) -> None:
        self._groups = groups

    def heartbeat(self, group_id: str, asked: Heartbeat, told: Told) -> None:
        """Join, be alive, leave; told when what changed is safe."""
        try:
            check_heartbeat(group_id, asked)
            stored = self._groups.shard_of(group_id)
            answer = self._group_of(stored, group_id, asked.member_epoch).heartbeat(asked)
        except KafkaError as error:
            told(error)
            return
        tell: Callable[[HeartbeatAnswer | KafkaError], None] = self._groups.when_safe(stored, told, lambda error: error())
        tell(answer)

    def describe(self, group_id: str) -> ConsumerGroup:
        """The group as it is now, for reading; GroupIdNotFound."""
        return self._groups.find_of_type(group_id, ConsumerGroup, "consumer")[1]

    def _group_of(self, stored: StoredShard, group_id: str, member_epoch: int) -> ConsumerGroup:
        group = self._groups.find(stored, group_id)
        if isinstance(group, ConsumerGroup):
            return group
        is_known = group_id in stored.shard.groups
        if not is_known and member_epoch != JOINS:
            raise GroupIdNotFound(f"{'Consumer group' if member_epoch > JOINS else 'Group'} {group_id} not found.")
        is_replaced = group is not None and group.group_type is GroupType.CLASSIC and group.is_empty
        if member_epoch != JOINS or (is_known and not is_replaced):
            raise GroupIdNotFound(f"Group {group_id} is not a consumer group.")
        first_records = [] if group is None else group.tombstones()
        return cast("ConsumerGroup", self._groups.begin(stored, group_id, GroupType.CONSUMER, first_records=first_records))
