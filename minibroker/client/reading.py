"""Read several topics: partitions that the caller names, or those that a group assigns.

Both readers have `positions`, `poll`, `stop_reading`, `consumed` and `close`. The caller calls `consumed` for each record that it
has used: a group commits only these.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

from minibroker.client.client import Client
from minibroker.client.consumer import ConsumedRecord, Consumer
from minibroker.client.group_member import GroupMember
from minibroker.client.offsets import READ_UNCOMMITTED
from minibroker.client.routing import TopicPartition

StartOffsets = Callable[[Sequence[TopicPartition]], Mapping[TopicPartition, int]]


class Reader(Protocol):
    """What the two readers have in common."""

    @property
    def positions(self) -> dict[TopicPartition, int]:
        """The next offset of each partition that is read."""

    @property
    def is_waiting(self) -> bool:
        """Whether partitions can still be assigned."""

    def poll(self, max_wait_ms: int) -> Iterator[ConsumedRecord]:
        """Yield the records that arrive within this time."""

    def stop_reading(self, key: TopicPartition) -> None:
        """Stop reading a partition."""

    def consumed(self, consumed: ConsumedRecord) -> None:
        """Note that a record was used."""

    def close(self) -> None:
        """Stop reading."""


class _Consumers:
    """A consumer for each topic. They share the time of a poll."""

    def __init__(self, client: Client, starts: Mapping[TopicPartition, int], isolation: int) -> None:
        by_topic: dict[str, dict[int, int]] = defaultdict(dict)
        for (topic, partition), offset in starts.items():
            by_topic[topic][partition] = offset
        self._of = {topic: Consumer(client, topic, offsets, isolation=isolation) for topic, offsets in by_topic.items()}

    @property
    def positions(self) -> dict[TopicPartition, int]:
        return {(topic, index): offset for topic, consumer in self._of.items() for index, offset in consumer.positions.items()}

    def poll(self, max_wait_ms: int) -> Iterator[ConsumedRecord]:
        consumers = [consumer for consumer in self._of.values() if consumer.positions]
        if not consumers:
            time.sleep(max_wait_ms / 1000)
        for consumer in consumers:
            yield from consumer.poll(max(1, max_wait_ms // len(consumers)))

    def stop_reading(self, key: TopicPartition) -> None:
        self._of[key[0]].stop_reading(key[1])


class TopicsReader:
    """Reads partitions from given offsets on, without a group."""

    is_waiting = False

    def __init__(self, client: Client, starts: Mapping[TopicPartition, int], *, isolation: int = READ_UNCOMMITTED) -> None:
        self._consumers = _Consumers(client, starts, isolation)
        self.poll = self._consumers.poll
        self.stop_reading = self._consumers.stop_reading

    @property
    def positions(self) -> dict[TopicPartition, int]:
        """The next offset of each partition that is read."""
        return self._consumers.positions

    def consumed(self, consumed: ConsumedRecord) -> None:
        """Do nothing: no offset is committed."""

    def close(self) -> None:
        """Do nothing."""


class GroupReader:
    """Reads the partitions that a group assigns (KIP-848).

    It commits the offsets of used records regularly, before revocations, and at the end.

    Args:
        start_offsets: returns where to start partitions without a committed offset.
        commit_interval_ms: the time between two commits; None: commit nothing.
    """

    def __init__(
        self,
        client: Client,
        group: str,
        topics: Sequence[str],
        start_offsets: StartOffsets,
        *,
        isolation: int = READ_UNCOMMITTED,
        commit_interval_ms: int | None,
    ) -> None:
        self._client = client
        self._isolation = isolation
        self._start_offsets = start_offsets
        self._commit_interval_ms = commit_interval_ms
        self._member = GroupMember(client, group, topics)
        self._consumers = _Consumers(client, {}, isolation)
        self._next: dict[TopicPartition, int] = {}  #: to commit
        self._committed_s = time.monotonic()

    @property
    def positions(self) -> dict[TopicPartition, int]:
        """The next offset of each partition that is read."""
        return self._consumers.positions

    @property
    def is_waiting(self) -> bool:
        """Whether the member has no partitions yet."""
        return not self._member.assigned

    def poll(self, max_wait_ms: int) -> Iterator[ConsumedRecord]:
        """Yield the records that arrive within this time. Joins the group at the first call."""
        before = self._member.assigned
        if self._member.heartbeat_if_due() and self._member.assigned != before:
            self._change_partitions()
        elif self._commit_interval_ms is not None and (time.monotonic() - self._committed_s) * 1000 >= self._commit_interval_ms:
            self._commit()
        yield from self._consumers.poll(max_wait_ms)

    def stop_reading(self, key: TopicPartition) -> None:
        """Stop reading a partition, which stays assigned."""
        self._consumers.stop_reading(key)

    def consumed(self, consumed: ConsumedRecord) -> None:
        """Note that a record was used. A later commit has its offset."""
        self._next[consumed.topic, consumed.partition] = consumed.record.offset + 1

    def close(self) -> None:
        """Commit, and leave the group."""
        self._commit()
        self._member.leave()

    def _change_partitions(self) -> None:
        self._commit()
        starts = self._member.committed()
        missing = [key for key in self._member.assigned if key not in starts]
        starts.update(self._start_offsets(missing) if missing else {})
        self._consumers = _Consumers(self._client, starts, self._isolation)
        self._next = dict(starts)  # a consumer commits its positions in all partitions, as Kafka's does
        self._member.release_revoked()

    def _commit(self) -> None:
        self._committed_s = time.monotonic()
        if self._next and self._commit_interval_ms is not None:
            self._member.commit(self._next)
        self._next = {}
