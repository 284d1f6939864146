"""The service of consumer groups (KIP-848): it finds or creates the group of a member, and answers when its log is synced.

    heartbeat        no such group         a classic group          a group of another kind
    epoch 0          creates the group     is replaced (1)          GROUP_ID_NOT_FOUND
    other epochs     GROUP_ID_NOT_FOUND    GROUP_ID_NOT_FOUND       GROUP_ID_NOT_FOUND

  (1) A classic group with members is upgraded, and its members stay (migration.py). One batch of records ends it and starts the new group.

Source: GroupCoordinatorService, GroupMetadataManager.getOrMaybeCreateConsumerGroup of Apache Kafka
4.3.1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from minibroker.coordinator.group.classic.group import ClassicGroup
from minibroker.coordinator.group.classic.service import ClassicGroups
from minibroker.coordinator.group.consumer.group import ConsumerGroup
from minibroker.coordinator.group.consumer.members import ConsumerGroupImage
from minibroker.coordinator.group.consumer.migration import ClassicSuccessor, Migration, check_upgrade, upgraded
from minibroker.coordinator.group.consumer.requests import ConsumerGroupLimits, ConsumerHeartbeat, ConsumerHeartbeatAnswer, check_heartbeat
from minibroker.coordinator.group.kind import GroupType, Persist, StoredGroup
from minibroker.coordinator.group.live_groups import LiveGroups
from minibroker.coordinator.group.modern import JOINS
from minibroker.coordinator.group.store import StoredShard
from minibroker.errors import GroupIdNotFound, KafkaError
from minibroker.storage.record_frame import CoordinatorRecord


class ConsumerGroups:
    """The service of consumer groups."""

    def __init__(self, groups: LiveGroups, classic: ClassicGroups) -> None:
        """Create the service. `classic` takes over groups that are downgraded."""
        self._groups = groups
        self._classic = classic

    def new_image(self) -> ConsumerGroupImage:
        """Return the empty image of a group."""
        return ConsumerGroupImage()

    def make(self, group_id: str, known: StoredGroup, persist: Persist) -> ConsumerGroup:
        """Create the state machine of a group."""

        def limits() -> ConsumerGroupLimits:
            configs = self._groups.cluster.configs.of_group(group_id)
            return ConsumerGroupLimits(
                self._groups.config.group_consumer_max_size,
                configs.consumer_session_timeout_ms,
                configs.consumer_heartbeat_interval_ms,
                configs.consumer_assignment_interval_ms,
                self._groups.config.group_consumer_assignors,
            )

        def on_downgraded(successor: ClassicSuccessor) -> None:
            self._classic.take_over(group_id, successor.members, must_rebalance=successor.must_rebalance)

        return ConsumerGroup(
            group_id,
            clock=self._groups.clock,
            topics=self._groups.topics,
            persist=persist,
            limits=limits,
            image=known.image,
            migration=self._migration,
            on_downgraded=on_downgraded,
        )

    def heartbeat(
        self, group_id: str, request: ConsumerHeartbeat, answer_to: Callable[[ConsumerHeartbeatAnswer | KafkaError], None]
    ) -> None:
        """Serve a heartbeat. `answer_to` is called when its changes are synced."""
        try:
            check_heartbeat(group_id, request, self._groups.config.group_consumer_assignors)
            stored = self._groups.shard_of(group_id)
            group = self._group_of(stored, group_id, request.member_epoch)
            is_new = group is not stored.live.get(group_id)
            answer = group.heartbeat(request)
            if is_new:
                group.resume()
        except KafkaError as error:
            answer_to(error)
            return
        send: Callable[[ConsumerHeartbeatAnswer | KafkaError], None] = self._groups.when_safe(stored, answer_to, lambda error: error())
        send(answer)

    def describe(self, group_id: str) -> ConsumerGroup:
        """Return a group for reading; GroupIdNotFound."""
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
        image = ConsumerGroupImage()
        first_records = self._upgraded(group, image) if isinstance(group, ClassicGroup) else []
        return cast("ConsumerGroup", self._groups.begin(stored, group_id, GroupType.CONSUMER, image=image, first_records=first_records))

    def _upgraded(self, group: ClassicGroup, image: ConsumerGroupImage) -> list[CoordinatorRecord]:
        """Return the records that end a classic group, and add its members to `image`."""
        if group.is_empty:
            return group.tombstones()
        check_upgrade(group, self._migration(), self._groups.config.group_consumer_max_size)
        records = upgraded(group, self._groups.topics)
        for record in records:
            image.replay(record)
        return records

    def _migration(self) -> Migration:
        config = self._groups.config
        return Migration(config.group_consumer_migration_policy.lower(), config.group_max_size)
