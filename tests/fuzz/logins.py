"""Fuzzes listeners with TLS and SASL before the login: mutated SaslHandshake, SaslAuthenticate and ApiVersions, other requests in their
place, and torn TLS records.

Each whole request must be answered or end its connection. A connection must be closed when its client sends no more. No client may be
served without the password, and the log must not have it.
"""

from __future__ import annotations

import ssl
import struct
from collections import Counter, deque
from collections.abc import Callable
from random import Random
from typing import Final

from minibroker.schemas import k03_metadata as k03
from minibroker.schemas import k17_sasl_handshake as k17
from minibroker.schemas import k18_api_versions as k18
from minibroker.schemas import k36_sasl_authenticate as k36
from minibroker.wire.primitives import EncodeError
from tests.fuzz.answers import apis, judge
from tests.fuzz.findings import Finding, SentFrame
from tests.fuzz.layout import layout_of
from tests.fuzz.login_listeners import CLOSE_BOUND_S, MECHANISMS, PASSWORD, Link, LoginListeners, TlsLink
from tests.fuzz.mutations import with_changed_bytes, with_changed_fields
from tests.fuzz.templates import Templates, encoded, with_correlation_id
from tests.fuzz.values import request_of
from tests.fuzz.world import World

_SCRAM_TOKENS: Final = (
    b"n,,n=alice,r=fyko+d2lbbFgONRv9qkxdawL",
    b"n,,n=alice,r=fyko+d2lbbFgONRv9qkxdawL",
    b"y,,n=alice,r=fyko",
    b"p=tls-unique,,n=alice,r=fyko",
    b"n,a=bob,n=alice,r=fyko",
    b"n,,n=al=2Cice=3D,r=fyko,tokenauth=true",
    b"n,,n=alice,r=" + b"x" * 10_000,
    b"c=biws,r=fyko,p=AAAA",
    b"c=biws,r=fyko+d2lbbFgONRv9qkxdawL,p=" + b"A" * 44,
)
#: By mechanism. None of them is right.
_TOKENS: Final = {
    "PLAIN": (
        b"\0alice\0wrong",
        b"alice\0alice\0wrong",
        b"bob\0alice\0wrong",
        b"\0bob\0wrong",
        b"\0\0",
        b"\0alice",
        b"",
        b"\0" * 1000,
        b"\0alice\0" + b"\xff" * 100_000,
    ),
    "SCRAM-SHA-256": _SCRAM_TOKENS,
    "SCRAM-SHA-512": _SCRAM_TOKENS,
    "OAUTHBEARER": (
        b"n,,\x01auth=Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJhbGljZSIsImV4cCI6OTk5OTk5OTk5OX0.\x01\x01",
        b"n,a=alice,\x01auth=Bearer a.b.c\x01host=x\x01\x01",
        b"\x01",
    ),
    "GSSAPI": (b"\x60\x82\x01\x00",),
    "plain": (b"\0alice\0wrong",),
    "x" * 20_000: (b"",),
}
_ENDINGS: Final = (
    b"",
    b"",
    b"\0\0\1\0" + b"x" * 60,
    b"\0",
    b"\0\0\0\0",
    b"\xff\xff\xff\xff",
    b"\x7f\xff\xff\xff",
    b"\0\x09\0\0" + b"x" * 20,
)
_LAST_ID: Final = 0x7A7A7A
_RIGHT_EVERY: Final = 50  #: conversations after which a client logs in with the password


