"""The service of streams groups (KIP-1071): it finds or creates the group of a member, and answers when its log is synced.

    heartbeat        no such group         an empty classic group     any other group
    epoch 0          creates the group     is replaced                GROUP_ID_NOT_FOUND
    other epochs     GROUP_ID_NOT_FOUND    GROUP_ID_NOT_FOUND         GROUP_ID_NOT_FOUND

Source: GroupCoordinatorService, GroupMetadataManager.getOrCreateStreamsGroup of Apache Kafka 4.3.1.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, cast

from minibroker.coordinator.group.kind import GroupType, Persist, StoredGroup
from minibroker.coordinator.group.live_groups import LiveGroups
from minibroker.coordinator.group.modern import JOINS
from minibroker.coordinator.group.store import StoredShard
from minibroker.coordinator.group.streams.group import StreamsGroup, StreamsGroupLimits
from minibroker.coordinator.group.streams.internal_topics import InternalTopic
from minibroker.coordinator.group.streams.members import StreamsGroupImage
from minibroker.coordinator.group.streams.requests import StreamsHeartbeat, StreamsHeartbeatAnswer
from minibroker.errors import GroupIdNotFound, KafkaError, TopicAuthorizationFailed

CREATION_MS: Final = 50  #: with minibroker.like.kafka, until an internal topic is created

_LOG = logging.getLogger(__name__)


class StreamsGroups:
    """The service of streams groups."""

    def __init__(self, groups: LiveGroups) -> None:
        self._groups = groups

    def new_image(self) -> StreamsGroupImage:
        """Return the empty image of a group."""
        return StreamsGroupImage()

    def make(self, group_id: str, known: StoredGroup, persist: Persist) -> StreamsGroup:
        """Create the state machine of a group."""

        def limits() -> StreamsGroupLimits:
            configs = self._groups.cluster.configs.of_group(group_id)
            return StreamsGroupLimits(
                self._groups.config.group_streams_max_size,
                configs.streams_session_timeout_ms,
                configs.streams_heartbeat_interval_ms,
                configs.streams_assignment_interval_ms,
                configs.streams_initial_rebalance_delay_ms,
                configs.streams_num_standby_replicas,
            )

        return StreamsGroup(
            group_id,
            clock=self._groups.clock,
            topics=self._groups.topics,
            persist=persist,
            make_topic=self._authorized(self._later() if self._groups.config.minibroker_like_kafka else self._make_topic),
            limits=limits,
            image=known.image,
        )

    def _authorized(self, make: Callable[[InternalTopic], None]) -> Callable[[InternalTopic], None]:
        """Create topics that the client of the heartbeat may create; TopicAuthorizationFailed."""

        def make_if_allowed(topic: InternalTopic) -> None:
            client = self._groups.topics.client
            if client is not None and not client.may_create(topic.name):
                raise TopicAuthorizationFailed
            make(topic)

        return make_if_allowed

    def _make_topic(self, topic: InternalTopic) -> None:
        self._groups.cluster.create_topic(
            topic.name,
            partition_count=topic.partition_count,
            replication_factor=topic.replication_factor or -1,
            configs=topic.configs,
        )

    def _later(self) -> Callable[[InternalTopic], None]:
        """Create internal topics after the heartbeat that needs them, as Apache Kafka does.

        Its answer reports them as missing.
        """
        pending: set[str] = set()

        def make(topic: InternalTopic) -> None:
            pending.discard(topic.name)
            try:
                self._make_topic(topic)
            except KafkaError as error:
                _LOG.warning("could not create topic %s: %s (will retry at the next heartbeat)", topic.name, error)

        def make_later(topic: InternalTopic) -> None:
            if topic.name not in pending:
                pending.add(topic.name)
                self._groups.clock.call_later_ms(CREATION_MS, lambda: make(topic))

        return make_later

    def heartbeat(self, group_id: str, request: StreamsHeartbeat, answer_to: Callable[[StreamsHeartbeatAnswer | KafkaError], None]) -> None:
        """Serve a heartbeat. `answer_to` is called when its changes are synced."""
        try:
            stored = self._groups.shard_of(group_id)
            answer = self._group_of(stored, group_id, request.member_epoch).heartbeat(request)
        except KafkaError as error:
            answer_to(error)
            return
        send: Callable[[StreamsHeartbeatAnswer | KafkaError], None] = self._groups.when_safe(stored, answer_to, lambda error: error())
        send(answer)

    def describe(self, group_id: str) -> StreamsGroup:
        """Return a group for reading; GroupIdNotFound."""
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
