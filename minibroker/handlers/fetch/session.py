"""Fetch sessions (KIP-227): a client names its partitions once; after that both sides send only what has changed.

    request (session_id, session_epoch)          what it does
    (0, -1)                                      no session: every partition in request and response
    (0, 0)                                       opens one, if there is room: the answer carries its id
    (id, 0)                                      closes it and opens another
    (id, n), n the epoch that is expected        incremental; the epoch counts up, from 2**31 - 1 back to 1
    (id, -1)                                     closes it; served as without a session
    (id, n), no such session                     FETCH_SESSION_ID_NOT_FOUND
    (id, n), another epoch                       INVALID_FETCH_SESSION_EPOCH
    (id, n), topic ids where names were, or v.v. FETCH_SESSION_TOPIC_ID_ERROR

An incremental response holds the partitions that have records, an error, or another high watermark or log start offset
than the client was told last. A partition that gave records goes to the end of the line, so that all have their turn.

A partition is **settled** when the client was told all that there is of it. From then on it is not looked at until it moves: it tells the
session itself (Partition.subscribe). So a request costs what has changed, however many partitions there are. A session that nobody waits
in is told once by each of its partitions and then no more: one whose client is gone costs producers nothing.

A request of more than AT_ONCE_MAX partitions, or in a session of more, is served in slices (`FetchSessionCache.context_in_slices`).

Limits: max.incremental.fetch.session.cache.slots sessions. For a new one, the session unused for longest goes if that is
more than EVICTION_MS ago; else the smallest of those older than EVICTION_MS, if the new one is larger. All sessions together hold at
most PARTITIONS_MAX partitions, which Kafka does not limit: a client for which there is no room is served without a session, which
costs it longer answers and nothing more. Sources: Kafka's FetchManager, FetchSession, FetchSessionCacheShard.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from itertools import count
from operator import attrgetter
from typing import ClassVar, Final, Protocol, TypeVar
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
Asked = tuple[TopicKey, schema.Partition]
Result = tuple[TopicKey, schema.PartitionResult]
T = TypeVar("T")


class ManyPartitions(Exception):  # noqa: N818  not an error: the request has to be served in slices
    """A request is about more partitions than are served at once; nothing was done."""


class Told:
    """One partition of a session: what the client asks of it, and what it was told last."""

    __slots__ = ("_partition", "_unsubscribe", "asked", "high_watermark", "log_start_offset", "topic", "turn")

    def __init__(self, topic: TopicKey, asked: schema.Partition, turn: int) -> None:
        self.topic = topic
        self.asked = asked
        self.high_watermark = -1
        self.log_start_offset = -1
        self.turn = turn  #: place in the order in which the session's partitions are served
        self._partition: Partition | None = None
        self._unsubscribe: Callable[[], None] | None = None  #: None: its moves are not heard of

    def watch(self, partition: Partition, session: FetchSession) -> None:
        """Hear of its moves from now on, for `session`: held by the partition alone, so that a session that is over is no garbage."""
        if self._unsubscribe is None or self._partition is not partition:
            self.forget()
            self._partition = partition
            self._unsubscribe = partition.subscribe(lambda: self._moved(session))

    def forget(self) -> None:
        """Hear of it no more."""
        if self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = self._partition = None

    def _moved(self, session: FetchSession) -> None:
        is_lost = self._partition is not None and self._partition.online_log is None
        if not session.moved(self, is_lost=is_lost):
            self.forget()

    def tell(self, result: schema.PartitionResult) -> bool:
        """Note what the client is told by `result`; whether there is anything to tell."""
        is_news = (
            bool(result.records)
            or result.error_code != 0
            or result.high_watermark != self.high_watermark
            or result.log_start_offset != self.log_start_offset
            or result.diverging_epoch.epoch >= 0
        )
        # After an error the partition is told again as soon as the error is gone.
        self.high_watermark = -1 if result.error_code else result.high_watermark
        self.log_start_offset = result.log_start_offset
        return is_news


class FetchSession:
    """The partitions of one client, those that are not settled in the order in which they are served."""

    __slots__ = (
        "_is_closed", "_turns", "_unsettled", "_waiting", "created_ms", "epoch", "isolation_level", "lost", "partitions", "session_id",
        "used_ms", "uses_topic_ids",
    )  # fmt: skip

    def __init__(self, session_id: int, uses_topic_ids: bool, now_ms: int) -> None:
        self.session_id = session_id
        self.uses_topic_ids = uses_topic_ids
        self.epoch = 1  #: that the next request must carry
        self.created_ms = now_ms
        self.used_ms = now_ms
        self.partitions: dict[tuple[TopicKey, int], Told] = {}
        self.isolation_level = 0  #: of the last request: what is settled for one level may not be for the other
        self.lost = False  #: a partition was deleted, or its disk failed, since the last request
        self._is_closed = False  #: a request that waited may still be answered, and nobody else asks
        self._unsettled: dict[tuple[TopicKey, int], Told] = {}
        self._turns = count()
        self._waiting = Subscribers()  #: whom to tell of a partition that moved

    @property
    def has_settled(self) -> bool:
        """Whether there are partitions of which everything is told."""
        return len(self._unsettled) < len(self.partitions)

    def in_line(self) -> list[Asked]:
        """What is not settled, in order."""
        unsettled = list(self._unsettled.values())
        if len(unsettled) > 1:
            unsettled.sort(key=attrgetter("turn"))
        return [(told.topic, told.asked) for told in unsettled]

    def settle(self, topic: TopicKey, partition: Partition) -> None:
        """Everything that there is of a partition is told."""
        key = topic, partition.index
        told = self.partitions.get(key)
        if told is not None and not self._is_closed:
            told.watch(partition, self)
            self._unsettled.pop(key, None)

    def watch(self, topic: TopicKey, partition: Partition) -> None:
        """Hear of a partition that is not settled, too."""
        told = self.partitions.get((topic, partition.index))
        if told is not None:
            told.watch(partition, self)

    def moved(self, told: Told, *, is_lost: bool) -> bool:
        """A partition moved; whether the session wants to hear of it again."""
        self._unsettled[told.topic, told.asked.partition] = told
        self.lost = self.lost or is_lost
        self._waiting.wake()
        return bool(self._waiting)

    def look_again(self, topic: TopicKey, index: int) -> None:
        """A partition has something to tell that it does not tell itself."""
        told = self.partitions.get((topic, index))
        if told is not None:
            self._unsettled[topic, index] = told

    def tell_again(self, topic: TopicKey, index: int) -> None:
        """The next answer is to hold a partition, also without news of its records."""
        self.look_again(topic, index)
        told = self.partitions.get((topic, index))
        if told is not None:
            told.high_watermark = -1

    def subscribe(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` when a partition that is watched moves; returns what ends it (harmless twice)."""
        return self._waiting.subscribe(callback)

    def begin(self, isolation_level: int) -> None:
        """A request within the session begins."""
        self.lost = False
        if isolation_level != self.isolation_level:
            self.isolation_level = isolation_level
            self._unsettled.update(self.partitions)

    def close(self) -> Iterator[None]:
        """End the session; a request that waits in it is answered.

        Returns:
            What unsubscribes from its partitions, AT_ONCE_MAX at each step.
        """
        self._is_closed = self.lost = True
        self._waiting.wake()
        return self._forget_all()

    def _forget_all(self) -> Iterator[None]:
        for number, told in enumerate(list(self.partitions.values())):
            if number and not number % AT_ONCE_MAX:
                yield
            told.forget()

    def update(self, added: Iterable[Asked], forgotten: Iterable[tuple[TopicKey, int]]) -> None:
        """Apply a request: new and changed partitions, and those to forget."""
        for topic, asked in added:
            key = topic, asked.partition
            told = self.partitions.get(key)
            if told is None:
                told = self.partitions[key] = Told(topic, asked, next(self._turns))
            else:
                told.asked = asked
            self._unsettled[key] = told
        for key in forgotten:
            told = self.partitions.pop(key, None)
            if told is not None:
                told.forget()
                self._unsettled.pop(key, None)

    def changed(self, results: Iterable[Result]) -> Iterator[Result]:
        """Those results that the client must be told; partitions with records go to the end of the line."""
        for topic, result in results:
            key = (topic, result.partition_index)
            told = self.partitions.get(key)
            if told is None:
                continue
            if result.records:
                told.turn = next(self._turns)
            if told.tell(result):
                yield topic, result


