"""Fetch sessions (KIP-227): a client sends its partitions once, and then both sides send only changes.

    request (session_id, session_epoch)          effect
    (0, -1)                                      no session: every partition in request and response
    (0, 0)                                       opens a session if there is room; the answer has its id
    (id, 0)                                      closes it and opens another
    (id, n), n the epoch that is expected        incremental; the epoch counts up, from 2**31 - 1 back to 1
    (id, -1)                                     closes it; served as without a session
    (id, n), no such session                     FETCH_SESSION_ID_NOT_FOUND
    (id, n), another epoch                       INVALID_FETCH_SESSION_EPOCH
    (id, n), topic ids instead of names or v.v.  FETCH_SESSION_TOPIC_ID_ERROR

An incremental response has the partitions with records, an error, or a high watermark or log start
offset that differs from the last response. A partition that returned records moves to the end of
the order, so that every partition has its turn.

A partition is **settled** when the client has all its records. It is not read again until it moves:
the session subscribes to it (Partition.subscribe). The cost of a request therefore depends on the
changes, not on the number of partitions. If no request waits in a session, each partition notifies
it once and unsubscribes it, so that an abandoned session costs producers nothing.

A request or session of more than AT_ONCE_MAX partitions is served in slices (`context_in_slices`).

Limits: max.incremental.fetch.session.cache.slots sessions. A new session replaces the least
recently used one if that was last used more than EVICTION_MS ago, else the smallest of those older
than EVICTION_MS if the new one is larger. All sessions together have at most PARTITIONS_MAX
partitions, which Kafka does not limit. A client that gets no session is served without one, with
longer answers. Sources: Kafka's FetchManager, FetchSession, FetchSessionCacheShard.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from itertools import count
from operator import attrgetter
from typing import Any, ClassVar, Final, Protocol, TypeVar
from uuid import UUID

from minibroker.clock import Clock
from minibroker.cluster.partition import Partition, Subscribers
from minibroker.dispatch.context import Services
from minibroker.errors import FetchSessionIdNotFound, FetchSessionTopicIdError, InvalidFetchSessionEpoch
from minibroker.schemas import k01_fetch as schema

NO_SESSION: Final = 0
OPENING_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
_MAX_EPOCH: Final = 2**31 - 1
_NOT_INCREMENTAL: Final = frozenset({FINAL_EPOCH, OPENING_EPOCH})
PARTITIONS_MAX: Final = 100_000  #: of all sessions; each takes a kilobyte
AT_ONCE_MAX: Final = 1000  #: partitions of a request, or of its session, that are served in one turn of the loop
STEP: Final = 50  #: partitions between two pauses
EVICTION_MS: Final = 120_000  #: min.incremental.fetch.session.eviction.ms

TopicKey = str | UUID  #: name before version 13, topic id from then on
RequestedPartition = tuple[TopicKey, schema.Partition]
PartitionAnswer = tuple[TopicKey, schema.PartitionResult]
T = TypeVar("T")


class ManyPartitions(Exception):  # noqa: N818  not an error: the request has to be served in slices
    """The request has more partitions than are served at once. Nothing has changed."""


class SessionPartition:
    """One partition of a session: the entry of the client's request, and the offsets in the last response."""

    __slots__ = ("_partition", "_unsubscribe", "entry", "high_watermark", "log_start_offset", "topic", "turn")

    def __init__(self, topic: TopicKey, entry: schema.Partition, turn: int) -> None:
        self.topic = topic
        self.entry = entry
        self.high_watermark = -1
        self.log_start_offset = -1
        self.turn = turn  #: position in the order in which the session's partitions are served
        self._partition: Partition | None = None
        self._unsubscribe: Callable[[], None] | None = None  #: None: not subscribed

    def watch(self, partition: Partition, session: FetchSession) -> None:
        """Notify `session` of moves. Only the partition refers to it: a closed one leaves no cycle."""
        if self._unsubscribe is None or self._partition is not partition:
            self.forget()
            self._partition = partition
            self._unsubscribe = partition.subscribe(lambda: self._moved(session))

    def forget(self) -> None:
        """Unsubscribe."""
        if self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = self._partition = None

    def _moved(self, session: FetchSession) -> None:
        is_lost = self._partition is not None and self._partition.online_log is None
        if not session.moved(self, is_lost=is_lost):
            self.forget()

    def note(self, result: schema.PartitionResult) -> bool:
        """Remember `result` as known to the client. Returns whether it is new."""
        is_news = (
            bool(result.records)
            or result.error_code != 0
            or result.high_watermark != self.high_watermark
            or result.log_start_offset != self.log_start_offset
            or result.diverging_epoch.epoch >= 0
        )
        # After an error the partition is in the next response without one.
        self.high_watermark = -1 if result.error_code else result.high_watermark
        self.log_start_offset = result.log_start_offset
        return is_news


