"""High watermarks that a test holds back: readers see nothing new, what needs all replicas waits (dispatch/acknowledgement.py)."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

from minibroker.cluster.cluster import Cluster
from minibroker.cluster.topic import INTERNAL_TOPICS
from minibroker.testing.errors import BrokerError


class Holds:
    """Of one broker. A partition may be held twice; it is free when the last one is released."""

    def __init__(self, cluster: Callable[[], Cluster]) -> None:
        self._cluster = cluster  #: the one that is served now
        self._held: dict[int, tuple[str, int]] = {}
        self._numbers = count(1)

    def hold(self, topic: str, partition: int) -> dict[str, Any]:
        """Hold the high watermark of a partition where it is: what is written from now on is not read, and acks=all waits."""
        if topic in INTERNAL_TOPICS:
            raise BrokerError(f"high_watermark.hold: {topic} is the broker's own: coordinators do not wait for it")
        self._cluster().partition(topic, partition).hold_high_watermark()
        number = next(self._numbers)
        self._held[number] = topic, partition
        return {"id": number}

    def release(self, id: int | None = None, topic: str | None = None, partition: int | None = None) -> int:  # noqa: A002  JSON's name
        """Release one hold, or all of a partition, or of a topic, or all; how many there were."""
        wanted = [
            number
            for number, (held_topic, held_partition) in self._held.items()
            if id in {None, number} and topic in {None, held_topic} and partition in {None, held_partition}
        ]
        for number in wanted:
            self._release(number)
        return len(wanted)

    def _release(self, number: int) -> None:
        held = self._held.pop(number)
        topic = self._cluster().topics.get(held[0])
        if held not in self._held.values() and topic is not None and held[1] < len(topic.partitions):
            topic.partitions[held[1]].release_high_watermark()

    def list(self) -> list[dict[str, Any]]:
        """What is held, and how far the log has gone on."""
        rows = []
        for number, (name, index) in self._held.items():
            topic = self._cluster().topics.get(name)
            log = topic.partitions[index].online_log if topic is not None and index < len(topic.partitions) else None
            offsets = {} if log is None else {"high_watermark": log.high_watermark, "log_end_offset": log.log_end_offset}
            rows.append({"id": number, "topic": name, "partition": index} | offsets)
        return rows

    def forget(self) -> None:
        """The data are others: nothing is held there."""
        self._held.clear()

    def renew(self) -> None:
        """The logs were opened anew, and show what they have: hold them from here on."""
        for topic, partition in set(self._held.values()):
            found = self._cluster().topics.get(topic)
            if found is not None and partition < len(found.partitions) and found.partitions[partition].is_online:
                found.partitions[partition].hold_high_watermark()