class FetchContext(Protocol):
    """How one Fetch request is served: which partitions, and what of the results is answered."""

    @property
    def session(self) -> FetchSession | None:
        """Where partitions settle."""

    def partitions(self) -> list[Asked]:
        """What to read, in order."""

    def answer(self, results: list[Result]) -> tuple[int, list[Result]]:
        """The session id to answer and the results to tell; called once, when the answer leaves."""

    def answer_in_slices(self, results: list[Result]) -> Generator[None, None, tuple[int, list[Result]]]:
        """As `answer`, with pauses."""

    def answer_nothing(self) -> int:
        """The session id of an answer without partitions, to a client above its quota; its session stays as it was, or unopened."""


class Sessionless:
    """Every partition that was asked for, all of them answered."""

    __slots__ = ("_asked",)

    session: ClassVar[None] = None

    def __init__(self, asked: list[Asked]) -> None:
        self._asked = asked

    def partitions(self) -> list[Asked]:
        """As in the request."""
        return self._asked

    def answer(self, results: list[Result]) -> tuple[int, list[Result]]:
        """No session, everything."""
        return NO_SESSION, results

    def answer_in_slices(self, results: list[Result]) -> Generator[None, None, tuple[int, list[Result]]]:
        """As `answer`."""
        yield
        return NO_SESSION, results

    def answer_nothing(self) -> int:
        """No session."""
        return NO_SESSION


