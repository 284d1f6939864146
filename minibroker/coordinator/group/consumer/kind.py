"""Consumer groups among the kinds of groups (../kinds.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from minibroker.coordinator.group.consumer.group import ConsumerGroup, Limits
from minibroker.coordinator.group.consumer.image import GroupImage
from minibroker.coordinator.group.kinds import Kind, Persist

if TYPE_CHECKING:
    from minibroker.coordinator.group.live_groups import LiveGroups


def _make(groups: LiveGroups, group_id: str, image: GroupImage, persist: Persist) -> ConsumerGroup:
    def limits() -> Limits:
        own = groups.cluster.group_config(group_id)
        return Limits(
            groups.config.group_consumer_max_size,
            own.consumer_session_timeout_ms,
            own.consumer_heartbeat_interval_ms,
            own.consumer_assignment_interval_ms,
        )

    return ConsumerGroup(group_id, clock=groups.clock, topics=groups.topics, persist=persist, limits=limits, image=image)


KIND: Final = Kind(GroupImage, _make)
