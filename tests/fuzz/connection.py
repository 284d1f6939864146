"""One connection of the fuzzer: sends a stream torn at random, and matches answers to requests."""

from __future__ import annotations

import socket
import struct
import time
from collections import deque
from random import Random
from typing import NamedTuple

from tests.fuzz.excluded import has_no_answer
from tests.fuzz.findings import SentFrame

_MAX_ANSWER = 256 << 20
_RECEIVE = 1 << 18
_KEPT_FRAMES = 64


class Waiting(NamedTuple):
    """A request that was queued and not answered yet."""

    api_key: int
    version: int
    correlation_id: int
    frame: bytes  #: without its size


class Answer(NamedTuple):
    """One answer and the request that it belongs to."""

    request: Waiting
    frame: memoryview  #: without its size


class AnswerError(Exception):
    """Bytes from the broker that are not an answer to anything that was asked."""


class Connection:
    """A socket that does not block.

    Args:
        number: tells it from others in findings.
        port: of 127.0.0.1.
        torn: whether each write is a few bytes.
    """

    def __init__(self, number: int, port: int, chance: Random, *, torn: bool) -> None:
        self.number = number
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        self.waiting: deque[Waiting] = deque()
        self.history: deque[SentFrame] = deque(maxlen=_KEPT_FRAMES)
        self.progressed_at = time.monotonic()
        self.is_closed = False  #: by the broker
        self._out: deque[memoryview] = deque()
        self._in = bytearray()
        self._chance = chance
        self._torn = torn

    @property
    def has_unsent(self) -> bool:
        """Whether something is queued that the socket has not taken."""
        return bool(self._out)

    def fileno(self) -> int:
        """For selectors."""
        return self.socket.fileno()

    def queue(self, frames: list[bytes]) -> None:
        """Send these frames, given without their sizes, one directly after another."""
        stream = bytearray()
        for frame in frames:
            head = struct.pack(">i", len(frame))
            stream += head + frame
            self.history.append(SentFrame(self.number, head + frame))
            if len(frame) >= 8:
                api_key, version, correlation_id = struct.unpack_from(">hhi", frame)
                self.waiting.append(Waiting(api_key, version, correlation_id, frame))
            else:
                self.waiting.append(Waiting(-1, -1, -1, frame))
        self.queue_raw(bytes(stream), remembered=False)

    def queue_raw(self, data: bytes, *, remembered: bool = True) -> None:
        """Send bytes that need not be frames."""
        if remembered:
            self.history.append(SentFrame(self.number, data))
        view = memoryview(data)
        if not self._torn:
            self._out.append(view)
            return
        at = 0
        while at < len(view):
            size = self._chance.choice((1, 2, 3, 4, 7, 50, 1000, 30_000))
            self._out.append(view[at : at + size])
            at += size

    def write(self) -> None:
        """Give the socket a piece of what is queued; one piece a call where the stream is torn."""
        self.progressed_at = time.monotonic()
        try:
            while self._out:
                piece = self._out.popleft()
                sent = self.socket.send(piece)
                if sent < len(piece):
                    self._out.appendleft(piece[sent:])
                    return
                if self._torn:
                    return
        except BlockingIOError:
            self._out.appendleft(piece)
        except OSError:
            self._out.clear()  # closed; what was answered before is still to be read

    def read(self) -> list[Answer]:
        """Answers that are whole now; AnswerError for bytes that are not answers."""
        try:
            data = self.socket.recv(_RECEIVE)
        except BlockingIOError:
            return []
        except OSError:
            data = b""
        if not data:
            self.is_closed = True
            return []
        self.progressed_at = time.monotonic()
        self._in += data
        return self._answers()

    def _answers(self) -> list[Answer]:
        answers, position, held = [], 0, len(self._in)
        while held - position >= 4:
            (size,) = struct.unpack_from(">i", self._in, position)
            if not 4 <= size <= _MAX_ANSWER:
                raise AnswerError(f"an answer of {size} bytes")
            if held - position < 4 + size:
                break
            frame = memoryview(bytes(self._in[position + 4 : position + 4 + size]))
            position += 4 + size
            answers.append(Answer(self._asked(struct.unpack_from(">i", frame)[0]), frame))
        del self._in[:position]
        return answers

    def _asked(self, correlation_id: int) -> Waiting:
        """The request of an answer: the oldest one, but for those that have no answer."""
        while self.waiting:
            oldest = self.waiting.popleft()
            if oldest.correlation_id == correlation_id:
                return oldest
            if not has_no_answer(oldest.frame):
                raise AnswerError(f"API {oldest.api_key} v{oldest.version} was not answered, the one after it was")
        raise AnswerError(f"an answer with correlation id {correlation_id}, which was not asked for")

    def close(self) -> None:
        """Close it, whatever is on its way."""
        self.socket.close()
