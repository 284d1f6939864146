"""Share sessions: a member of a share group names its partitions once; after that both sides send only what has changed.

    epoch of a request     what it does
    0                      begins a session, and ends the one that the member had: its records stay its own
    n, the one expected    goes on; the epoch counts up, from 2**31 - 1 back to 1
    -1                     ends it: what is acknowledged counts, what the member had besides is others'
    n, another             INVALID_SHARE_SESSION_EPOCH
    n or -1, no session    SHARE_SESSION_NOT_FOUND
    0, too many sessions   SHARE_SESSION_LIMIT_REACHED
    any, too many partitions in a session (SHARE_PARTITIONS_MAX) or in all together (PARTITIONS_MAX), which Kafka does not limit
                           the session ends: SHARE_SESSION_LIMIT_REACHED

A session ends with its connection, too; of several brokers each has its own with a member. A later answer has the partitions with records
or an error, those that are new in the session, and those that had an error the time before.

Source: SharePartitionManager, ShareSession, ShareSessionCache, CachedSharePartition of Apache Kafka 4.3.1.
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
PARTITIONS_MAX: Final = 100_000  #: of all sessions of a broker

TopicPartition = tuple[UUID, int]
MemberKey = tuple[str, str]  #: group id, member id


class ShareSession:
    """What one member fetches."""

    __slots__ = ("epoch", "let_go", "partitions")

    def __init__(self, partitions: Iterable[TopicPartition]) -> None:
        self.epoch = 1  #: that the next request must carry
        self.let_go: Callable[[], None] | None = None  #: of the connection; written by who begins it
        self.partitions: dict[TopicPartition, bool] = dict.fromkeys(partitions, False)  #: and whether the next answer must tell it

    def update(self, added: Iterable[TopicPartition], forgotten: Iterable[TopicPartition]) -> None:
        """Apply a request."""
        for each in added:
            self.partitions.setdefault(each, True)
        for each in forgotten:
            self.partitions.pop(each, None)

    def go_on(self, epoch: int) -> None:
        """The next request has come; InvalidShareSessionEpoch when it is not that."""
        if epoch != self.epoch:
            raise InvalidShareSessionEpoch
        self.epoch = 1 if epoch == _MAX_EPOCH else epoch + 1

    def is_told(self, partition: TopicPartition, *, has_records: bool, has_error: bool) -> bool:
        """Whether the answer that leaves has this partition; one with records goes to the end of the line."""
        if partition not in self.partitions:
            return False
        must = self.partitions[partition]
        if has_records:
            del self.partitions[partition]
        self.partitions[partition] = has_error
        return must or has_records or has_error


class ShareSessions:
    """All of a broker, by member."""

    def __init__(self) -> None:
        self._sessions: dict[MemberKey, ShareSession] = {}

    def begin(self, member: MemberKey, partitions: Iterable[TopicPartition], *, limit: int) -> ShareSession:
        """A new one in the place of the old; ShareSessionLimitReached, and the old one is gone nevertheless."""
        self.end(member)
        session = ShareSession(partitions)
        if len(self._sessions) >= limit or self._partition_count() + len(session.partitions) > PARTITIONS_MAX:
            raise ShareSessionLimitReached
        self._sessions[member] = session
        return session

    def update(self, member: MemberKey, added: Iterable[TopicPartition], forgotten: Iterable[TopicPartition]) -> bool:
        """Apply a request to the member's session.

        Returns:
            Whether there is room for it. If not, the caller must end the session.
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
        """The member's; ShareSessionNotFound."""
        session = self._sessions.get(member)
        if session is None:
            raise ShareSessionNotFound
        return session

    def is_current(self, member: MemberKey, session: ShareSession) -> bool:
        """Whether it is the member's still."""
        return self._sessions.get(member) is session

    def partitions_of(self, member: MemberKey) -> Iterable[TopicPartition]:
        """Those of the member's session; none where it has none."""
        session = self._sessions.get(member)
        return () if session is None else session.partitions

    def end(self, member: MemberKey) -> bool:
        """Forget it; whether there was one."""
        session = self._sessions.pop(member, None)
        if session is not None and session.let_go is not None:
            session.let_go()
        return session is not None

    def has_group(self, group_id: str) -> bool:
        """Whether a member of the group has a session."""
        return any(group == group_id for group, _ in self._sessions)