class FetchSession:
    """The partitions of one client, and the order in which unsettled ones are served."""

    __slots__ = (
        "_is_closed", "_turns", "_unsettled", "_waiting", "access", "created_ms", "epoch", "isolation_level", "lost", "partitions",
        "session_id", "used_ms", "uses_topic_ids",
    )  # fmt: skip

    def __init__(self, session_id: int, uses_topic_ids: bool, now_ms: int) -> None:
        self.session_id = session_id
        self.uses_topic_ids = uses_topic_ids
        self.epoch = 1  #: the epoch of the next request
        self.created_ms = now_ms
        self.used_ms = now_ms
        self.partitions: dict[tuple[TopicKey, int], SessionPartition] = {}
        self.isolation_level = 0  #: of the last request; a partition that is settled for one level may not be for the other
        self.lost = False  #: a partition was deleted, or its disk failed, since the last request
        self._is_closed = False  #: a waiting request may still be answered
        self._unsettled: dict[tuple[TopicKey, int], SessionPartition] = {}
        self._turns = count()
        self._waiting = Subscribers()  #: called when a partition moves
        self.access: Any = None  #: the topics that the client may not read (dispatch/authorization/records.py)

    @property
    def has_settled(self) -> bool:
        """Whether any partition is settled."""
        return len(self._unsettled) < len(self.partitions)

    def unsettled(self) -> list[RequestedPartition]:
        """Return the partitions that are not settled, in order."""
        unsettled = list(self._unsettled.values())
        if len(unsettled) > 1:
            unsettled.sort(key=attrgetter("turn"))
        return [(each.topic, each.entry) for each in unsettled]

    def settle(self, topic: TopicKey, partition: Partition) -> None:
        """Stop reading a partition until it moves, because the client has all its records."""
        key = topic, partition.index
        known = self.partitions.get(key)
        if known is not None and not self._is_closed:
            known.watch(partition, self)
            self._unsettled.pop(key, None)

    def watch(self, topic: TopicKey, partition: Partition) -> None:
        """Subscribe to a partition that is not settled as well."""
        known = self.partitions.get((topic, partition.index))
        if known is not None:
            known.watch(partition, self)

    def moved(self, known: SessionPartition, *, is_lost: bool) -> bool:
        """Read a partition again that has moved. Returns whether the session stays subscribed."""
        self._unsettled[known.topic, known.entry.partition] = known
        self.lost = self.lost or is_lost
        self._waiting.wake()
        return bool(self._waiting)

    def look_again(self, topic: TopicKey, index: int) -> None:
        """Read a partition again, although it has not moved."""
        known = self.partitions.get((topic, index))
        if known is not None:
            self._unsettled[topic, index] = known

    def include_again(self, topic: TopicKey, index: int) -> None:
        """Include a partition in the next response, even without changes."""
        self.look_again(topic, index)
        known = self.partitions.get((topic, index))
        if known is not None:
            known.high_watermark = -1

    def subscribe(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` when a watched partition moves. Returns a function that unsubscribes."""
        return self._waiting.subscribe(callback)

    def begin(self, isolation_level: int) -> None:
        """Start a request in the session."""
        self.lost = False
        if isolation_level != self.isolation_level:
            self.isolation_level = isolation_level
            self._unsettled.update(self.partitions)

    def close(self) -> Iterator[None]:
        """Close the session. Returns steps that each unsubscribe from AT_ONCE_MAX partitions."""
        self._is_closed = self.lost = True
        self._waiting.wake()
        return self._forget_all()

    def _forget_all(self) -> Iterator[None]:
        for number, known in enumerate(list(self.partitions.values())):
            if number and not number % AT_ONCE_MAX:
                yield
            known.forget()

    def update(self, added: Iterable[RequestedPartition], forgotten: Iterable[tuple[TopicKey, int]]) -> None:
        """Apply the new, changed and forgotten partitions of a request."""
        for topic, entry in added:
            key = topic, entry.partition
            known = self.partitions.get(key)
            if known is None:
                known = self.partitions[key] = SessionPartition(topic, entry, next(self._turns))
            else:
                known.entry = entry
            self._unsettled[key] = known
        for key in forgotten:
            known = self.partitions.pop(key, None)
            if known is not None:
                known.forget()
                self._unsettled.pop(key, None)

    def changed(self, results: Iterable[PartitionAnswer]) -> Iterator[PartitionAnswer]:
        """Yield the results that are new. Partitions with records move to the end of the order."""
        for topic, result in results:
            key = (topic, result.partition_index)
            known = self.partitions.get(key)
            if known is None:
                continue
            if result.records:
                known.turn = next(self._turns)
            if known.note(result):
                yield topic, result


class FetchContext(Protocol):
    """The way in which one Fetch is served: the partitions to read, and the results in the response."""

    @property
    def session(self) -> FetchSession | None:
        """The session in which partitions settle."""

    def partitions(self) -> list[RequestedPartition]:
        """Return the partitions to read, in order."""

    def answer(self, results: list[PartitionAnswer]) -> tuple[int, list[PartitionAnswer]]:
        """Return the session id and results of the response. Called once, when it is sent."""

    def answer_in_slices(self, results: list[PartitionAnswer]) -> Generator[None, None, tuple[int, list[PartitionAnswer]]]:
        """Do the same as `answer`, with pauses."""

    def answer_nothing(self) -> int:
        """Return the session id of an empty response, for a client above its quota."""


class Sessionless:
    """A request without a session: every requested partition is in the response."""

    __slots__ = ("_entries",)

    session: ClassVar[None] = None

    def __init__(self, entries: list[RequestedPartition]) -> None:
        self._entries = entries

    def partitions(self) -> list[RequestedPartition]:
        """Return the partitions of the request."""
        return self._entries

    def answer(self, results: list[PartitionAnswer]) -> tuple[int, list[PartitionAnswer]]:
        """Return all results, without a session."""
        return NO_SESSION, results

    def answer_in_slices(self, results: list[PartitionAnswer]) -> Generator[None, None, tuple[int, list[PartitionAnswer]]]:
        """Do the same as `answer`."""
        yield
        return NO_SESSION, results

    def answer_nothing(self) -> int:
        """Return NO_SESSION."""
        return NO_SESSION


class Opening:
    """A request that opens a session if there is room: all results are in the response."""

    __slots__ = ("_cache", "_entries", "_isolation_level", "_uses_topic_ids", "session")

    def __init__(self, cache: FetchSessionCache, entries: list[RequestedPartition], uses_topic_ids: bool, isolation_level: int) -> None:
        self.session: FetchSession | None = None  #: opened by the response
        self._cache = cache
        self._entries = entries
        self._uses_topic_ids = uses_topic_ids
        self._isolation_level = isolation_level

    def partitions(self) -> list[RequestedPartition]:
        """Return the partitions of the request."""
        return self._entries

    def answer(self, results: list[PartitionAnswer]) -> tuple[int, list[PartitionAnswer]]:
        """Open a session if the cache has room. Returns its id."""
        session = self.session = self._cache.open(self._entries, self._uses_topic_ids, self._isolation_level)
        if session is None:
            return NO_SESSION, results
        for topic, result in results:
            session.partitions[topic, result.partition_index].note(result)
        return session.session_id, results

    def answer_in_slices(self, results: list[PartitionAnswer]) -> Generator[None, None, tuple[int, list[PartitionAnswer]]]:
        """Do the same as `answer`, with pauses."""
        session = self.session = yield from self._cache.open_in_slices(self._entries, self._uses_topic_ids, self._isolation_level)
        if session is None:
            return NO_SESSION, results
        for part in _parts(results):
            for topic, result in part:
                known = session.partitions.get((topic, result.partition_index))
                if known is not None:
                    known.note(result)
            yield
        return session.session_id, results

    def answer_nothing(self) -> int:
        """Open no session, because clients repeat a request whose first response is empty."""
        return NO_SESSION


class Incremental:
    """A request in a session: its unsettled partitions are read, and new results are in the response."""

    __slots__ = ("_epoch", "session")

    def __init__(self, session: FetchSession) -> None:
        self.session = session
        self._epoch = session.epoch

    def partitions(self) -> list[RequestedPartition]:
        """Return the unsettled partitions of the session."""
        return self.session.unsettled()

    def answer(self, results: list[PartitionAnswer]) -> tuple[int, list[PartitionAnswer]]:
        """Return the new results. Raises InvalidFetchSessionEpoch after another request."""
        return self.answer_nothing(), list(self.session.changed(results))

    def answer_in_slices(self, results: list[PartitionAnswer]) -> Generator[None, None, tuple[int, list[PartitionAnswer]]]:
        """Do the same as `answer`, with pauses."""
        answers: list[PartitionAnswer] = []
        for part in _parts(results):
            self.answer_nothing()
            answers += self.session.changed(part)
            yield
        return self.answer_nothing(), answers

    def answer_nothing(self) -> int:
        """Return the session id. Raises InvalidFetchSessionEpoch as `answer` does."""
        if self.session.epoch != self._epoch:
            raise InvalidFetchSessionEpoch
        return self.session.session_id


class FetchSessionCache:
    """All sessions of a broker."""

    def __init__(self, clock: Clock, slot_count: int, new_id: Callable[[], int] = lambda: random.randint(1, _MAX_EPOCH)) -> None:  # noqa: S311  no secret
        self._clock = clock
        self._slot_count = slot_count
        self._new_id = new_id
        self._sessions: dict[int, FetchSession] = {}  #: least recently used first
        self.partition_count = self.evictions = 0  #: partitions in all sessions; sessions that were evicted since the start
        self._closing: deque[Iterator[None]] = deque()  #: closed sessions that are still subscribed to partitions

    def __len__(self) -> int:
        return len(self._sessions)

    def context(self, request: schema.Request, *, uses_topic_ids: bool) -> FetchContext:
        """Return the context in which `request` is served.

        Raises:
            FetchSessionIdNotFound, InvalidFetchSessionEpoch, FetchSessionTopicIdError: see the table above.
            ManyPartitions: call `context_in_slices` instead.
        """
        if request.session_epoch in _NOT_INCREMENTAL:
            entries = entries_in(request, uses_topic_ids)
            if request.session_id in self._sessions:
                self._close(request.session_id)
            if request.session_epoch == FINAL_EPOCH:
                return Sessionless(entries)
            return Opening(self, entries, uses_topic_ids, request.isolation_level)
        session = self._expected(request, uses_topic_ids)
        entries = entries_in(request, uses_topic_ids)
        if len(session.partitions) > AT_ONCE_MAX:
            raise ManyPartitions
        session.begin(request.isolation_level)
        if entries or request.forgotten_topics_data:
            self._update(session, entries, forgotten_in(request, uses_topic_ids))
        if not session.partitions:
            self._close(session.session_id)
            return Sessionless(entries)
        session.epoch = 1 if session.epoch == _MAX_EPOCH else session.epoch + 1
        self._touch(session)
        return Incremental(session)

    def context_in_slices(self, request: schema.Request, *, uses_topic_ids: bool) -> Generator[None, None, FetchContext]:
        """Do the same, with pauses. Raises FetchSessionIdNotFound if the session was closed in one."""
        if request.session_epoch in _NOT_INCREMENTAL:
            entries = yield from _entries_in_slices(request, uses_topic_ids)
            if request.session_id in self._sessions:
                self._close(request.session_id)
            if request.session_epoch == FINAL_EPOCH:
                return Sessionless(entries)
            return Opening(self, entries, uses_topic_ids, request.isolation_level)
        entries = yield from _entries_in_slices(request, uses_topic_ids)
        session = self._expected(request, uses_topic_ids)
        session.begin(request.isolation_level)
        session.epoch = 1 if session.epoch == _MAX_EPOCH else session.epoch + 1  # no other request can use this epoch
        context = Incremental(session)
        self._touch(session)
        for part in _parts(entries):
            self._update(session, part, [])
            yield
            self._check_is_open(session)
        for topics in _parts(request.forgotten_topics_data):
            for topic in topics:
                key = topic.topic_id if uses_topic_ids else topic.topic
                for indexes in _parts(topic.partitions):
                    self._update(session, [], [(key, index) for index in indexes])
                    if len(indexes) == STEP:
                        yield
                        self._check_is_open(session)
            yield
            self._check_is_open(session)
        if not session.partitions:
            self._close(session.session_id)
            return Sessionless(entries)
        return context

    def _expected(self, request: schema.Request, uses_topic_ids: bool) -> FetchSession:
        """Return the session that a request names. Raises the errors of `context`."""
        session = self._sessions.get(request.session_id)
        if session is None:
            raise FetchSessionIdNotFound
        if session.epoch != request.session_epoch:
            raise InvalidFetchSessionEpoch
        if session.uses_topic_ids != uses_topic_ids:
            raise FetchSessionTopicIdError
        return session

    def _check_is_open(self, session: FetchSession) -> None:
        if self._sessions.get(session.session_id) is not session:
            raise FetchSessionIdNotFound

    def get(self, session_id: int) -> FetchSession | None:
        """Return an open session; None if the id is unknown."""
        return self._sessions.get(session_id)

    def open(self, entries: list[RequestedPartition], uses_topic_ids: bool, isolation_level: int) -> FetchSession | None:
        """Open a session. Returns None if there is no room."""
        session = self._reserve(len(entries), uses_topic_ids, isolation_level)
        if session is not None:
            self._update(session, entries, [])
        return session

    def open_in_slices(
        self, entries: list[RequestedPartition], uses_topic_ids: bool, isolation_level: int
    ) -> Generator[None, None, FetchSession | None]:
        """Do the same, with pauses. Also returns None if the session was closed in one."""
        session = self._reserve(len(entries), uses_topic_ids, isolation_level)
        if session is None:
            return None
        for part in _parts(entries):
            try:
                self._update(session, part, [])
            except FetchSessionIdNotFound:  # other sessions took the room
                return None
            yield
            if self._sessions.get(session.session_id) is not session:
                return None
        return session

    def _reserve(self, size: int, uses_topic_ids: bool, isolation_level: int) -> FetchSession | None:
        """Create an empty session for `size` partitions if there is room."""
        now_ms = self._clock.now_ms()
        if not self._has_room(size, now_ms):
            return None
        session_id = self._new_id()
        while session_id in self._sessions or session_id == NO_SESSION:
            session_id = self._new_id()
        session = self._sessions[session_id] = FetchSession(session_id, uses_topic_ids, now_ms)
        session.begin(isolation_level)
        return session

    def _update(self, session: FetchSession, entries: Sequence[RequestedPartition], forgotten: list[tuple[TopicKey, int]]) -> None:
        """Apply a request. If the session grows too large, close it: FetchSessionIdNotFound."""
        before = len(session.partitions)
        session.update(entries, forgotten)
        grown = len(session.partitions) - before
        self.partition_count += grown
        if grown > 0 and self.partition_count > PARTITIONS_MAX:
            self._close(session.session_id)
            raise FetchSessionIdNotFound

    def _has_room(self, size: int, now_ms: int) -> bool:
        """Make room for a session of `size` partitions by closing others, and return whether there is room."""
        if size > PARTITIONS_MAX:
            return False
        while self.partition_count + size > PARTITIONS_MAX:
            if not self._evict(size, now_ms):
                return False
        return len(self._sessions) < self._slot_count or self._evict(size, now_ms)

    def _touch(self, session: FetchSession) -> None:
        session.used_ms = self._clock.now_ms()
        self._sessions[session.session_id] = self._sessions.pop(session.session_id)

    def _evict(self, size: int, now_ms: int) -> bool:
        """Close one session to make room for one of `size` partitions, if the rules allow it."""
        if not self._sessions:
            return False
        oldest = next(iter(self._sessions.values()))
        if now_ms - oldest.used_ms > EVICTION_MS:
            self._close(oldest.session_id, is_evicted=True)
            return True
        # As in Kafka, the age at the last use counts: a session that was young then cannot be
        # evicted until it is used again.
        evictable = [session for session in self._sessions.values() if session.used_ms - session.created_ms > EVICTION_MS]
        smallest = min(evictable, key=lambda session: len(session.partitions), default=None)
        if smallest is None or len(smallest.partitions) >= size:
            return False
        self._close(smallest.session_id, is_evicted=True)
        return True

    def _close(self, session_id: int, *, is_evicted: bool = False) -> None:
        self.evictions += is_evicted
        session = self._sessions.pop(session_id)
        self.partition_count -= len(session.partitions)
        self._closing.append(session.close())
        if len(self._closing) == 1:
            self._continue_closing()

    def _continue_closing(self) -> None:
        """Do one step now and the next one in another turn of the loop: a large session takes tens of milliseconds."""
        while self._closing:
            for _ in self._closing[0]:
                self._clock.call_later_ms(0, self._continue_closing)
                return
            self._closing.popleft()


def open_cache(broker: Services) -> FetchSessionCache:
    """Create the fetch sessions of a broker, at its first Fetch."""
    sessions = broker.fetch_sessions = FetchSessionCache(broker.clock, broker.config.max_incremental_fetch_session_cache_slots)
    return sessions


def entries_in(request: schema.Request, uses_topic_ids: bool) -> list[RequestedPartition]:
    """Return the partitions of a request, in its order.

    A repeated partition has the last value, in the place of the first.
    Raises ManyPartitions if there are more than AT_ONCE_MAX.
    """
    if uses_topic_ids:
        entries: list[RequestedPartition] = [(topic.topic_id, partition) for topic in request.topics for partition in topic.partitions]
    else:
        entries = [(topic.topic, partition) for topic in request.topics for partition in topic.partitions]
    if len(entries) < 2:
        return entries
    if len(entries) > AT_ONCE_MAX:
        raise ManyPartitions
    return list({(topic, partition.partition): (topic, partition) for topic, partition in entries}.values())


def forgotten_in(request: schema.Request, uses_topic_ids: bool) -> list[tuple[TopicKey, int]]:
    """Return the partitions that a request removes from its session."""
    forgotten = request.forgotten_topics_data
    if not forgotten:
        return []
    if len(forgotten) + sum(len(topic.partitions) for topic in forgotten) > AT_ONCE_MAX:
        raise ManyPartitions
    if uses_topic_ids:
        return [(topic.topic_id, partition) for topic in forgotten for partition in topic.partitions]
    return [(topic.topic, partition) for topic in forgotten for partition in topic.partitions]


def _entries_in_slices(request: schema.Request, uses_topic_ids: bool) -> Generator[None, None, list[RequestedPartition]]:
    """Do the same as `entries_in`, for any number of partitions, with pauses."""
    found: dict[tuple[TopicKey, int], RequestedPartition] = {}
    for topics in _parts(request.topics):
        for topic in topics:
            key = topic.topic_id if uses_topic_ids else topic.topic
            for part in _parts(topic.partitions):
                for partition in part:
                    found[key, partition.partition] = key, partition
                if len(part) == STEP:
                    yield
        yield
    return list(found.values())


def _parts(elements: Sequence[T]) -> Iterator[Sequence[T]]:
    """Yield the elements in parts, between which to pause."""
    for start in range(0, len(elements), STEP):
        yield elements[start : start + STEP]
