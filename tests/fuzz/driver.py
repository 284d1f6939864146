"""Keeps many connections busy with mutated requests and sequences, and notes what must not happen."""

from __future__ import annotations

import logging
import selectors
import time
from collections import Counter, deque
from collections.abc import Callable
from random import Random

from minibroker.wire.primitives import EncodeError
from tests.fuzz.answers import UNKNOWN, apis, judge
from tests.fuzz.connection import Answer, AnswerError, Connection
from tests.fuzz.excluded import has_no_answer, is_excluded, may_wait
from tests.fuzz.findings import Finding, SentFrame
from tests.fuzz.kafkas_errors import is_kafkas_answer
from tests.fuzz.layout import layout_of
from tests.fuzz.mutations import with_changed_bytes, with_changed_fields
from tests.fuzz.sequences import SEQUENCES, Sequence
from tests.fuzz.templates import Templates, encoded, with_correlation_id
from tests.fuzz.values import request_of
from tests.fuzz.world import World

log = logging.getLogger(__name__)

ANSWER_BOUND_S = 60.0  #: a frame must be answered or its connection closed within this
_PATIENCE_S = 1.0  #: with a request that may wait; then the fuzzer closes the connection
_CONNECTIONS = 24
_SEQUENCES_SHARE = 0.35  #: of the connections
_MUTATED_STEP = 0.12  #: of the steps of a sequence
_LAST = b"\x00\x12\x00\x00\x7a\x7a\x7a\x7a\xff\xff"  #: ApiVersions v0, behind pipelined requests
_LAST_ID = 0x7A7A7A7A
_LYING_SIZES = (b"\0\0\0\0", b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\0\0")
_RECENT = 400  #: frames of all connections that are kept for a finding about the whole process


class Driver:
    """The fuzzer's loop.

    Args:
        port: the broker's, on 127.0.0.1.
        seed: of all chance; the order of answers is the broker's and the machine's.
        world: names and what was learned.
        report: called with each finding.
    """

    def __init__(self, port: int, seed: int, world: World, report: Callable[[Finding], None]) -> None:
        self._port = port
        self._chance = Random(seed)
        self._world = world
        self._report = report
        self._templates = Templates(world)
        self._selector = selectors.DefaultSelector()
        self._players: set[Player] = set()
        self._numbers = 0
        self._again: deque[bytes] = deque()  #: frames whose connection was closed before they were read
        self.recent: deque[SentFrame] = deque(maxlen=_RECENT)
        self.settled: Counter[str] = Counter()  #: frames by what became of them: answered, closed, waiting

    @property
    def frames(self) -> int:
        """Frames that were answered or ended their connection."""
        return self.settled.total()

    def run(self, frames: int, goes_on: Callable[[], bool]) -> None:
        """Send until so many more frames are settled, or `goes_on` says no."""
        target, looked_at = self.frames + frames, time.monotonic()
        while self.frames < target and goes_on():
            self._fill()
            for key, events in self._selector.select(0.05):
                player: Player = key.data
                if events & selectors.EVENT_WRITE:
                    player.connection.write()
                if events & selectors.EVENT_READ:
                    self._read(player)
                if player in self._players:
                    self._watch(player)
            if time.monotonic() - looked_at > 0.25:
                looked_at = time.monotonic()
                self._end_the_silent()

    def close(self) -> None:
        """Close all connections."""
        for player in list(self._players):
            self._drop(player)
        self._selector.close()

    def _fill(self) -> None:
        while len(self._players) < _CONNECTIONS:
            self._numbers += 1
            torn = self._chance.random() < 0.15
            connection = Connection(self._numbers, self._port, self._chance, torn=torn)
            is_sequence = self._chance.random() < _SEQUENCES_SHARE
            player: Player = _Conversation(connection, self) if is_sequence else _Volley(connection, self)
            self._players.add(player)
            self._selector.register(connection, selectors.EVENT_READ | selectors.EVENT_WRITE, player)
            player.start()

    def _watch(self, player: Player) -> None:
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if player.connection.has_unsent else 0)
        if self._selector.get_key(player.connection).events != wanted:
            self._selector.modify(player.connection, wanted, player)

    def _read(self, player: Player) -> None:
        connection = player.connection
        try:
            answers = connection.read()
        except AnswerError as error:
            self.found(f"wrong answer: {str(error)[:60]}", str(error), connection)
            self._drop(player)
            return
        for answer in answers:
            if answer.request.correlation_id != _LAST_ID:
                self.settled["answered"] += 1
            player.answered(answer)
        if connection.is_closed:
            self._closed(player)
        elif player.is_done:
            self._drop(player)

    def _closed(self, player: Player) -> None:
        """The broker closed: the first unanswered frame is the cause, those after it were not read and are sent again."""
        rest = [each.frame for each in player.connection.waiting if each.correlation_id != _LAST_ID]
        while rest and has_no_answer(rest[0]):
            rest.pop(0)
            self.settled["without an answer"] += 1
        if rest:
            self.settled["closed"] += 1
        self._again.extend(rest[1:])
        player.answered(None)
        self._drop(player)

    def _end_the_silent(self) -> None:
        now = time.monotonic()
        for player in list(self._players):
            connection = player.connection
            silent_s = now - connection.progressed_at
            if silent_s < _PATIENCE_S:
                continue
            oldest = next((each for each in connection.waiting if not has_no_answer(each.frame)), None)
            if oldest is None and not player.expects_close:
                self._drop(player)
            elif oldest is not None and may_wait(oldest.frame):
                self.settled["waiting"] += 1
                self._drop(player)
            elif silent_s > ANSWER_BOUND_S:
                what = "its connection was not closed" if oldest is None else f"API {oldest.api_key} v{oldest.version}"
                self.found(f"silence: {what}", f"no answer and no close within {ANSWER_BOUND_S} s", connection)
                self._drop(player)

    def _drop(self, player: Player) -> None:
        self.recent.extend(player.connection.history)
        self._selector.unregister(player.connection)
        player.connection.close()
        self._players.discard(player)

    def found(self, kind: str, detail: str, connection: Connection) -> None:
        """Report something about one connection."""
        self._report(Finding(kind, detail, tuple(connection.history)))

    def everything_recent(self) -> tuple[SentFrame, ...]:
        """Frames that were sent lately, for a finding about the whole process."""
        return (*self.recent, *(frame for player in self._players for frame in player.connection.history))

    def judge(self, answer: Answer, connection: Connection) -> object:
        """The content of an answer; reports what is wrong with it."""
        request = answer.request
        verdict = judge(request.api_key, request.version, answer.frame, self._world, self._chance)
        if verdict.wrong is not None and not (verdict.wrong == UNKNOWN and is_kafkas_answer(request.frame)):
            name = apis()[request.api_key].name
            asked = SentFrame(connection.number, len(request.frame).to_bytes(4) + request.frame)
            kept = tuple(each for each in connection.history if each != asked)
            self._report(Finding(f"{verdict.wrong[:60]} by {name}", f"version {request.version}: {verdict.wrong}", (*kept, asked)))
        return verdict.content

    def volley(self) -> list[bytes]:
        """Frames to pipeline: those left over from closed connections first."""
        chance, frames = self._chance, []
        for number in range(chance.choice((1, 4, 10, 20, 40))):
            frame = self._again.popleft() if self._again and number % 2 == 0 else self._mutated()
            frames.append(with_correlation_id(frame, number))
        return frames

    def _mutated(self) -> bytes:
        while True:
            template, draw = self._templates.one(self._chance), self._chance.random()
            frame = template.frame
            if draw < 0.55:
                frame = with_changed_fields(frame, template.layout, self._chance)
            elif draw < 0.8:
                frame = with_changed_bytes(frame, self._templates.one(self._chance).frame, self._chance)
            if frame and not is_excluded(frame):
                return frame

    def step(self, api_key: int, fields: dict[str, object]) -> bytes:
        """The frame of a sequence's step, in any version, mutated now and then."""
        api, chance = apis()[api_key], self._chance
        for _ in range(20):
            version = chance.randint(api.min_version, api.max_version)
            try:
                request = request_of(api.Request, api_key, version, self._world, chance, **fields)
                frame, position = encoded(api, version, request)
            except EncodeError:
                continue
            if chance.random() < _MUTATED_STEP:
                layout = layout_of(api.Request, frame, position, version, flexible=api.flexible(version))
                frame = with_changed_fields(frame, layout, chance)
            if not is_excluded(frame):
                return frame
        return _LAST

    def sequence(self) -> Sequence:
        """A new conversation."""
        return self._chance.choice(SEQUENCES)(self._world, self._chance)

    def ending(self) -> bytes:
        """What is sent last on a connection: nothing, half a frame, or a size that lies."""
        draw = self._chance.random()
        if draw < 0.8:
            return b""
        if draw < 0.9:
            return b"\0\0\1\0" + self._chance.randbytes(self._chance.randrange(200))
        return self._chance.choice(_LYING_SIZES)


