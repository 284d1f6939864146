"""Share partitions that members read, and share sessions.

With several brokers, each broker has its own sessions.

    unknown --a request needs it: its state is read, and its start offset is determined--> served
    served  --its state is replaced or deleted, the persister rejects a change, its topic is deleted, its group has no session--> unknown

An acknowledgement is in the log of the share coordinator before it is answered. `take_unsynced`
returns the log to sync before the answer.

In a share session a member sends its partitions once. After that, both sides send only changes.

    epoch of a request     effect
    0                      starts a session, and ends the previous session of the member, which keeps its records
    n, the expected one    continues it; the epoch counts up, from 2**31 - 1 back to 1
    -1                     ends it: acknowledgements count, and other records of the member are released
    n, another             INVALID_SHARE_SESSION_EPOCH
    n or -1, no session    SHARE_SESSION_NOT_FOUND
    0, too many sessions   SHARE_SESSION_LIMIT_REACHED
    any, too many partitions in a session (SHARE_PARTITIONS_MAX) or in all sessions (PARTITIONS_MAX), which Kafka does not limit
                           the session ends: SHARE_SESSION_LIMIT_REACHED

A session also ends with its connection. A later answer has the partitions with records or an error,
those that are new in the session, and those that had an error in the previous answer.

Source: SharePartitionManager, SharePartition.maybeInitialize, ShareSession, ShareSessionCache,
CachedSharePartition of Apache Kafka 4.3.1.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final
from uuid import UUID

from minibroker.clock import Clock
from minibroker.cluster.cluster import Cluster
from minibroker.cluster.partition import Partition
from minibroker.config.broker_config import BrokerConfig
from minibroker.config.group_properties import duration_ms
from minibroker.config.request_limits import SHARE_PARTITIONS_MAX
from minibroker.coordinator.share_partition.acknowledging import Acknowledgement
from minibroker.coordinator.share_partition.share_partition import SharePartition
from minibroker.coordinator.share_state.persister import Persister
from minibroker.coordinator.share_state.records import NO_OFFSET, StateKey, StateUpdate
from minibroker.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    FencedLeaderEpoch,
    FencedStateEpoch,
    InvalidShareSessionEpoch,
    KafkaError,
    NotCoordinator,
    NotLeaderOrFollower,
    ShareSessionLimitReached,
    ShareSessionNotFound,
    UnknownServerError,
    UnknownTopicOrPartition,
)
from minibroker.log.partition_log import PartitionLog
from minibroker.records.steps import finished

FIRST_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
_MAX_EPOCH: Final = 2**31 - 1
PARTITIONS_MAX: Final = 100_000  #: in all sessions of a broker

TopicPartition = tuple[UUID, int]
MemberKey = tuple[str, str]  #: group id, member id


class ShareSession:
    """The partitions that one member fetches."""

    __slots__ = ("epoch", "partitions", "unsubscribe")

    def __init__(self, partitions: Iterable[TopicPartition]) -> None:
        self.epoch = 1  #: the epoch of the next request
        self.unsubscribe: Callable[[], None] | None = None  #: from the end of the connection; written by SharePartitions.begin_session
        self.partitions: dict[TopicPartition, bool] = dict.fromkeys(partitions, False)  #: value: the next answer must include it

    def update(self, added: Iterable[TopicPartition], forgotten: Iterable[TopicPartition]) -> None:
        """Add and remove partitions."""
        for each in added:
            self.partitions.setdefault(each, True)
        for each in forgotten:
            self.partitions.pop(each, None)

    def check_epoch(self, epoch: int) -> None:
        """Check the epoch of a request, and expect the next one; InvalidShareSessionEpoch."""
        if epoch != self.epoch:
            raise InvalidShareSessionEpoch
        self.epoch = 1 if epoch == _MAX_EPOCH else epoch + 1

    def must_include(self, partition: TopicPartition, *, has_records: bool, has_error: bool) -> bool:
        """Whether an answer must include this partition.

        A partition with records moves to the end of the order.
        """
        if partition not in self.partitions:
            return False
        must = self.partitions[partition]
        if has_records:
            del self.partitions[partition]
        self.partitions[partition] = has_error
        return must or has_records or has_error


class ShareSessions:
    """The sessions of one broker, by member."""

    def __init__(self) -> None:
        self._sessions: dict[MemberKey, ShareSession] = {}

    def begin(self, member: MemberKey, partitions: Iterable[TopicPartition], *, limit: int) -> ShareSession:
        """Start a session in the place of the old one; ShareSessionLimitReached, which also ends the old one."""
        self.end(member)
        session = ShareSession(partitions)
        if len(self._sessions) >= limit or self._partition_count() + len(session.partitions) > PARTITIONS_MAX:
            raise ShareSessionLimitReached
        self._sessions[member] = session
        return session

    def update(self, member: MemberKey, added: Iterable[TopicPartition], forgotten: Iterable[TopicPartition]) -> bool:
        """Add and remove partitions of the member's session.

        Returns:
            Whether it stays within the limits. If not, the caller must end the session.
        """
        session = self._sessions[member]
        before = len(session.partitions)
        session.update(added, forgotten)
        if len(session.partitions) <= before:
            return True
        return len(session.partitions) <= SHARE_PARTITIONS_MAX and self._partition_count() <= PARTITIONS_MAX

    def _partition_count(self) -> int:
        return sum(len(session.partitions) for session in self._sessions.values())

    def of(self, member: MemberKey) -> ShareSession:
        """Return the session of a member; ShareSessionNotFound."""
        session = self._sessions.get(member)
        if session is None:
            raise ShareSessionNotFound
        return session

    def is_current(self, member: MemberKey, session: ShareSession) -> bool:
        """Whether `session` is still the member's."""
        return self._sessions.get(member) is session

    def partitions_of(self, member: MemberKey) -> Iterable[TopicPartition]:
        """Return the partitions of the member's session; empty without a session."""
        session = self._sessions.get(member)
        return () if session is None else session.partitions

    def end(self, member: MemberKey) -> bool:
        """End the session of a member. Return whether there was one."""
        session = self._sessions.pop(member, None)
        if session is not None and session.unsubscribe is not None:
            session.unsubscribe()
        return session is not None

    def has_group(self, group_id: str) -> bool:
        """Whether a member of the group has a session."""
        return any(group == group_id for group, _ in self._sessions)