class Opening:
    """The request that may open a session: everything is answered."""

    __slots__ = ("_asked", "_cache", "_isolation_level", "_uses_topic_ids", "session")

    def __init__(self, cache: FetchSessionCache, asked: list[Asked], uses_topic_ids: bool, isolation_level: int) -> None:
        self.session: FetchSession | None = None  #: opened by the answer
        self._cache = cache
        self._asked = asked
        self._uses_topic_ids = uses_topic_ids
        self._isolation_level = isolation_level

    def partitions(self) -> list[Asked]:
        """As in the request."""
        return self._asked

    def answer(self, results: list[Result]) -> tuple[int, list[Result]]:
        """The id of a new session, or none when the cache is full."""
        session = self.session = self._cache.open(self._asked, self._uses_topic_ids, self._isolation_level)
        if session is None:
            return NO_SESSION, results
        for topic, result in results:
            session.partitions[topic, result.partition_index].tell(result)
        return session.session_id, results

    def answer_in_slices(self, results: list[Result]) -> Generator[None, None, tuple[int, list[Result]]]:
        """As `answer`, with pauses."""
        session = self.session = yield from self._cache.open_in_slices(self._asked, self._uses_topic_ids, self._isolation_level)
        if session is None:
            return NO_SESSION, results
        for part in _parts(results):
            for topic, result in part:
                told = session.partitions.get((topic, result.partition_index))
                if told is not None:
                    told.tell(result)
            yield
        return session.session_id, results

    def answer_nothing(self) -> int:
        """None is opened: clients take an empty first answer for one that they have to ask for again."""
        return NO_SESSION