class Player:
    """What happens on one connection."""

    def __init__(self, connection: Connection, driver: Driver) -> None:
        self.connection = connection
        self.is_done = False
        self.expects_close = False
        self._driver = driver

    def start(self) -> None:
        """Queue the first frames."""
        raise NotImplementedError

    def answered(self, answer: Answer | None) -> None:
        """Take an answer; None when the broker closed."""
        raise NotImplementedError


class _Volley(Player):
    """Pipelined frames and one that must be answered when all before it were; then the connection ends in some way."""

    def start(self) -> None:
        self.connection.queue([*self._driver.volley(), _LAST])

    def answered(self, answer: Answer | None) -> None:
        if answer is None:
            return
        self._driver.judge(answer, self.connection)
        if answer.request.correlation_id == _LAST_ID:
            ending = self._driver.ending()
            self.expects_close = bool(ending) and ending[:3] != b"\0\0\1"
            self.is_done = not self.expects_close
            if ending:
                self.connection.queue_raw(ending)
                self.connection.write()


class _Conversation(Player):
    """A sequence: each step waits for the answer to the one before it."""

    def start(self) -> None:
        self._steps = self._driver.sequence()
        self._number = 0
        self._next(None)

    def answered(self, answer: Answer | None) -> None:
        if answer is None:
            self._steps.close()
            return
        content = self._driver.judge(answer, self.connection)
        # A step that was mutated into another API, or into a Produce without an answer, ends the conversation.
        api = apis().get(answer.request.api_key)
        self._next(content if api is not None and isinstance(content, api.Response) else None)

    def _next(self, content: object) -> None:
        self._number += 1
        try:
            api_key, fields = next(self._steps) if self._number == 1 else self._steps.send(content)
        except StopIteration:
            self.is_done = True
            return
        self.connection.queue([with_correlation_id(self._driver.step(api_key, fields), self._number)])
