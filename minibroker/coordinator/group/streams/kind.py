"""Streams groups among the kinds of groups (../kinds.py)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from minibroker.coordinator.group.kinds import Kind, Persist
from minibroker.coordinator.group.streams.group import Limits, StreamsGroup
from minibroker.coordinator.group.streams.image import GroupImage
from minibroker.coordinator.group.streams.internal_topics import InternalTopic
from minibroker.errors import KafkaError

if TYPE_CHECKING:
    from minibroker.coordinator.group.live_groups import LiveGroups

CREATION_MS: Final = 50  #: with minibroker.like.kafka, until an internal topic is created

_LOG = logging.getLogger(__name__)


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

    make = _later(groups, make_topic) if groups.config.minibroker_like_kafka else make_topic
    return StreamsGroup(group_id, clock=groups.clock, topics=groups.topics, persist=persist, make_topic=make, limits=limits, image=image)


def _later(groups: LiveGroups, make_topic: Callable[[InternalTopic], None]) -> Callable[[InternalTopic], None]:
    """Create internal topics after the heartbeat that needs them, as Apache Kafka does: its answer says that they are missing."""
    wanted: set[str] = set()

    def make(topic: InternalTopic) -> None:
        wanted.discard(topic.name)
        try:
            make_topic(topic)
        except KafkaError as error:
            _LOG.warning("topic %s cannot be made (the next heartbeat tries again): %s", topic.name, error)

    def make_later(topic: InternalTopic) -> None:
        if topic.name not in wanted:
            wanted.add(topic.name)
            groups.clock.call_later_ms(CREATION_MS, lambda: make(topic))

    return make_later


KIND: Final = Kind(GroupImage, _make)
