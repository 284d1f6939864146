"""Streams groups among the kinds of groups (../kinds.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from minibroker.coordinator.group.kinds import Kind, Persist
from minibroker.coordinator.group.streams.group import Limits, StreamsGroup
from minibroker.coordinator.group.streams.image import GroupImage
from minibroker.coordinator.group.streams.internal_topics import InternalTopic

if TYPE_CHECKING:
    from minibroker.coordinator.group.live_groups import LiveGroups


def _make(groups: LiveGroups, group_id: str, image: GroupImage, persist: Persist) -> StreamsGroup:
    def limits() -> Limits:
        own = groups.cluster.group_config(group_id)
        return Limits(
            groups.config.group_streams_max_size,
            own.streams_session_timeout_ms,
            own.streams_heartbeat_interval_ms,
            own.streams_assignment_interval_ms,
            own.streams_initial_rebalance_delay_ms,
            own.streams_num_standby_replicas,
        )

    def make_topic(topic: InternalTopic) -> None:
        groups.cluster.create_topic(
            topic.name,
            partition_count=topic.partition_count,
            replication_factor=topic.replication_factor or -1,
            configs=topic.configs,
        )

    return StreamsGroup(
        group_id, clock=groups.clock, topics=groups.topics, persist=persist, make_topic=make_topic, limits=limits, image=image
    )


KIND: Final = Kind(GroupImage, _make)