class Incremental:
    """A request within a session: its partitions, and of the results those that are news."""

    __slots__ = ("_epoch", "session")

    def __init__(self, session: FetchSession) -> None:
        self.session = session
        self._epoch = session.epoch

    def partitions(self) -> list[Asked]:
        """Those of the session's that are not settled."""
        return self.session.in_line()

    def answer(self, results: list[Result]) -> tuple[int, list[Result]]:
        """What is news; InvalidFetchSessionEpoch when another request went on with the session meanwhile."""
        return self.answer_nothing(), list(self.session.changed(results))

    def answer_in_slices(self, results: list[Result]) -> Generator[None, None, tuple[int, list[Result]]]:
        """As `answer`, with pauses."""
        told: list[Result] = []
        for part in _parts(results):
            self.answer_nothing()
            told += self.session.changed(part)
            yield
        return self.answer_nothing(), told

    def answer_nothing(self) -> int:
        """The session's id; InvalidFetchSessionEpoch as above."""
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
        self._partition_count = 0  #: in all sessions
        self._closing: deque[Iterator[None]] = deque()  #: sessions that are over and still subscribed to partitions

    def __len__(self) -> int:
        return len(self._sessions)

    def context(self, request: schema.Request, *, uses_topic_ids: bool) -> FetchContext:
        """How to serve `request`.

        Raises:
            FetchSessionIdNotFound, InvalidFetchSessionEpoch, FetchSessionTopicIdError: see the table above.
            ManyPartitions: `context_in_slices` must be asked.
        """
        if request.session_epoch in _NOT_INCREMENTAL:
            asked = asked_in(request, uses_topic_ids)
            if request.session_id in self._sessions:
                self._close(request.session_id)
            if request.session_epoch == FINAL_EPOCH:
                return Sessionless(asked)
            return Opening(self, asked, uses_topic_ids, request.isolation_level)
        session = self._expected(request, uses_topic_ids)
        asked = asked_in(request, uses_topic_ids)
        if len(session.partitions) > AT_ONCE_MAX:
            raise ManyPartitions
        session.begin(request.isolation_level)
        if asked or request.forgotten_topics_data:
            self._update(session, asked, forgotten_in(request, uses_topic_ids))
        if not session.partitions:
            self._close(session.session_id)
            return Sessionless(asked)
        session.epoch = 1 if session.epoch == _MAX_EPOCH else session.epoch + 1
        self._touch(session)
        return Incremental(session)

    def context_in_slices(self, request: schema.Request, *, uses_topic_ids: bool) -> Generator[None, None, FetchContext]:
        """As `context`, with pauses. Another request may end the session meanwhile: FetchSessionIdNotFound."""
        if request.session_epoch in _NOT_INCREMENTAL:
            asked = yield from _asked_in_slices(request, uses_topic_ids)
            if request.session_id in self._sessions:
                self._close(request.session_id)
            if request.session_epoch == FINAL_EPOCH:
                return Sessionless(asked)
            return Opening(self, asked, uses_topic_ids, request.isolation_level)
        asked = yield from _asked_in_slices(request, uses_topic_ids)
        session = self._expected(request, uses_topic_ids)
        session.begin(request.isolation_level)
        session.epoch = 1 if session.epoch == _MAX_EPOCH else session.epoch + 1  # no other request is served by this epoch
        context = Incremental(session)
        self._touch(session)
        for part in _parts(asked):
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
            return Sessionless(asked)
        return context

    def _expected(self, request: schema.Request, uses_topic_ids: bool) -> FetchSession:
        """The session that a request goes on with; its errors as in `context`."""
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
        """A session that is open."""
        return self._sessions.get(session_id)

    def open(self, asked: list[Asked], uses_topic_ids: bool, isolation_level: int) -> FetchSession | None:
        """A new session, or None when there is no room for it."""
        session = self._reserve(len(asked), uses_topic_ids, isolation_level)
        if session is not None:
            self._update(session, asked, [])
        return session

    def open_in_slices(self, asked: list[Asked], uses_topic_ids: bool, isolation_level: int) -> Generator[None, None, FetchSession | None]:
        """As `open`, with pauses; None also when the session had to go for another one meanwhile."""
        session = self._reserve(len(asked), uses_topic_ids, isolation_level)
        if session is None:
            return None
        for part in _parts(asked):
            try:
                self._update(session, part, [])
            except FetchSessionIdNotFound:  # others took the room
                return None
            yield
            if self._sessions.get(session.session_id) is not session:
                return None
        return session

    def _reserve(self, size: int, uses_topic_ids: bool, isolation_level: int) -> FetchSession | None:
        """A session for `size` partitions, without any of them yet, if there is room."""
        now_ms = self._clock.now_ms()
        if not self._has_room(size, now_ms):
            return None
        session_id = self._new_id()
        while session_id in self._sessions or session_id == NO_SESSION:
            session_id = self._new_id()
        session = self._sessions[session_id] = FetchSession(session_id, uses_topic_ids, now_ms)
        session.begin(isolation_level)
        return session

    def _update(self, session: FetchSession, asked: Sequence[Asked], forgotten: list[tuple[TopicKey, int]]) -> None:
        """Apply a request to its session; FetchSessionIdNotFound when the session is closed because it grew too large."""
        before = len(session.partitions)
        session.update(asked, forgotten)
        grown = len(session.partitions) - before
        self._partition_count += grown
        if grown > 0 and self._partition_count > PARTITIONS_MAX:
            self._close(session.session_id)
            raise FetchSessionIdNotFound

    def _has_room(self, size: int, now_ms: int) -> bool:
        """Whether there is room for a session of `size` partitions, once those that may go are gone."""
        if size > PARTITIONS_MAX:
            return False
        while self._partition_count + size > PARTITIONS_MAX:
            if not self._evict(size, now_ms):
                return False
        return len(self._sessions) < self._slot_count or self._evict(size, now_ms)

    def _touch(self, session: FetchSession) -> None:
        session.used_ms = self._clock.now_ms()
        self._sessions[session.session_id] = self._sessions.pop(session.session_id)

    def _evict(self, size: int, now_ms: int) -> bool:
        """Make room for a session of `size` partitions, if the rules allow it."""
        if not self._sessions:
            return False
        oldest = next(iter(self._sessions.values()))
        if now_ms - oldest.used_ms > EVICTION_MS:
            self._close(oldest.session_id)
            return True
        # Judged at its last use, as Kafka does: a session that was young then is not evictable until it is used again.
        evictable = [session for session in self._sessions.values() if session.used_ms - session.created_ms > EVICTION_MS]
        smallest = min(evictable, key=lambda session: len(session.partitions), default=None)
        if smallest is None or len(smallest.partitions) >= size:
            return False
        self._close(smallest.session_id)
        return True

    def _close(self, session_id: int) -> None:
        session = self._sessions.pop(session_id)
        self._partition_count -= len(session.partitions)
        self._closing.append(session.close())
        if len(self._closing) == 1:
            self._go_on_closing()

    def _go_on_closing(self) -> None:
        """Take one step, and the next one in another turn of the loop: a large session takes tens of milliseconds."""
        while self._closing:
            for _ in self._closing[0]:
                self._clock.call_later_ms(0, self._go_on_closing)
                return
            self._closing.popleft()


