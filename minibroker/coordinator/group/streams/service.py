"""Members of streams groups (KIP-1071): what they ask for goes to their group's state machine (streams/).

    who asks      there is no group     an empty classic one     one of another kind
    epoch 0       a new group           is replaced              GROUP_ID_NOT_FOUND
    others        GROUP_ID_NOT_FOUND    GROUP_ID_NOT_FOUND       GROUP_ID_NOT_FOUND

Source: GroupCoordinatorService, GroupMetadataManager.getOrCreateStreamsGroup of Apache Kafka 4.3.1.

Streams groups among the kinds of groups (../kinds.py).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, cast

from minibroker.coordinator.group.kind import GroupType, Kind, Persist
from minibroker.coordinator.group.live_groups import LiveGroups
from minibroker.coordinator.group.member_epochs import JOINS
from minibroker.coordinator.group.store import StoredShard
from minibroker.coordinator.group.streams.group import Limits, StreamsGroup
from minibroker.coordinator.group.streams.internal_topics import InternalTopic
from minibroker.coordinator.group.streams.members import GroupImage
from minibroker.coordinator.group.streams.requests import Heartbeat, HeartbeatAnswer
from minibroker.errors import GroupIdNotFound, KafkaError

if TYPE_CHECKING:
    from minibroker.coordinator.group.live_groups import LiveGroups

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


CREATION_MS: Final = 50  #: with minibroker.like.kafka, until an internal topic is created

_LOG = logging.getLogger(__name__)


def _make(groups: LiveGroups, group_id: str, image: GroupImage, persist: Persist) -> StreamsGroup:
    def limits() -> Limits:
        own = groups.cluster.configs.of_group(group_id)
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
