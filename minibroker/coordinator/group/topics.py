"""The topics of the cluster as groups see them, those that regular expressions match, and the metadata hash of a group's topics.

An expression is matched in slices, so that no expression blocks the event loop:

    matching(pattern)   result
    little work         the topics, immediately
    much work           the topics of the last resolution, None for a new expression; the work continues in later turns, and a later
                        call returns its result, as in Apache Kafka, where the next heartbeat of the member does

A result is kept for each expression together with the topic names that were matched. When topics
change, only new names are matched. At most MAX_EXPRESSIONS results with MAX_NAMES names are kept.
The least recently used ones are dropped first, and computed again when needed.

By the metadata hash a group detects that its topics changed.
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
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Final, NamedTuple, Protocol
from uuid import UUID

from minibroker.clock import Clock
from minibroker.cluster.cluster import Cluster
from minibroker.regular_expression import STEPS_A_SLICE, Regex

MAX_EXPRESSIONS: Final = 256
MAX_NAMES: Final = 1_000_000  #: about 40 MB
LONGEST_NAME: Final = 249  #: bytes of a topic name


class MatchingTopics(NamedTuple):
    """The topics that an expression matched, sorted, and the metadata version of that result."""

    names: tuple[str, ...]
    version: int


def check_topic_expression(pattern: str) -> None:
    """Raise InvalidRegularExpression unless `pattern` can be matched against topic names."""
    Regex(pattern, longest_text_bytes=LONGEST_NAME)


class TopicExpressions:
    """The expressions of all groups."""

    def __init__(
        self, clock: Clock, names: Callable[[], Iterable[str]], version: Callable[[], int], *, resolves_later: bool = False
    ) -> None:
        """Create the table.

        With `resolves_later` every expression counts as much work, as in Apache Kafka.
        """
        self._clock = clock
        self._resolves_later = resolves_later
        self._names = names
        self._version = version
        self._snapshot: tuple[int, frozenset[str]] = (-1, frozenset())  #: the topic names at a version; results share it
        self._results: OrderedDict[str, _Result] = OrderedDict()  #: least recently used first
        self._unfinished: OrderedDict[str, _Resolution] = OrderedDict()  #: the first one continues next

    def matching(self, pattern: str) -> MatchingTopics | None:
        """Return the topics that `pattern` matches: those of an older version while work continues, None before the first result."""
        result = self._results.get(pattern)
        if result is not None:
            self._results.move_to_end(pattern)
            if result.topics.version == self._version():
                return result.topics
        if pattern not in self._unfinished and len(self._unfinished) < MAX_EXPRESSIONS:
            resolution = _Resolution(pattern, result, self._current_names(), self._version())
            if not self._resolves_later and resolution.advance():
                return self._keep(resolution)
            if not self._unfinished:
                self._clock.call_later_ms(0, self._continue)
            self._unfinished[pattern] = resolution
        return None if result is None else result.topics

    def _current_names(self) -> frozenset[str]:
        version = self._version()
        if self._snapshot[0] != version:
            names = frozenset(self._names())
            self._snapshot = version, self._snapshot[1] if names == self._snapshot[1] else names
        return self._snapshot[1]

    def _continue(self) -> None:
        """Run one slice of the first resolution, then continue with the next one."""
        pattern, resolution = self._unfinished.popitem(last=False)
        if resolution.advance():
            self._keep(resolution)
        else:
            self._unfinished[pattern] = resolution
        if self._unfinished:
            self._clock.call_later_ms(0, self._continue)

    def _keep(self, resolution: _Resolution) -> MatchingTopics:
        result = self._results[resolution.pattern] = resolution.result()
        self._results.move_to_end(resolution.pattern)
        while len(self._results) > 1 and (len(self._results) > MAX_EXPRESSIONS or self._count_names() > MAX_NAMES):
            self._results.popitem(last=False)
        return result.topics

    def _count_names(self) -> int:
        return sum(map(len, {id(each.examined): each.examined for each in self._results.values()}.values()))


class _Result(NamedTuple):
    topics: MatchingTopics
    examined: frozenset[str]  #: the names that the expression was matched against


class _Resolution:
    """The work of matching one expression against topic names."""

    __slots__ = ("_matching", "_names", "_regex", "_rest", "_version", "pattern")

    def __init__(self, pattern: str, before: _Result | None, names: frozenset[str], version: int) -> None:
        self.pattern = pattern
        self._regex = Regex(pattern, longest_text_bytes=LONGEST_NAME)
        self._names = names
        self._version = version
        self._matching = [] if before is None else [name for name in before.topics.names if name in names]
        self._rest: Iterator[str] = iter(names if before is None else names - before.examined)

    def advance(self) -> bool:
        """Match names until one slice of work is done. Return whether all names are matched."""
        regex, steps = self._regex, 0
        for name in self._rest:
            if regex.matches(name):
                self._matching.append(name)
            steps += regex.steps(name)
            if steps >= STEPS_A_SLICE:
                return False
        return True

    def result(self) -> _Result:
        return _Result(MatchingTopics(tuple(sorted(self._matching)), self._version), self._names)


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
    """Encode the length in UTF-16 code units, as Java's String.length."""
    return struct.pack("<i", len(text.encode("utf-16-le")) // 2)


def _signed(value: int) -> int:
    return value - 2 * _SIGN if value >= _SIGN else value


REFRESH_INTERVAL_MS: Final = 1_000
KAFKAS_REFRESH_INTERVAL_MS: Final = 10_000  #: with minibroker.like.kafka


class Client(Protocol):
    """The permissions of the client of a request, if the broker has an authorizer."""

    def sees(self, topic: str) -> bool:
        """Whether it may describe a topic."""

    def may_create(self, topic: str) -> bool:
        """Whether it may create a topic."""


class ClusterTopics:
    """The present topics of a cluster."""

    __slots__ = ("_cluster", "_expressions", "client", "is_restricted", "refresh_interval_ms")

    def __init__(self, cluster: Cluster, clock: Clock, *, is_restricted: bool = False) -> None:
        self._cluster = cluster
        #: an authorizer decides which topics members see; expressions are then resolved only while `client` is set
        self.is_restricted = is_restricted
        self.client: Client | None = None  #: the client whose heartbeat is being served (dispatch/authorization/groups.py)
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
