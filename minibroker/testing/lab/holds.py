"""Hold high watermarks of partitions, by topic and index (minibroker/testing/simulation/held_watermarks.py)."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any, NamedTuple
from uuid import UUID

from minibroker.cluster.cluster import Cluster
from minibroker.cluster.partition import Partition
from minibroker.cluster.topic import INTERNAL_TOPICS
from minibroker.testing.errors import BrokerError
from minibroker.testing.simulation.held_watermarks import hold_high_watermark, release_high_watermark


class _Held(NamedTuple):
    """A partition that is held, of the topic that it was of: one that is created anew by that name is another."""

    topic: str
    partition: int
    topic_id: UUID


class Holds:
    """Of one broker. A partition may be held twice; it is free when the last one is released."""

    def __init__(self, cluster: Callable[[], Cluster]) -> None:
        self._cluster = cluster  #: the one that is served now
        self._held: dict[int, _Held] = {}
        self._numbers = count(1)

    def hold(self, topic: str, partition: int) -> dict[str, Any]:
        """Hold the high watermark of a partition where it is: what is written from now on is not read, and acks=all waits."""
        if topic in INTERNAL_TOPICS:
            raise BrokerError(f"high_watermark.hold: {topic} is the broker's own: coordinators do not wait for it")
        found = self._cluster().partition(topic, partition)
        hold_high_watermark(found)
        number = next(self._numbers)
        self._held[number] = _Held(topic, partition, found.topic_id)
        return {"id": number}

    def _find(self, held: _Held) -> Partition | None:
        """The partition; None: its topic was deleted."""
        topic = self._cluster().topics.get(held.topic)
        return topic.partitions[held.partition] if topic is not None and topic.topic_id == held.topic_id else None

    def release(self, id: int | None = None, topic: str | None = None, partition: int | None = None) -> int:  # noqa: A002  JSON's name
        """Release one hold, or all of a partition, or of a topic, or all; how many there were."""
        wanted = [
            number
            for number, held in self._held.items()
            if id in {None, number} and topic in {None, held.topic} and partition in {None, held.partition}
        ]
        return sum(self._release(number) for number in wanted)

    def _release(self, number: int) -> bool:
        """Whether there was something to release."""
        held = self._held.pop(number)
        partition = self._find(held)
        if partition is not None and held not in self._held.values():
            release_high_watermark(partition)
        return partition is not None

    def list(self) -> list[dict[str, Any]]:
        """What is held, and how far the log has gone on."""
        rows = []
        for number, held in self._held.items():
            partition = self._find(held)
            if partition is not None:
                log = partition.online_log
                offsets = {} if log is None else {"high_watermark": log.high_watermark, "log_end_offset": log.log_end_offset}
                rows.append({"id": number, "topic": held.topic, "partition": held.partition} | offsets)
        return rows

    def forget(self) -> None:
        """The data are others: nothing is held there."""
        self._held.clear()

    def renew(self) -> None:
        """The logs were opened anew, and show what they have: hold them from here on."""
        for held in set(self._held.values()):
            partition = self._find(held)
            if partition is not None and partition.is_online:
                hold_high_watermark(partition)
