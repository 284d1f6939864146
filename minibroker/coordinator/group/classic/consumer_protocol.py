"""The embedded protocol `consumer`: the bytes that consumers of a classic group exchange with their leader.

    JoinGroup    for each protocol: its name, and a ConsumerProtocolSubscription
    SyncGroup    a ConsumerProtocolAssignment, in the version of the member's subscription

All subscriptions of one JoinGroup are equal, and the broker reads the first one. A version newer
than the newest known one is read and written as the newest. Source: ConsumerProtocol,
GroupMetadataManager, Utils of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, TypeVar
from uuid import UUID

from minibroker.coordinator.group.modern import Assignment, frozen
from minibroker.coordinator.group.topics import Topics
from minibroker.errors import WireError
from minibroker.schemas.internal.consumer_protocol import (
    MAX_VERSION,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartitions,
)
from minibroker.wire.compiled import decoder, encoder
from minibroker.wire.schema import String, struct

CONSUMER: Final = "consumer"  #: the protocol type of groups of consumers
_VERSION_SIZE: Final = 2

T = TypeVar("T")


def read_subscription(metadata: bytes) -> ConsumerProtocolSubscription:
    """Decode the subscription that a member sent for one of its protocols; WireError."""
    return _read(ConsumerProtocolSubscription, metadata)


def read_assignment(assignment: bytes) -> ConsumerProtocolAssignment:
    """Decode the assignment that a leader made for a member; WireError."""
    return _read(ConsumerProtocolAssignment, assignment)


def write_assignment(assignment: Assignment, metadata: bytes, names: Iterable[str], topics: Topics) -> bytes:
    """Encode an assignment in the version of a member's subscription, or 0 if that is invalid.

    Skip topics that are not in `names`.
    """
    try:
        version = _version(metadata)
    except WireError:
        version = 0
    known = [(name, topic.topic_id) for name in sorted(names) if (topic := topics.find(name)) is not None]
    assigned = [TopicPartitions(topic=name, partitions=sorted(assignment[topic_id])) for name, topic_id in known if topic_id in assignment]
    chunks = encoder(ConsumerProtocolAssignment, version, flexible=False)(ConsumerProtocolAssignment(assigned_partitions=assigned))
    return version.to_bytes(_VERSION_SIZE, "big") + b"".join(chunks)


def partitions_of(named_partitions: Sequence[TopicPartitions], topics: Topics) -> Assignment:
    """Return those of the partitions that exist. `named_partitions` have topic names."""
    found: dict[UUID, set[int]] = {}
    for each in named_partitions:
        topic = topics.find(each.topic)
        if topic is not None:
            found.setdefault(topic.topic_id, set()).update(index for index in each.partitions if 0 <= index < topic.partition_count)
    return frozen(found)


def _read(struct: type[T], data: bytes) -> T:
    found, _ = decoder(struct, _version(data), flexible=False)(data, _VERSION_SIZE)
    return found


def _version(data: bytes) -> int:
    version = int.from_bytes(data[:_VERSION_SIZE], "big", signed=True)
    if len(data) < _VERSION_SIZE or version < 0:
        raise WireError(f"version {version} of the embedded consumer protocol in {len(data)} bytes")
    return min(version, MAX_VERSION)


@struct
class Subscription:
    """Version 0 of ConsumerProtocolSubscription. Later versions append fields."""

    topics: list[String]


def topics_of(metadata: bytes) -> frozenset[str] | None:
    """Return the topics of a subscription; None if the bytes are not a subscription."""
    if len(metadata) < _VERSION_SIZE or metadata[0] & 0x80:
        return None
    try:
        subscription, _ = decoder(Subscription, 0, flexible=False)(metadata, _VERSION_SIZE)
    except WireError:
        return None
    return frozenset(subscription.topics)