def open_cache(broker: Services) -> FetchSessionCache:
    """Create the fetch sessions of a broker, at its first Fetch."""
    sessions = broker.fetch_sessions = FetchSessionCache(broker.clock, broker.config.max_incremental_fetch_session_cache_slots)
    return sessions


def asked_in(request: schema.Request, uses_topic_ids: bool) -> list[Asked]:
    """The partitions of a request, in its order; of one that is there twice the latter, in the former's place.

    Raises:
        ManyPartitions: there are more than AT_ONCE_MAX.
    """
    if uses_topic_ids:
        asked: list[Asked] = [(topic.topic_id, partition) for topic in request.topics for partition in topic.partitions]
    else:
        asked = [(topic.topic, partition) for topic in request.topics for partition in topic.partitions]
    if len(asked) < 2:
        return asked
    if len(asked) > AT_ONCE_MAX:
        raise ManyPartitions
    return list({(topic, partition.partition): (topic, partition) for topic, partition in asked}.values())


def forgotten_in(request: schema.Request, uses_topic_ids: bool) -> list[tuple[TopicKey, int]]:
    """The partitions that a request takes out of its session."""
    forgotten = request.forgotten_topics_data
    if not forgotten:
        return []
    if len(forgotten) + sum(len(topic.partitions) for topic in forgotten) > AT_ONCE_MAX:
        raise ManyPartitions
    if uses_topic_ids:
        return [(topic.topic_id, partition) for topic in forgotten for partition in topic.partitions]
    return [(topic.topic, partition) for topic in forgotten for partition in topic.partitions]


def _asked_in_slices(request: schema.Request, uses_topic_ids: bool) -> Generator[None, None, list[Asked]]:
    """As `asked_in`, of any number."""
    found: dict[tuple[TopicKey, int], Asked] = {}
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
    """What is done between two pauses."""
    for start in range(0, len(elements), STEP):
        yield elements[start : start + STEP]
