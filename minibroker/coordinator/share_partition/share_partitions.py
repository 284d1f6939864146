"""All share partitions that somebody reads, and the sessions of who does: of several brokers each has its own.

    unknown --asked for: its state is read, and where it begins is found out--> served
    served  --its state is made anew or deleted, the persister knows better, its topic is gone, its group has no session left--> unknown

What a member says of its records is in the log of the share coordinator before it is told so; `take_unsynced` says which log must be synced
before that.

Source: SharePartitionManager, SharePartition.maybeInitialize of Apache Kafka 4.3.1.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from uuid import UUID

from minibroker.clock import Clock
from minibroker.cluster.cluster import Cluster
from minibroker.cluster.partition import Partition
from minibroker.config.broker_config import BrokerConfig
from minibroker.config.group_properties import duration_ms
from minibroker.coordinator.share_partition.acknowledging import Acknowledgement
from minibroker.coordinator.share_partition.sessions import MemberKey, ShareSession, ShareSessions, TopicPartition
from minibroker.coordinator.share_partition.share_partition import SharePartition
from minibroker.coordinator.share_state.persister import Persister
from minibroker.coordinator.share_state.records import StateKey, StateUpdate
from minibroker.coordinator.share_state.state_batches import NO_OFFSET
from minibroker.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    FencedLeaderEpoch,
    FencedStateEpoch,
    KafkaError,
    NotCoordinator,
    NotLeaderOrFollower,
    ShareSessionLimitReached,
    UnknownServerError,
    UnknownTopicOrPartition,
)
from minibroker.log.partition_log import PartitionLog
from minibroker.records.steps import finished

_LOG = logging.getLogger(__name__)


class SharePartitions:
    """Of all share groups."""

    def __init__(self, cluster: Cluster, config: BrokerConfig, clock: Clock, persister: Persister) -> None:
        self._cluster = cluster
        self._config = config
        self._clock = clock
        self._persister = persister
        self._served: dict[StateKey, SharePartition] = {}
        self._sessions: dict[int, ShareSessions] = {}  #: by the id of the broker that members speak to

    def start(self) -> None:
        """Hear of what makes a share partition void, from now on."""
        self._cluster.on_topic_deleted.append(self._forget_deleted)
        self._persister.on_changed.append(self._forget)

    def stop(self) -> None:
        """Release nothing more: who had records when the broker ended is not known to the next one."""
        self._cluster.on_topic_deleted.remove(self._forget_deleted)
        for share in self._served.values():
            share.close()

    def take_unsynced(self) -> Sequence[PartitionLog]:
        """See Persister.take_unsynced."""
        return self._persister.take_unsynced()

    # Share partitions

    def get(self, group_id: str, topic_id: UUID, index: int) -> SharePartition:
        """The one that is asked for, its state read if need be.

        Raises what Cluster.partition_by_id raises; CoordinatorNotAvailable, NotLeaderOrFollower, UnknownServerError where its state
        cannot be had.
        """
        key = StateKey(group_id, topic_id, index)
        served = self._served.get(key)
        if served is None:
            served = self._served[key] = self._load(key, self._cluster.partition_by_id(topic_id, index))
        return served

    def acknowledge(self, member: MemberKey, partition: TopicPartition, acknowledgements: Sequence[Acknowledgement]) -> None:
        """What a member says of records; what SharePartition.acknowledge raises, UnknownTopicOrPartition when nobody is served it."""
        group_id, member_id = member
        served = self._served.get(StateKey(group_id, *partition))
        if served is None:
            raise UnknownTopicOrPartition
        served.acknowledge(member_id, acknowledgements)

    def _load(self, key: StateKey, partition: Partition) -> SharePartition:
        config = partial(self._cluster.configs.of_group, key.group_id)
        try:
            state = self._persister.read(key, partition.leader_epoch)
        except KafkaError as error:
            raise _told(error) from error
        start_offset = state.start_offset
        if start_offset == NO_OFFSET:
            start_offset = self._reset_offset(partition, config().share_auto_offset_reset)
        return SharePartition(
            key,
            state,
            start_offset=start_offset,
            leader_epoch=partition.leader_epoch,
            config=config,
            persist=partial(self._persist, key),
            clock=self._clock,
        )

    def _reset_offset(self, partition: Partition, where: str) -> int:
        """By timestamp, where no record is young enough, the end: Kafka answers OFFSET_NOT_AVAILABLE until there is one."""
        if partition.is_unopened:
            return 0  # it is empty, and to open thousands of logs takes seconds
        log = partition.log
        if where == "earliest":
            return log.log_start_offset
        age_ms = duration_ms(where)
        found = None if age_ms is None else finished(log.finding_timestamp(self._clock.now_ms() - age_ms))
        return log.high_watermark if found is None else found.offset

    def _persist(self, key: StateKey, update: StateUpdate) -> None:
        try:
            self._persister.write(key, update)
        except KafkaError as error:
            told = _told(error, "Error in write state RPC. ")
            if isinstance(told, NotLeaderOrFollower | UnknownTopicOrPartition):
                self._forget(key)
            raise told from error

    def _forget(self, key: StateKey) -> None:
        share = self._served.pop(key, None)
        if share is not None:
            share.close()

    def _forget_deleted(self, _topic: str) -> None:
        for key in [key for key in self._served if not self._is_there(key)]:
            self._forget(key)

    def _is_there(self, key: StateKey) -> bool:
        try:
            self._cluster.partition_by_id(key.topic_id, key.partition)
        except KafkaError:
            return False
        return True

    # Sessions

    def begin_session(
        self,
        node_id: int,
        member: MemberKey,
        partitions: Sequence[TopicPartition],
        when_closed: Callable[[Callable[[], None]], Callable[[], None]],
    ) -> ShareSession:
        """A new one, which ends with the connection that `when_closed` is of; ShareSessionLimitReached."""
        session = self._sessions_at(node_id).begin(member, partitions, limit=self._config.group_share_max_share_sessions)
        session.let_go = when_closed(partial(self.end_session, node_id, member))
        return session

    def session(self, node_id: int, member: MemberKey) -> ShareSession:
        """The member's at that broker; ShareSessionNotFound."""
        return self._sessions_at(node_id).of(member)

    def update_session(self, node_id: int, member: MemberKey, added: Iterable[TopicPartition], forgotten: Iterable[TopicPartition]) -> None:
        """Apply a request to the member's session; ShareSessionLimitReached, and the session is over."""
        if not self._sessions_at(node_id).update(member, added, forgotten):
            self.end_session(node_id, member)
            raise ShareSessionLimitReached

    def has_session(self, node_id: int, member: MemberKey, session: ShareSession) -> bool:
        """Whether `session` is the member's still."""
        return self._sessions_at(node_id).is_current(member, session)

    def end_sessions(self, group_id: str, member_id: str) -> None:
        """The member is gone."""
        for node_id in list(self._sessions):
            self.end_session(node_id, (group_id, member_id))

    def end_session(self, node_id: int, member: MemberKey) -> None:
        """The member's session at that broker is over, if it has one: others may have its records, but for those that it goes on with."""
        if not self._sessions_at(node_id).end(member):
            return
        group_id, member_id = member
        going_on = {each for sessions in self._sessions.values() for each in sessions.partitions_of(member)}
        for key, share in [(key, share) for key, share in self._served.items() if key.group_id == group_id]:
            if (key.topic_id, key.partition) in going_on:
                continue
            try:
                share.release(member_id)
            except KafkaError as error:
                _LOG.warning("%s: what %s had is not released before its lock is over: %s", key.coordinator_key, member_id, error)
        if not any(sessions.has_group(group_id) for sessions in self._sessions.values()):
            for key in [key for key in self._served if key.group_id == group_id]:
                self._forget(key)

    def _sessions_at(self, node_id: int) -> ShareSessions:
        return self._sessions.setdefault(node_id, ShareSessions())


def _told(error: KafkaError, why: str = "") -> KafkaError:
    """What a member is told where the share coordinator refuses, in Kafka's words."""
    if isinstance(error, NotCoordinator | CoordinatorLoadInProgress | CoordinatorNotAvailable):
        return CoordinatorNotAvailable(f"{why}{error}")
    if isinstance(error, FencedLeaderEpoch | FencedStateEpoch):
        return NotLeaderOrFollower(f"{why}{error}")
    if isinstance(error, UnknownTopicOrPartition):
        return error
    return UnknownServerError(f"{why}{error}")
