"""Members and offsets of share groups (KIP-932): what is asked for goes to the group's state machine (share/).

    asked                          there is no group      one of another kind    it has members
    heartbeat, epoch 0             a new group            GROUP_ID_NOT_FOUND
    other heartbeats               GROUP_ID_NOT_FOUND     GROUP_ID_NOT_FOUND
    describe                       GROUP_ID_NOT_FOUND     GROUP_ID_NOT_FOUND
    alter offsets                  a new, empty group     GROUP_ID_NOT_FOUND     NON_EMPTY_GROUP
    delete offsets                 GROUP_ID_NOT_FOUND     GROUP_ID_NOT_FOUND     NON_EMPTY_GROUP
    describe offsets               nothing is known       nothing is known

What changed is told when it is as safe as the logs of groups, and of states, ask for.
Source: GroupCoordinatorService, GroupMetadataManager.getOrMaybeCreateShareGroup of Apache Kafka 4.3.1.

Share groups among the kinds of groups (../kinds.py).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar, cast

from minibroker.cluster.topic import SHARE_GROUP_STATE_TOPIC, Topic
from minibroker.coordinator.group.kind import GroupType, Kind, Persist
from minibroker.coordinator.group.live_groups import LiveGroups
from minibroker.coordinator.group.member_epochs import JOINS
from minibroker.coordinator.group.share.group import Limits, ShareGroup
from minibroker.coordinator.group.share.members import GroupImage
from minibroker.coordinator.group.share.offsets import StartOffset
from minibroker.coordinator.group.share.requests import Heartbeat, HeartbeatAnswer, check_heartbeat
from minibroker.coordinator.group.store import StoredShard
from minibroker.coordinator.share_state.records import NO_COUNT, StateSummary
from minibroker.coordinator.share_state.state_batches import NO_OFFSET
from minibroker.errors import GroupIdNotFound, KafkaError

if TYPE_CHECKING:
    from minibroker.coordinator.group.live_groups import LiveGroups

T = TypeVar("T")

_LOG = logging.getLogger(__name__)

Errors = list[KafkaError | None]


class ShareOffset(NamedTuple):
    """How far a group is in a partition; the default is what is told where nothing is known."""

    partition: int
    start_offset: int = NO_OFFSET
    leader_epoch: int = 0
    lag: int = -1  #: records that members may still get; -1: nobody knows


class ShareMemberships:
    """Of all share groups."""

    def __init__(self, groups: LiveGroups) -> None:
        self._groups = groups

    def heartbeat(self, group_id: str, asked: Heartbeat, told: Callable[[HeartbeatAnswer | KafkaError], None]) -> None:
        """Join, be alive, leave."""

        def beat(stored: StoredShard) -> HeartbeatAnswer:
            check_heartbeat(group_id, asked)
            return self._group_of(stored, group_id, asked.member_epoch).heartbeat(asked)

        self._change(group_id, beat, told)

    def alter_offsets(self, group_id: str, starts: Sequence[StartOffset], told: Callable[[Errors | KafkaError], None]) -> None:
        """Let an empty group begin elsewhere; the error of each start."""

        def alter(stored: StoredShard) -> Errors:
            group = self._group_of(stored, group_id, JOINS)
            group.check_empty()
            return group.offsets.alter(starts)

        self._change(group_id, alter, told)

    def delete_offsets(self, group_id: str, topic_names: Sequence[str], told: Callable[[Errors | KafkaError], None]) -> None:
        """Forget where an empty group was; the error of each topic."""

        def delete(_: StoredShard) -> Errors:
            group = self.describe(group_id)
            group.check_empty()
            return group.offsets.delete(topic_names)

        self._change(group_id, delete, told)

    def describe(self, group_id: str) -> ShareGroup:
        """The group as it is now, for reading; GroupIdNotFound."""
        return self._groups.find_of_type(group_id, ShareGroup, "share")[1]

    def describe_offsets(self, group_id: str, topics: Mapping[str, Sequence[int]] | None) -> list[tuple[Topic, list[ShareOffset]]]:
        """How far the group is: in these partitions of topics that are there, else in all that have a state. CoordinatorLoadInProgress."""
        stored = self._groups.shard_of(group_id)
        if topics is None:
            group = self._groups.find(stored, group_id)
            initialized = group.image.state_partitions.initialized if isinstance(group, ShareGroup) else {}
            by_id = self._groups.cluster.image.topics_by_id
            topics = {by_id[topic_id].name: sorted(each.partitions) for topic_id, each in initialized.items() if topic_id in by_id}
        known = [(topic, topics[name]) for name in topics if (topic := self._groups.cluster.topics.get(name)) is not None]
        return [(topic, self._offsets(group_id, topic, partitions)) for topic, partitions in known]

    def forget_deleted_topics(self, stored: StoredShard) -> None:
        """A topic is gone: nothing is kept of its partitions. What cannot be stored is tried again when the log is read, or by a member."""
        for group_id, group in stored.live.items():
            if isinstance(group, ShareGroup):
                try:
                    group.offsets.forget_deleted_topics()
                except KafkaError as error:
                    _LOG.warning("share group %s: partitions of deleted topics stay: %s", group_id, error)

    def _offsets(self, group_id: str, topic: Topic, partitions: Sequence[int]) -> list[ShareOffset]:
        if SHARE_GROUP_STATE_TOPIC not in self._groups.cluster.topics:
            return [ShareOffset(index) for index in partitions]
        found = self._groups.share_persister().read_summary(group_id, [(topic.topic_id, index) for index in partitions])
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

    def _change(self, group_id: str, work: Callable[[StoredShard], T], told: Callable[[T | KafkaError], None]) -> None:
        try:
            stored = self._groups.shard_of(group_id)
            answer = work(stored)
        except KafkaError as error:
            told(error)
            return
        others = self._groups.share_persister().take_unsynced()
        tell: Callable[[T | KafkaError], None] = self._groups.when_safe(stored, told, lambda error: error(), others)
        tell(answer)


def _lag(topic: Topic, index: int, summary: StateSummary) -> int:
    partition = topic.partitions[index] if 0 <= index < len(topic.partitions) else None
    if partition is None or not partition.is_online or summary.start_offset == NO_OFFSET or summary.delivery_complete_count == NO_COUNT:
        return -1
    return partition.log.high_watermark - summary.start_offset - summary.delivery_complete_count


def _make(groups: LiveGroups, group_id: str, image: GroupImage, persist: Persist) -> ShareGroup:
    return ShareGroup(
        group_id,
        clock=groups.clock,
        topics=groups.topics,
        persist=persist,
        states=groups.share_persister(),
        image=image,
        limits=partial(_limits, groups, group_id),
        on_member_gone=partial(_tell_gone, groups, group_id),
        initializes_later=groups.config.minibroker_like_kafka,
    )


def _limits(groups: LiveGroups, group_id: str) -> Limits:
    """As they are now: some of them change while the broker runs."""
    config = groups.cluster.configs.of_group(group_id)
    return Limits(
        max_size=groups.config.group_share_max_size,
        session_timeout_ms=config.share_session_timeout_ms,
        heartbeat_interval_ms=config.share_heartbeat_interval_ms,
        assignment_interval_ms=config.share_assignment_interval_ms,
    )


def _tell_gone(groups: LiveGroups, group_id: str, member_id: str) -> None:
    for hear in groups.on_share_member_gone:
        hear(group_id, member_id)


KIND: Final = Kind(GroupImage, _make)
