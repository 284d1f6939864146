"""A member of a consumer group (KIP-848), driven by its reader: one thread, which calls `heartbeat_if_due` between its polls.

A new assignment is applied in Kafka's order. The reader commits the offsets of revoked partitions, and calls
`release_revoked`. Then the next heartbeat reports that these partitions are free.
"""

from __future__ import annotations

import base64
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from minibroker.client.client import Client
from minibroker.client.connection import Connection
from minibroker.client.errors import refusal
from minibroker.client.group_offsets import CommittedOffset, commit_as_member, committed_offsets
from minibroker.client.routing import TopicPartition, ask_coordinators
from minibroker.client.transport import Deadline
from minibroker.errors import FencedMemberEpoch, GroupIdNotFound, KafkaError, UnknownMemberId
from minibroker.schemas import k68_consumer_group_heartbeat as schema
from minibroker.schemas.k10_find_coordinator import GROUP

_REBALANCE_TIMEOUT_MS: Final = 60_000
_JOIN, _LEAVE = 0, -1
_FORGOTTEN: Final = (FencedMemberEpoch, UnknownMemberId, GroupIdNotFound)  #: the member's session expired, or its group was deleted


class GroupMember:
    """A member. It joins the group with its first heartbeat.

    Args:
        now_s: a clock that never goes back, in seconds.
    """

    def __init__(self, client: Client, group: str, topics: Sequence[str], *, now_s: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._group = group
        self._topics = list(topics)
        self._now_s = now_s
        self._member_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        self._epoch = _JOIN
        self._owned: list[schema.TopicPartitions] = []
        self._target: list[schema.TopicPartitions] = []
        self._ids: dict[uuid.UUID, str] = {}
        self._due_s = 0.0
        self.assigned: tuple[TopicPartition, ...] = ()  #: from the last heartbeat response

    def heartbeat_if_due(self) -> bool:
        """Send a heartbeat if it is due, and return whether it was due. A removed member joins again, without partitions."""
        if self._now_s() < self._due_s:
            return False
        try:
            self._heartbeat()
        except _FORGOTTEN:
            self._epoch, self._owned, self._target, self.assigned = _JOIN, [], [], ()
            self._heartbeat()
        return True

    def release_revoked(self) -> None:
        """Make a heartbeat due at once, which reports that the reader reads only `assigned` from now on."""
        self._owned = self._target
        self._due_s = 0.0

    def committed(self) -> dict[TopicPartition, int]:
        """Return the committed offsets of the assigned partitions that have one."""
        (found,) = committed_offsets(self._client, [self._group]).values()
        if isinstance(found, KafkaError):
            raise found
        return {key: answer.offset for key in self.assigned if isinstance(answer := found.get(key), CommittedOffset)}

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit the next offset of partitions. Skip the commit of a fenced member: its partitions belong to another member."""
        for error in commit_as_member(self._client, self._group, offsets, member_id=self._member_id, epoch=self._epoch).values():
            if error is not None and not isinstance(error, _FORGOTTEN):
                raise error

    def leave(self) -> None:
        """Leave the group."""
        self._ask(schema.Request(group_id=self._group, member_id=self._member_id, member_epoch=_LEAVE))
        self.assigned = ()

    def _heartbeat(self) -> None:
        response = self._ask(
            schema.Request(
                group_id=self._group,
                member_id=self._member_id,
                member_epoch=self._epoch,
                rebalance_timeout_ms=_REBALANCE_TIMEOUT_MS,
                subscribed_topic_names=self._topics,
                topic_partitions=self._owned,
            )
        )
        self._epoch = response.member_epoch
        self._due_s = self._now_s() + response.heartbeat_interval_ms / 1000
        if response.assignment is not None:
            self._target = response.assignment.topic_partitions
            self.assigned = tuple(sorted((self._name(each.topic_id), index) for each in self._target for index in each.partitions))

    def _name(self, topic_id: uuid.UUID) -> str:
        if topic_id not in self._ids:
            self._ids = {topic.topic_id: topic.name or "" for topic in self._client.metadata(self._topics).topics}
        return self._ids[topic_id]

    def _ask(self, request: schema.Request) -> schema.Response:
        deadline: Deadline = self._client.deadline()

        def ask(connection: Connection, _: list[str]) -> dict[str, schema.Response | KafkaError]:
            response: schema.Response = connection.ask(schema, request, deadline)
            return {self._group: refusal(response.error_code, f"group {self._group}", response.error_message) or response}

        (answer,) = ask_coordinators(self._client, GROUP, [self._group], ask, deadline).values()
        if isinstance(answer, KafkaError):
            raise answer
        return answer
