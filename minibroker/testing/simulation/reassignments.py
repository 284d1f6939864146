"""Reassignments that run for a while, as in Apache Kafka, where new replicas have to catch up: with `minibroker.like.kafka`.

    begin     The replicas are those of the target, then those to be removed. New replicas are not in sync and cannot lead.
    finish    RUNNING_MS later the replicas are those of the target, and all of them are in sync.
    cancel    The replicas are those from before.

A reassignment that adds no replica is finished at once. A second reassignment of a partition replaces the first. When the broker stops it
forgets running reassignments, so the replicas are those from before.

Source: PartitionReassignmentReplicas, ReplicationControlManager of Apache Kafka 4.3.1.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final, Protocol
from uuid import UUID

from minibroker.clock import Clock, Timer
from minibroker.cluster.nodes import Reassignment
from minibroker.cluster.partition import Partition
from minibroker.errors import KafkaError, NoReassignmentInProgress

RUNNING_MS: Final = 1_000  #: long enough to be seen and cancelled

_LOG = logging.getLogger(__name__)


class ReplicaChanges(Protocol):
    """`Leadership`, as a reassignment uses it."""

    def replicas(self, partition: Partition) -> list[int]:
        """Return the replicas that a partition has now."""

    def show_reassignment(self, partition: Partition, replicas: Sequence[int], adding: Sequence[int]) -> None:
        """Change the replicas for as long as the reassignment runs."""

    def finish_reassignment(self, partition: Partition, replicas: Sequence[int]) -> None:
        """Change the replicas for good."""


class Reassignments:
    """The running reassignments of a cluster."""

    def __init__(self, leadership: ReplicaChanges, clock: Clock) -> None:
        self._leadership = leadership
        self._clock = clock
        self._running: dict[tuple[UUID, int], tuple[Reassignment, Timer]] = {}

    def of(self, partition: Partition) -> Reassignment | None:
        """Return the reassignment of a partition, if one is running."""
        found = self._running.get(_key(partition))
        return None if found is None else found[0]

    def begin(self, partition: Partition, target: Sequence[int]) -> bool:
        """Begin a reassignment; False if it adds no replica, so that the caller finishes it at once. Raises KafkaStorageError."""
        before = self.of(partition)
        original = self._leadership.replicas(partition) if before is None else before.original
        adding = [each for each in target if each not in original]
        if before is not None:
            self._forget(_key(partition))
        if not adding:
            return False
        removing = sorted(set(original) - set(target))
        reassignment = Reassignment(list(original), list(target), [*target, *removing], adding, removing)
        self._leadership.show_reassignment(partition, reassignment.replicas, adding)
        timer = self._clock.call_later_ms(RUNNING_MS, lambda: self._finish(partition))
        self._running[_key(partition)] = reassignment, timer
        return True

    def cancel(self, partition: Partition) -> None:
        """Restore the replicas from before; raises NoReassignmentInProgress."""
        found = self.of(partition)
        if found is None:
            raise NoReassignmentInProgress
        self._leadership.show_reassignment(partition, found.original, ())
        self._forget(_key(partition))

    def forget(self, topic_id: UUID) -> None:
        """Forget a deleted topic."""
        for key in [each for each in self._running if each[0] == topic_id]:
            self._forget(key)

    def stop(self) -> None:
        """Forget all: the cluster closes."""
        for key in list(self._running):
            self._forget(key)

    def _finish(self, partition: Partition) -> None:
        found = self.of(partition)
        if found is None:
            return
        self._forget(_key(partition))
        try:
            self._leadership.finish_reassignment(partition, found.target)
        except KafkaError as error:
            _LOG.warning("could not finish the reassignment of %s-%d: %s", partition.topic, partition.index, error)

    def _forget(self, key: tuple[UUID, int]) -> None:
        _, timer = self._running.pop(key)
        timer.cancel()


def _key(partition: Partition) -> tuple[UUID, int]:
    return partition.topic_id, partition.index