class Logins:
    """A driver of `Run`: conversations one after the other, each with a new connection.

    Args:
        listeners: of the broker.
        seed: of all chance.
        world: names for requests that are not of the login.
        report: called with each finding.
    """

    def __init__(self, listeners: LoginListeners, seed: int, world: World, report: Callable[[Finding], None]) -> None:
        self._ports = listeners.ports
        self._chance = Random(seed)
        self._world = world
        self._report = report
        self._templates = Templates(world)
        self._context = ssl.create_default_context(cafile=str(listeners.ca))
        self._sent: list[SentFrame] = []  #: on the present connection
        self._recent: deque[SentFrame] = deque(maxlen=400)
        self._left: deque[Link] = deque()  #: clients that stay silent in the middle of a handshake or a request
        self.settled: Counter[str] = Counter()  #: conversations by what became of them

    @property
    def frames(self) -> int:
        """Conversations that are over."""
        return self.settled.total()

    def run(self, frames: int, goes_on: Callable[[], bool]) -> None:
        """Hold so many more conversations, or until `goes_on` says no."""
        target = self.frames + frames
        while self.frames < target and goes_on():
            self._recent += self._sent
            self._sent = []
            if self.frames % _RIGHT_EVERY == 0:
                self._log_in()
            draw = self._chance.random()
            try:
                if draw < 0.25:
                    self._tear_records()
                elif draw < 0.5:
                    self._converse(TlsLink(Link(self._ports.sasl_ssl, self._pieces), self._context))
                else:
                    self._converse(Link(self._ports.sasl, self._pieces))
            except TimeoutError:
                self._found("silence before the login", f"no answer and no close within {CLOSE_BOUND_S} s")
                self.settled["silent"] += 1

    def everything_recent(self) -> tuple[SentFrame, ...]:
        """Bytes that were sent lately."""
        return (*self._recent, *self._sent)

    def close(self) -> None:
        """Close the connections that were left open."""
        while self._left:
            self._left.popleft().close()

    # -- SASL -------------------------------------------------------------------------------------------------------

    def _converse(self, link: Link | TlsLink) -> None:
        chance = self._chance
        frames = [with_correlation_id(frame, number) for number, frame in enumerate(self._steps())]
        answers = _Answers(frames)
        is_pipelined = chance.random() < 0.3
        try:
            if is_pipelined:
                self._send(link, b"".join(map(_sized, frames)))
            for number, frame in enumerate(frames):
                if not is_pipelined:
                    self._send(link, _sized(frame))
                while len(answers.found) <= number and not answers.is_over:
                    answers.take(link.received())
            self._send(link, chance.choice(_ENDINGS))
            link.finish()
            while not answers.is_over:
                answers.take(link.received())
        finally:
            link.close()
        self._judge(answers)

    def _judge(self, answers: _Answers) -> None:
        for frame, answer in zip(answers.frames, answers.found, strict=False):
            key, version, correlation_id = struct.unpack_from(">hhi", frame)
            if len(answer) < 4 or struct.unpack_from(">i", answer)[0] != correlation_id:
                self._found(f"a wrong correlation id of API {key}", answer.hex()[:200])
                break
            if key not in apis():
                self._found("an unknown API is answered", frame.hex()[:200])
                break
            verdict = judge(key, version, memoryview(answer), self._world, self._chance)
            if verdict.wrong is not None:
                self._found(f"{verdict.wrong[:60]} before the login", f"API {key} v{version}: {verdict.wrong}")
            if isinstance(verdict.content, k03.Response) and verdict.content.brokers:
                self._found("a client is let in", "without the password")
            if key == k17.API_KEY and version == 0 and verdict.content is not None and verdict.content.error_code == 0:
                break  # what follows are bare tokens
        self.settled["answered" if answers.found else "closed"] += 1

    def _steps(self) -> list[bytes]:
        """Return the frames of a conversation, without their sizes: mostly in the right order, half of them mutated."""
        chance, found = self._chance, []
        if chance.random() < 0.4:
            found.append(self._request(k18.API_KEY))
        for _ in range(chance.choice((1, 1, 1, 2))):
            mechanism = chance.choice(tuple(_TOKENS) if chance.random() < 0.2 else MECHANISMS)
            is_of_login = chance.random() < 0.85
            found.append(
                self._request(k17.API_KEY, mechanism=mechanism) if is_of_login else self._mutated(self._templates.one(chance).frame)
            )
            for _ in range(chance.choice((0, 1, 1, 2, 3))):
                tokens = _TOKENS[mechanism if chance.random() < 0.9 else chance.choice(MECHANISMS)]
                found.append(self._request(k36.API_KEY, auth_bytes=chance.choice(tokens)))
        api = apis()[k03.API_KEY]
        request = k03.Request(topics=[k03.Topic(name="x")], allow_auto_topic_creation=False)
        return [*found, with_correlation_id(encoded(api, 4, request)[0], _LAST_ID)]

    def _request(self, api_key: int, **fields: object) -> bytes:
        api, chance = apis()[api_key], self._chance
        while True:
            version = chance.randint(api.min_version, api.max_version)
            try:
                frame, position = encoded(api, version, request_of(api.Request, api_key, version, self._world, chance, **fields))
            except EncodeError:
                continue
            draw = chance.random()
            if draw < 0.3:
                layout = layout_of(api.Request, frame, position, version, flexible=api.flexible(version))
                return with_changed_fields(frame, layout, chance)
            return self._mutated(frame) if draw < 0.5 else frame

    def _mutated(self, frame: bytes) -> bytes:
        return with_changed_bytes(frame, self._templates.one(self._chance).frame, self._chance) or b"\0"

    def _log_in(self) -> None:
        """Log in with the password, on both listeners."""
        handshake = b"\0\x11\0\x01\0\0\0\1\xff\xff\0\x05PLAIN"
        token = b"\0alice\0" + PASSWORD.encode()
        authenticate = b"\0\x24\0\0\0\0\0\2\xff\xff" + struct.pack(">i", len(token)) + token
        for link in (Link(self._ports.sasl, _whole), TlsLink(Link(self._ports.sasl_ssl, _whole), self._context)):
            answers = _Answers([handshake, authenticate])
            link.send(_sized(handshake) + _sized(authenticate))
            while len(answers.found) < 2 and not answers.is_over:
                answers.take(link.received())
            link.close()
            if [answer[4:6] for answer in answers.found] != [b"\0\0", b"\0\0"]:
                self._found("an honest client cannot log in", str(answers.found))

    # -- TLS --------------------------------------------------------------------------------------------------------

    def _tear_records(self) -> None:
        """Shake hands with records that are changed or torn, and send changed records after that."""
        chance = self._chance
        link = Link(chance.choice((self._ports.ssl, self._ports.sasl_ssl)), self._pieces)
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = self._context.wrap_bio(incoming, outgoing, server_hostname="localhost")
        is_open = False
        for _ in range(3):
            try:
                tls.do_handshake()
                is_open = True
            except ssl.SSLWantReadError:
                pass
            except ssl.SSLError:
                break
            if is_open:
                tls.write(chance.choice((b"\0\0\0\x0a\0\x12\0\0\0\0\0\x01\xff\xff", chance.randbytes(40_000))))
            data = outgoing.read()
            is_changed = chance.random() < 0.4
            self._send(link, self._changed(data) if is_changed else data)
            if is_open or is_changed:
                break
            incoming.write(link.received())
        if chance.random() < 0.2:  # the client stays
            self._left.append(link)
            if len(self._left) > 100:
                self._left.popleft().close()
            self.settled["left open"] += 1
            return
        link.finish()
        while link.received():
            pass
        link.close()
        self.settled["torn records"] += 1

    def _changed(self, data: bytes) -> bytes:
        chance, changed = self._chance, bytearray(data)
        for _ in range(chance.choice((1, 1, 2, 5))):
            at = chance.randrange(len(changed) + 1)
            match chance.randrange(5):
                case 0:
                    changed[at : at + 1] = chance.randbytes(1)
                case 1:
                    changed[at : at + 2] = b"\xff\xff"
                case 2:
                    del changed[at : at + chance.randint(1, 200)]
                case 3:
                    changed[at:at] = chance.randbytes(chance.randint(1, 20_000))
                case _:
                    del changed[at:]
        return bytes(changed)

    # -- all --------------------------------------------------------------------------------------------------------

    def _pieces(self, data: bytes) -> list[bytes]:
        """Tear some of the streams."""
        if self._chance.random() < 0.7 or not data:
            return [data]
        found, at = [], 0
        while at < len(data):
            size = self._chance.choice((1, 2, 3, 4, 7, 50, 1000, 30_000))
            found.append(data[at : at + size])
            at += size
        return found

    def _send(self, link: Link | TlsLink, data: bytes) -> None:
        if data:
            self._sent.append(SentFrame(self.frames, data))
            link.send(data)

    def _found(self, kind: str, detail: str) -> None:
        self._report(Finding(kind, detail, tuple(self._sent)))


class _Answers:
    """The stream of the broker, cut into answers."""

    def __init__(self, frames: list[bytes]) -> None:
        self.frames = frames
        self.found: list[bytes] = []
        self.is_over = False  #: the broker has closed
        self._data = b""

    def take(self, data: bytes) -> None:
        """Add what was received; nothing at the end."""
        self.is_over = not data
        self._data += data
        while len(self._data) >= 4 and len(self._data) >= 4 + int.from_bytes(self._data[:4], "big"):
            size = int.from_bytes(self._data[:4], "big")
            self.found.append(self._data[4 : 4 + size])
            self._data = self._data[4 + size :]


def _sized(frame: bytes) -> bytes:
    return struct.pack(">i", len(frame)) + frame


def _whole(data: bytes) -> list[bytes]:
    return [data]