_LOG = logging.getLogger(__name__)


class SharePartitions:
    """The share partitions of all share groups."""

    def __init__(self, cluster: Cluster, config: BrokerConfig, clock: Clock, persister: Persister) -> None:
        self._cluster = cluster
        self._config = config
        self._clock = clock
        self._persister = persister
        self._served: dict[StateKey, SharePartition] = {}
        self._sessions: dict[int, ShareSessions] = {}  #: by node id of the broker

    def start(self) -> None:
        """Watch for deleted topics and changed states, which make a share partition invalid."""
        self._cluster.on_topic_deleted.append(self._forget_deleted)
        self._persister.on_changed.append(self._forget)

    def stop(self) -> None:
        """Stop, without releasing records: acquired records are available after the next start."""
        self._cluster.on_topic_deleted.remove(self._forget_deleted)
        for share in self._served.values():
            share.close()

    def take_unsynced(self) -> Sequence[PartitionLog]:
        """Return the logs to sync before the answer; see Persister.take_unsynced."""
        return self._persister.take_unsynced()

    # Share partitions

    def get(self, group_id: str, topic_id: UUID, index: int) -> SharePartition:
        """Return a share partition. Its state is read first if necessary.

        Raises:
            CoordinatorNotAvailable, NotLeaderOrFollower, UnknownServerError: Its state cannot be read.
            KafkaError: An error of Cluster.partition_by_id.
        """
        key = StateKey(group_id, topic_id, index)
        served = self._served.get(key)
        if served is None:
            served = self._served[key] = self._load(key, self._cluster.partition_by_id(topic_id, index))
        return served

    def served_of(self, group_id: str) -> list[SharePartition]:
        """Return the share partitions of a group that were used since the start."""
        return [served for key, served in self._served.items() if key.group_id == group_id]

    def acknowledge(self, member: MemberKey, partition: TopicPartition, acknowledgements: Sequence[Acknowledgement]) -> None:
        """Acknowledge records; the errors of SharePartition.acknowledge, and UnknownTopicOrPartition if no member reads the partition."""
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
            raise _member_error(error) from error
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
        """Return the start offset: the log end if no record is young enough, where Kafka answers OFFSET_NOT_AVAILABLE."""
        if partition.is_unopened:
            return 0  # the log is empty, and opening thousands of logs takes seconds
        log = partition.log
        if where == "earliest":
            return log.log_start_offset
        age_ms = duration_ms(where)
        found = None if age_ms is None else finished(log.timestamps.offset_for_timestamp_in_steps(self._clock.now_ms() - age_ms))
        return log.high_watermark if found is None else found.offset

    def _persist(self, key: StateKey, update: StateUpdate) -> None:
        try:
            self._persister.write(key, update)
        except KafkaError as error:
            answer = _member_error(error, "Error in write state RPC. ")
            if isinstance(answer, NotLeaderOrFollower | UnknownTopicOrPartition):
                self._forget(key)
            raise answer from error

    def _forget(self, key: StateKey) -> None:
        share = self._served.pop(key, None)
        if share is not None:
            share.close()

    def _forget_deleted(self, _topic: str) -> None:
        for key in [key for key in self._served if not self._exists(key)]:
            self._forget(key)

    def _exists(self, key: StateKey) -> bool:
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
        """Start a session, which ends with the connection of `when_closed`; ShareSessionLimitReached."""
        session = self._sessions_at(node_id).begin(member, partitions, limit=self._config.group_share_max_share_sessions)
        session.unsubscribe = when_closed(partial(self.end_session, node_id, member))
        return session

    def session(self, node_id: int, member: MemberKey) -> ShareSession:
        """Return the session of a member at a broker; ShareSessionNotFound."""
        return self._sessions_at(node_id).of(member)

    def update_session(self, node_id: int, member: MemberKey, added: Iterable[TopicPartition], forgotten: Iterable[TopicPartition]) -> None:
        """Add and remove partitions of a session; ShareSessionLimitReached, which ends the session."""
        if not self._sessions_at(node_id).update(member, added, forgotten):
            self.end_session(node_id, member)
            raise ShareSessionLimitReached

    def has_session(self, node_id: int, member: MemberKey, session: ShareSession) -> bool:
        """Whether `session` is still the member's."""
        return self._sessions_at(node_id).is_current(member, session)

    def end_sessions(self, group_id: str, member_id: str) -> None:
        """End all sessions of a member that left the group."""
        for node_id in list(self._sessions):
            self.end_session(node_id, (group_id, member_id))

    def end_session(self, node_id: int, member: MemberKey) -> None:
        """End the session of a member at a broker, if it exists.

        Release the member's records of partitions that no other session has.
        """
        if not self._sessions_at(node_id).end(member):
            return
        group_id, member_id = member
        in_other_sessions = {each for sessions in self._sessions.values() for each in sessions.partitions_of(member)}
        for key, share in [(key, share) for key, share in self._served.items() if key.group_id == group_id]:
            if (key.topic_id, key.partition) in in_other_sessions:
                continue
            try:
                share.release(member_id)
            except KafkaError as error:
                _LOG.warning(
                    "%s: could not release the records of member %s: %s (they are released when their locks expire)",
                    key.coordinator_key,
                    member_id,
                    error,
                )
        if not any(sessions.has_group(group_id) for sessions in self._sessions.values()):
            for key in [key for key in self._served if key.group_id == group_id]:
                self._forget(key)

    def _sessions_at(self, node_id: int) -> ShareSessions:
        return self._sessions.setdefault(node_id, ShareSessions())


def _member_error(error: KafkaError, why: str = "") -> KafkaError:
    """Return the error for a member when the share coordinator rejects a change, in Kafka's words."""
    if isinstance(error, NotCoordinator | CoordinatorLoadInProgress | CoordinatorNotAvailable):
        return CoordinatorNotAvailable(f"{why}{error}")
    if isinstance(error, FencedLeaderEpoch | FencedStateEpoch):
        return NotLeaderOrFollower(f"{why}{error}")
    if isinstance(error, UnknownTopicOrPartition):
        return error
    return UnknownServerError(f"{why}{error}")
