"""Kafka's rules for names, partition counts and replicas of topics, in Kafka's order, with Kafka's messages.

Names (org.apache.kafka.common.internals.Topic): 1 to 249 of ASCII letters, digits, `.`, `_`, `-`; not `.` or `..`. Two names that
differ only in `.` and `_` collide, because metrics write both as `_`; the second is rejected. So a name is always a safe folder name.
Counts and assignments: ReplicationControlManager of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final

from minibroker.errors import (
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    InvalidRequest,
    InvalidTopicException,
    PolicyViolation,
)

NAME_LENGTH_MAX = 249
_NAME_SHOWN_MAX = 4096  #: characters of an invalid name that a message repeats
PARTITIONS_OF_REQUEST_MAX = 10_000
METADATA_TOPIC = "__cluster_metadata"
_LEGAL = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


def check_name(name: str) -> None:
    """Raise InvalidTopicException for an invalid name."""
    problem = None
    if not name:
        problem = "the empty string is not allowed"
    elif name in {".", ".."}:
        problem = f"'{name}' is not allowed"
    elif len(name) > NAME_LENGTH_MAX:
        problem = f"the length of '{shortened(name)}' is longer than the max allowed length {NAME_LENGTH_MAX}"
    elif not _LEGAL.issuperset(name):
        problem = f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    if problem is not None:
        raise InvalidTopicException(f"Topic name is invalid: {problem}")


def shortened(name: str) -> str:
    """Shorten a name for a message: strings of the protocol have at most 32,767 bytes."""
    return name if len(name) <= _NAME_SHOWN_MAX else f"{name[:_NAME_SHOWN_MAX]}..."


def check_new_name(name: str) -> None:
    """Raise InvalidTopicException for an invalid name, and InvalidRequest for that of the metadata log."""
    check_name(name)
    if name == METADATA_TOPIC:
        raise InvalidRequest(f"Creation of internal topic {name} is prohibited.")


class SimilarNames:
    """Names of topics, indexed with `.` replaced by `_`, to find collisions quickly."""

    def __init__(self) -> None:
        self._by_unified: dict[str, set[str]] = {}

    def add(self, name: str) -> None:
        """Add the name of a topic."""
        if "." in name or "_" in name:  # other names cannot collide
            self._by_unified.setdefault(_unified(name), set()).add(name)

    def remove(self, name: str) -> None:
        """Remove the name of a topic."""
        names = self._by_unified.get(_unified(name), set())
        names.discard(name)
        if not names:
            self._by_unified.pop(_unified(name), None)

    def check_collision(self, name: str, beside: Iterable[str] = ()) -> None:
        """Raise InvalidTopicException if a topic or one of `beside` differs from `name` only in `.` and `_`."""
        if "." in name or "_" in name:
            unified = _unified(name)
            similar = (other for other in beside if _unified(other) == unified)
            colliding = min((*self._by_unified.get(unified, ()), *similar), default=None)
            if colliding is not None:
                raise InvalidTopicException(f"Topic '{name}' collides with existing topic: {colliding}")


def _unified(name: str) -> str:
    return name.replace(".", "_")


def check_replication_factor(replication_factor: int, broker_count: int = 1) -> None:
    """Raise InvalidReplicationFactor unless the factor is from 1 to the number of brokers, or -1 for the default."""
    if replication_factor == 0 or replication_factor < -1:
        raise InvalidReplicationFactor("Replication factor must be larger than 0, or -1 to use the default value.")
    if replication_factor > broker_count:
        raise InvalidReplicationFactor(
            f"Unable to replicate the partition {replication_factor} time(s): The target replication factor of {replication_factor} cannot "
            f"be reached because only {broker_count} broker(s) are registered or some brokers have all their log directories cordoned."
        )


def check_partition_count(partition_count: int) -> None:
    """Check that there is at least one partition, and no more than one batch of the metadata log can hold."""
    if partition_count < 1:
        raise InvalidPartitions("Number of partitions was set to an invalid non-positive value.")
    if partition_count > PARTITIONS_OF_REQUEST_MAX:
        raise PolicyViolation("Excessively large number of partitions per request.")


def check_assignment(replicas: Sequence[int], node_ids: Collection[int], count: int | None = None) -> None:
    """Check that replicas are existing brokers, each once. `count` is the number of replicas of the partitions before."""
    if not replicas:
        raise InvalidReplicaAssignment("The manual partition assignment includes an empty replica list.")
    ordered = sorted(replicas)
    for broker in ordered:
        if broker not in node_ids:
            raise InvalidReplicaAssignment(f"The manual partition assignment includes broker {broker}, but no such broker is registered.")
    for broker, following in pairwise(ordered):
        if broker == following:
            raise InvalidReplicaAssignment(f"The manual partition assignment includes the broker {broker} more than once.")
    if count is not None and len(ordered) != count:
        raise InvalidReplicaAssignment(
            f"The manual partition assignment includes a partition with {len(ordered)} replica(s), but this is not consistent with "
            f"previous partitions, which have {count} replica(s)."
        )


def _check_alive(index: int, replicas: Sequence[int], alive: Collection[int]) -> None:
    """Check that a broker runs that can lead a new partition."""
    if not any(each in alive for each in replicas):
        raise InvalidReplicaAssignment(
            f"All brokers specified in the manual partition assignment for partition {index} are fenced or in controlled shutdown."
        )


def check_assignments(assignments: Mapping[int, Sequence[int]], node_ids: Collection[int], alive: Collection[int]) -> int:
    """Check a manual assignment and return its number of partitions. `alive` are the running brokers."""
    count = None
    for index, replicas in assignments.items():
        check_assignment(replicas, node_ids, count)
        _check_alive(index, replicas, alive)
        count = len(replicas)
    if sorted(assignments) != list(range(len(assignments))):
        raise InvalidReplicaAssignment("partitions should be a consecutive 0-based integer sequence")
    return len(assignments)


def check_new_assignments(
    assignments: Sequence[Sequence[int]], indexes: range, node_ids: Collection[int], alive: Collection[int], replica_count: int
) -> None:
    """Check a manual assignment of additional partitions. Each must have as many replicas as the first partition."""
    if len(assignments) != len(indexes):
        raise InvalidReplicaAssignment(
            f"Attempted to add {len(indexes)} additional partition(s), but only {len(assignments)} assignment(s) were specified."
        )
    for index, replicas in zip(indexes, assignments, strict=True):
        check_assignment(replicas, node_ids, replica_count)
        _check_alive(index, replicas, alive)


def check_increase(name: str, current: int, count: int) -> None:
    """Check that CreatePartitions increases the number of partitions."""
    if count == current:
        raise InvalidPartitions(f"Topic already has {current} partition(s).")
    if count < current:
        raise InvalidPartitions(f"The topic {name} currently has {current} partition(s); {count} would not be an increase.")
    if count - current > PARTITIONS_OF_REQUEST_MAX:
        raise PolicyViolation("Excessively large number of partitions per request.")


TOPIC_OPERATIONS: Final = 0b1101_1111_1000  #: read, write, create, delete, alter, describe, describe configs, alter configs
CLUSTER_OPERATIONS: Final = 0b1_1111_1010_0000  #: create, alter, describe, cluster action, describe and alter configs, idempotent write
GROUP_OPERATIONS: Final = 0b1101_0100_1000  #: read, delete, describe, describe configs, alter configs
NOT_ASKED_FOR: Final = -(2**31)
