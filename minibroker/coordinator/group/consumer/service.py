"""Members of consumer groups (KIP-848): what they ask for goes to their group's state machine (consumer/).

    who asks      there is no group     a classic one            one of another kind
    epoch 0       a new group           is replaced (1)          GROUP_ID_NOT_FOUND
    others        GROUP_ID_NOT_FOUND    GROUP_ID_NOT_FOUND       GROUP_ID_NOT_FOUND

  (1) One with members is upgraded, and they stay: consumer/migration.py. One batch of records ends the one group and begins the other.

Source: GroupCoordinatorService, GroupMetadataManager.getOrMaybeCreateConsumerGroup of Apache Kafka 4.3.1.

Consumer groups among the kinds of groups (../kinds.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, cast

from minibroker.coordinator.group.classic.group import ClassicGroup
from minibroker.coordinator.group.consumer.classic_members import MixedGroup
from minibroker.coordinator.group.consumer.group import ConsumerGroup, Limits
from minibroker.coordinator.group.consumer.members import GroupImage
from minibroker.coordinator.group.consumer.migration import ClassicHeirs, Migration, check_upgrade, upgraded
from minibroker.coordinator.group.consumer.requests import Heartbeat, HeartbeatAnswer, check_heartbeat
from minibroker.coordinator.group.kind import GroupType, Kind, Persist
from minibroker.coordinator.group.live_groups import LiveGroups
from minibroker.coordinator.group.member_epochs import JOINS
from minibroker.coordinator.group.store import StoredShard
from minibroker.coordinator.record_frame import CoordinatorRecord
from minibroker.errors import GroupIdNotFound, KafkaError

if TYPE_CHECKING:
    from minibroker.config.broker_config import BrokerConfig
    from minibroker.coordinator.group.live_groups import LiveGroups

Told = Callable[[HeartbeatAnswer | KafkaError], None]


class ConsumerMemberships:
    """Of all consumer groups."""

    def __init__(self, groups: LiveGroups) -> None:
        self._groups = groups

    def heartbeat(self, group_id: str, asked: Heartbeat, told: Told) -> None:
        """Join, be alive, leave; told when what changed is safe."""
        try:
            check_heartbeat(group_id, asked, self._groups.config.group_consumer_assignors)
            stored = self._groups.shard_of(group_id)
            group = self._group_of(stored, group_id, asked.member_epoch)
            is_new = group is not stored.live.get(group_id)
            answer = group.heartbeat(asked)
            if is_new:
                group.resume()
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
        if member_epoch != JOINS or (is_known and not isinstance(group, ClassicGroup)):
            raise GroupIdNotFound(f"Group {group_id} is not a consumer group.")
        image = GroupImage()
        first_records = self._upgraded(group, image) if isinstance(group, ClassicGroup) else []
        begun = self._groups.begin(stored, group_id, GroupType.CONSUMER, image=image, first_records=first_records)
        return cast("ConsumerGroup", begun)

    def _upgraded(self, group: ClassicGroup, image: GroupImage) -> list[CoordinatorRecord]:
        """The end of the classic group, and what its members are in the new one."""
        if group.is_empty:
            return group.tombstones()
        config = self._groups.config
        check_upgrade(group, migration_of(config), config.group_consumer_max_size)
        records = upgraded(group, self._groups.topics)
        for record in records:
            image.replay(record)
        return records


def _make(groups: LiveGroups, group_id: str, image: GroupImage, persist: Persist) -> MixedGroup:
    def limits() -> Limits:
        own = groups.cluster.configs.of_group(group_id)
        return Limits(
            groups.config.group_consumer_max_size,
            own.consumer_session_timeout_ms,
            own.consumer_heartbeat_interval_ms,
            own.consumer_assignment_interval_ms,
            groups.config.group_consumer_assignors,
        )

    def downgraded(heirs: ClassicHeirs) -> None:
        groups.take_over(group_id, heirs.members, must_rebalance=heirs.must_rebalance)

    return MixedGroup(
        group_id,
        clock=groups.clock,
        topics=groups.topics,
        persist=persist,
        limits=limits,
        image=image,
        migration=lambda: migration_of(groups.config),
        downgraded=downgraded,
    )


def migration_of(config: BrokerConfig) -> Migration:
    """What the configuration says of upgrade and downgrade."""
    return Migration(config.group_consumer_migration_policy.lower(), config.group_max_size)  # written in any case


KIND: Final = Kind(GroupImage, _make)
