"""Share sessions: a member names its partitions once, and after that both sides send only what has changed.

    epoch of a request     effect
    0                      starts a session, and ends the one that the member had, which keeps its records
    n, the expected one    continues it; the epoch counts up, from 2**31 - 1 back to 1
    -1                     ends it: acknowledgements count, and other records of the member are released
    n, another             INVALID_SHARE_SESSION_EPOCH
    n or -1, no session    SHARE_SESSION_NOT_FOUND
    0, too many sessions   SHARE_SESSION_LIMIT_REACHED
    any, too many partitions in a session (SHARE_PARTITIONS_MAX) or in all sessions (PARTITIONS_MAX), which Kafka does not limit
                           the session ends: SHARE_SESSION_LIMIT_REACHED

A session also ends with its connection. Of several brokers each has its own session with a member.
A later answer has the partitions with records or an error, those that are new in the session, and
those that had an error in the answer before.

Source: SharePartitionManager, ShareSession, ShareSessionCache, CachedSharePartition of Apache Kafka
4.3.1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final
from uuid import UUID

from minibroker.config.request_limits import SHARE_PARTITIONS_MAX
from minibroker.errors import InvalidShareSessionEpoch, ShareSessionLimitReached, ShareSessionNotFound

FIRST_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
_MAX_EPOCH: Final = 2**31 - 1
PARTITIONS_MAX: Final = 100_000  #: in all sessions of a broker

TopicPartition = tuple[UUID, int]
MemberKey = tuple[str, str]  #: group id, member id


class ShareSession:
    """The partitions that one member fetches."""

    __slots__ = ("epoch", "let_go", "partitions")

    def __init__(self, partitions: Iterable[TopicPartition]) -> None:
        self.epoch = 1  #: the epoch of the next request
        self.let_go: Callable[[], None] | None = None  #: unsubscribes from the connection; written by the code that starts the session
        self.partitions: dict[TopicPartition, bool] = dict.fromkeys(partitions, False)  #: and whether the next answer must include it

    def update(self, added: Iterable[TopicPartition], forgotten: Iterable[TopicPartition]) -> None:
        """Add and remove partitions."""
        for each in added:
            self.partitions.setdefault(each, True)
        for each in forgotten:
            self.partitions.pop(each, None)

    def go_on(self, epoch: int) -> None:
        """Check the epoch of a request, and count it up; InvalidShareSessionEpoch."""
        if epoch != self.epoch:
            raise InvalidShareSessionEpoch
        self.epoch = 1 if epoch == _MAX_EPOCH else epoch + 1

    def is_told(self, partition: TopicPartition, *, has_records: bool, has_error: bool) -> bool:
        """Whether an answer must include this partition. One with records goes to the end of the order."""
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
        """Return the partitions of the member's session; none without a session."""
        session = self._sessions.get(member)
        return () if session is None else session.partitions

    def end(self, member: MemberKey) -> bool:
        """End the session of a member. Return whether there was one."""
        session = self._sessions.pop(member, None)
        if session is not None and session.let_go is not None:
            session.let_go()
        return session is not None

    def has_group(self, group_id: str) -> bool:
        """Whether a member of the group has a session."""
        return any(group == group_id for group, _ in self._sessions)
