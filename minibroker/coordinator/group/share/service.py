"""The service of share groups (KIP-932): it finds or creates a group, and answers when the logs are synced.

    request                no such group            a group of another kind    a group with members
    heartbeat, epoch 0     creates the group        GROUP_ID_NOT_FOUND
    other heartbeats       GROUP_ID_NOT_FOUND       GROUP_ID_NOT_FOUND
    describe               GROUP_ID_NOT_FOUND       GROUP_ID_NOT_FOUND
    alter offsets          creates an empty group   GROUP_ID_NOT_FOUND         NON_EMPTY_GROUP
    delete offsets         GROUP_ID_NOT_FOUND       GROUP_ID_NOT_FOUND         NON_EMPTY_GROUP
    describe offsets       all offsets unknown      all offsets unknown

Answers wait for the syncs of the logs of groups and of share states, if flush.messages requires
these. Source: GroupCoordinatorService, GroupMetadataManager.getOrMaybeCreateShareGroup of Apache
Kafka 4.3.1.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar, cast

from minibroker.cluster.topic import SHARE_GROUP_STATE_TOPIC, Topic
from minibroker.coordinator.group.kind import GroupType, Persist, StoredGroup
from minibroker.coordinator.group.live_groups import LiveGroups
from minibroker.coordinator.group.modern import JOINS
from minibroker.coordinator.group.share.group import ShareGroup, ShareGroupLimits, ShareHeartbeat, ShareHeartbeatAnswer, check_heartbeat
from minibroker.coordinator.group.share.members import ShareGroupImage
from minibroker.coordinator.group.share.offsets import StartOffset
from minibroker.coordinator.group.store import StoredShard
from minibroker.coordinator.share_state.records import NO_COUNT, NO_OFFSET, StateSummary
from minibroker.errors import GroupIdNotFound, KafkaError

if TYPE_CHECKING:
    from minibroker.coordinator.share_state.persister import Persister

T = TypeVar("T")

_LOG = logging.getLogger(__name__)

Errors = list[KafkaError | None]


class ShareOffset(NamedTuple):
    """How far a group has read a partition. The defaults are for unknown states."""

    partition: int
    start_offset: int = NO_OFFSET
    leader_epoch: int = 0
    lag: int = -1  #: the number of records that members may still get; -1: unknown


class ShareGroups:
    """The service of share groups."""

    def __init__(self, groups: LiveGroups, share_persister: Callable[[], Persister], on_member_gone: Callable[[str, str], None]) -> None:
        """Create the service.

        `on_member_gone` is called with the group id and the id of each member that left or timed
        out.
        """
        self._groups = groups
        self._share_persister = share_persister
        self._on_member_gone = on_member_gone

    def new_image(self) -> ShareGroupImage:
        """Return the empty image of a group."""
        return ShareGroupImage()

    def make(self, group_id: str, known: StoredGroup, persist: Persist) -> ShareGroup:
        """Create the state machine of a group."""

        def limits() -> ShareGroupLimits:
            configs = self._groups.cluster.configs.of_group(group_id)
            return ShareGroupLimits(
                max_size=self._groups.config.group_share_max_size,
                session_timeout_ms=configs.share_session_timeout_ms,
                heartbeat_interval_ms=configs.share_heartbeat_interval_ms,
                assignment_interval_ms=configs.share_assignment_interval_ms,
            )

        return ShareGroup(
            group_id,
            clock=self._groups.clock,
            topics=self._groups.topics,
            persist=persist,
            states=self._share_persister(),
            image=known.image,
            limits=limits,
            on_member_gone=partial(self._on_member_gone, group_id),
            initializes_later=self._groups.config.minibroker_like_kafka,
        )

    def heartbeat(self, group_id: str, request: ShareHeartbeat, answer_to: Callable[[ShareHeartbeatAnswer | KafkaError], None]) -> None:
        """Serve a heartbeat."""

        def beat(stored: StoredShard) -> ShareHeartbeatAnswer:
            check_heartbeat(group_id, request)
            return self._group_of(stored, group_id, request.member_epoch).heartbeat(request)

        self._change(group_id, beat, answer_to)

    def alter_offsets(self, group_id: str, starts: Sequence[StartOffset], answer_to: Callable[[Errors | KafkaError], None]) -> None:
        """Set start offsets of an empty group. `answer_to` receives the error of each."""

        def alter(stored: StoredShard) -> Errors:
            group = self._group_of(stored, group_id, JOINS)
            group.check_empty()
            return group.offsets.alter(starts)

        self._change(group_id, alter, answer_to)

    def delete_offsets(self, group_id: str, topic_names: Sequence[str], answer_to: Callable[[Errors | KafkaError], None]) -> None:
        """Delete offsets of an empty group. `answer_to` receives the error of each topic."""

        def delete(_: StoredShard) -> Errors:
            group = self.describe(group_id)
            group.check_empty()
            return group.offsets.delete(topic_names)

        self._change(group_id, delete, answer_to)

    def describe(self, group_id: str) -> ShareGroup:
        """Return a group for reading; GroupIdNotFound."""
        return self._groups.find_of_type(group_id, ShareGroup, "share")[1]

    def describe_offsets(self, group_id: str, topics: Mapping[str, Sequence[int]] | None) -> list[tuple[Topic, list[ShareOffset]]]:
        """Return the offsets of these partitions of existing topics, or of all that have a state.

        CoordinatorLoadInProgress.
        """
        stored = self._groups.shard_of(group_id)
        if topics is None:
            group = self._groups.find(stored, group_id)
            initialized = group.image.state_partitions.initialized if isinstance(group, ShareGroup) else {}
            by_id = self._groups.cluster.image.topics_by_id
            topics = {by_id[topic_id].name: sorted(each.partitions) for topic_id, each in initialized.items() if topic_id in by_id}
        known = [(topic, topics[name]) for name in topics if (topic := self._groups.cluster.topics.get(name)) is not None]
        return [(topic, self._offsets(group_id, topic, partitions)) for topic, partitions in known]

    def forget_deleted_topics(self, stored: StoredShard) -> None:
        """Drop deleted topics from groups.

        A group that cannot be stored is tried again when the log is read, or at its next heartbeat.
        """
        for group_id, group in stored.live.items():
            if isinstance(group, ShareGroup):
                try:
                    group.offsets.forget_deleted_topics()
                except KafkaError as error:
                    _LOG.warning("share group %s: could not drop deleted topics: %s (will retry)", group_id, error)

    def _offsets(self, group_id: str, topic: Topic, partitions: Sequence[int]) -> list[ShareOffset]:
        if SHARE_GROUP_STATE_TOPIC not in self._groups.cluster.topics:
            return [ShareOffset(index) for index in partitions]
        found = self._share_persister().read_summary(group_id, [(topic.topic_id, index) for index in partitions])
        return [
            ShareOffset(index)
            if isinstance(each, KafkaError)
            else ShareOffset(index, each.start_offset, each.leader_epoch, _lag(topic, index, each))
            for index, each in zip(partitions, found, strict=True)
        ]

    def _group_of(self, stored: StoredShard, group_id: str, member_epoch: int) -> ShareGroup:
        group = self._groups.find(stored, group_id)
        if isinstance(group, ShareGroup):
            return group
        if group_id in stored.shard.groups:
            raise GroupIdNotFound(f"Group {group_id} is not a share group.")
        if member_epoch != JOINS:
            raise GroupIdNotFound(f"{'Share group' if member_epoch > JOINS else 'Group'} {group_id} not found.")
        return cast("ShareGroup", self._groups.begin(stored, group_id, GroupType.SHARE))

    def _change(self, group_id: str, work: Callable[[StoredShard], T], answer_to: Callable[[T | KafkaError], None]) -> None:
        try:
            stored = self._groups.shard_of(group_id)
            answer = work(stored)
        except KafkaError as error:
            answer_to(error)
            return
        state_logs = self._share_persister().take_unsynced()
        send: Callable[[T | KafkaError], None] = self._groups.when_safe(stored, answer_to, lambda error: error(), state_logs)
        send(answer)


def _lag(topic: Topic, index: int, summary: StateSummary) -> int:
    partition = topic.partitions[index] if 0 <= index < len(topic.partitions) else None
    if partition is None or not partition.is_online or summary.start_offset == NO_OFFSET or summary.delivery_complete_count == NO_COUNT:
        return -1
    return partition.log.high_watermark - summary.start_offset - summary.delivery_complete_count
