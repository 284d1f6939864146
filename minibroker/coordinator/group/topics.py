"""The topics of the cluster as groups see them, and the metadata hash by which a group detects that its topics changed.

Metadata hash of a group: the hash of the hashes of its topics, each int64, in the order of their
names. Topics that do not exist are skipped. A group without topics has hash 0. Hash of a topic:

    magic: int8 = 0, topic id: 2 x int64, name: text, partition count: int32,
    of each partition: its index: int32, and of each of its replicas that is in a rack: length: int32, rack: text

The hash is XXH3 with 64 bits, seed 0. All is little-endian. A text is UTF-16, followed by its
length: int32.
Source: Utils.computeTopicHash and computeGroupHash of Apache Kafka 4.3.1, whose HashStream64
defines the bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from functools import lru_cache
from typing import Final, NamedTuple, Protocol
from uuid import UUID

from minibroker.clock import Clock
from minibroker.cluster.cluster import Cluster
from minibroker.coordinator.group.topic_expressions import MatchingTopics, TopicExpressions

_MAGIC: Final = b"\0"
_CACHED_TOPICS: Final = 1_024
_SIGN: Final = 2**63


class KnownTopic(NamedTuple):
    """A topic of the cluster."""

    topic_id: UUID
    partition_count: int
    rack: str | None = None  #: of its only replica


class Topics(Protocol):
    """The topics of the cluster."""

    @property
    def version(self) -> int:
        """A number that grows with each change of a topic."""

    @property
    def refresh_interval_ms(self) -> int:
        """How long an expression keeps its result though topics changed."""

    def matching(self, pattern: str) -> MatchingTopics | None:
        """Return the topics that a regular expression matches; None while they are not known yet."""

    def find(self, name: str) -> KnownTopic | None:
        """Return a topic; None if it does not exist."""


def metadata_hash(names: Iterable[str], topics: Topics) -> int:
    """Return the metadata hash of these topics; 0 if none exists."""
    known = [(name, topic) for name in sorted(names) if (topic := topics.find(name)) is not None]
    return _signed(_xxh3(b"".join(_hash_of(*each) for each in known))) if known else 0


def _xxh3(data: bytes) -> int:
    from xxhash import xxh3_64_intdigest  # noqa: PLC0415  not needed at start

    return xxh3_64_intdigest(data)


@lru_cache(maxsize=_CACHED_TOPICS)
def _hash_of(name: str, topic: KnownTopic) -> bytes:
    high, low = divmod(topic.topic_id.int, 2**64)
    head = _MAGIC + struct.pack("<QQ", high, low) + _text(name) + struct.pack("<i", topic.partition_count)
    rack = b"" if topic.rack is None else _length(topic.rack) + _text(topic.rack)
    return struct.pack("<Q", _xxh3(head + b"".join(struct.pack("<i", index) + rack for index in range(topic.partition_count))))


def _text(text: str) -> bytes:
    return text.encode("utf-16-le") + _length(text)


def _length(text: str) -> bytes:
    """Encode the length in UTF-16 code units, as Java counts."""
    return struct.pack("<i", len(text.encode("utf-16-le")) // 2)


def _signed(value: int) -> int:
    return value - 2 * _SIGN if value >= _SIGN else value


REFRESH_INTERVAL_MS: Final = 1_000
KAFKAS_REFRESH_INTERVAL_MS: Final = 10_000  #: with minibroker.like.kafka


class Client(Protocol):
    """What the client of a request may see and do, if the broker has an authorizer."""

    def sees(self, topic: str) -> bool:
        """Whether it may describe a topic."""

    def may_create(self, topic: str) -> bool:
        """Whether it may create a topic."""


class ClusterTopics:
    """The present topics of a cluster."""

    __slots__ = ("_cluster", "_expressions", "client", "is_restricted", "refresh_interval_ms")

    def __init__(self, cluster: Cluster, clock: Clock, *, is_restricted: bool = False) -> None:
        self._cluster = cluster
        #: an authorizer decides what members see, so that expressions are resolved only while `client` is set
        self.is_restricted = is_restricted
        self.client: Client | None = None  #: of the heartbeat that is served (dispatch/authorization/groups.py)
        self.refresh_interval_ms = KAFKAS_REFRESH_INTERVAL_MS if cluster.config.minibroker_like_kafka else REFRESH_INTERVAL_MS
        self._expressions = TopicExpressions(
            clock, lambda: cluster.topics, lambda: self.version, resolves_later=cluster.config.minibroker_like_kafka
        )

    @property
    def version(self) -> int:
        """Kafka's offset of the metadata image: grows with each change of a topic, and with other changes of the metadata log."""
        return self._cluster.metadata.last_offset

    def matching(self, pattern: str) -> MatchingTopics | None:
        """Return the topics that a regular expression matches; None while they are not known yet."""
        if not self.is_restricted:
            return self._expressions.matching(pattern)
        client = self.client
        found = None if client is None else self._expressions.matching(pattern)
        return None if client is None or found is None else found._replace(names=tuple(filter(client.sees, found.names)))

    def find(self, name: str) -> KnownTopic | None:
        """Return a topic; None if it does not exist."""
        topic = self._cluster.topics.get(name)
        return None if topic is None else KnownTopic(topic.topic_id, len(topic.partitions), self._cluster.node.rack)
