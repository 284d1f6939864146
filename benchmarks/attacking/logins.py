"""Clients that have not logged in, of listeners with TLS and SASL.

Each attack notes what became of its connections: closed, answered, or neither. The honest client beside it speaks SASL_SSL, and a second
one logs in again and again.
"""

from __future__ import annotations

import base64
import contextlib
import hmac
import json
import select
import socket
import struct
import time
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any, Final

import frames

from attacking.declaration import Target, attack
from attacking.secured_listeners import PASSWORD, USER, SecuredListeners, authenticate, handshake
from tests.golden.sasl_scenes import CLOSED, Conversation, Ports, make_users, scram_client

BOUND_MB: Final = 64
HANDSHAKE_S: Final = 20  #: the broker closes unfinished handshakes after this time
REFUSED_SIZE: Final = 600_000  #: above sasl.server.max.receive.size
LARGEST: Final = 524_288
THREADS: Final = 40
MECHANISM: Final = "SCRAM-SHA-256"


def listeners_of(target: Target) -> SecuredListeners:
    """Return the listeners of an attack with `is_secured`."""
    if target.secured is None:
        raise RuntimeError("the broker has no listeners with TLS")
    return target.secured


def crowd(target: Target, port: int, data: Iterable[bytes], *, pause_s: float = 0.0) -> list[socket.socket]:
    """Open a connection for each of `data`, and send it."""
    links = []
    for each in data:
        link = target.connect(port)
        link.setblocking(False)
        links.append(link)
        _push(link, each)
        if pause_s:
            time.sleep(pause_s)
    return links


def _push(link: socket.socket, data: bytes) -> None:
    """Send what the broker takes within a quarter of a second."""
    view, end = memoryview(data), time.monotonic() + 0.25
    while view and time.monotonic() < end:
        try:
            view = view[link.send(view) :]
        except BlockingIOError:
            select.select([], [link], [], 0.05)
        except OSError:
            return


def watch(target: Target, links: list[socket.socket], seconds: float) -> None:
    """Wait until all connections are closed or the time is over; note the result."""
    poll, by_number = select.epoll(), {link.fileno(): link for link in links}
    for number in by_number:
        poll.register(number, select.EPOLLIN)
    answered: set[int] = set()
    closed, end = 0, time.monotonic() + seconds
    while by_number and time.monotonic() < end:
        for number, _ in poll.poll(0.1):
            if _receive(by_number[number]):
                answered.add(number)
            else:
                closed += 1
                poll.unregister(number)
                del by_number[number]
    poll.close()
    silent = sum(number not in answered for number in by_number)
    target.note(f"{len(links):,} connections: {closed:,} closed, {len(by_number) - silent:,} answered and open, {silent:,} neither")


def _receive(link: socket.socket) -> bytes:
    with contextlib.suppress(OSError):
        return link.recv(1 << 16)
    return b""


def talks(target: Target, count: int, talk: Callable[[int], str]) -> None:
    """Run `talk` on many threads; note the results that it returns."""
    with ThreadPoolExecutor(THREADS) as threads:
        results = Counter(threads.map(talk, range(count)))
    target.note(", ".join(f"{number:,} {result}" for result, number in sorted(results.items())))


@attack("no attack", "fifteen seconds, for comparison with attacks before the login", is_secured=True)
def nothing(target: Target) -> None:
    """Return the CPU time of the machine's other processes."""
    time.sleep(15 * target.scale)


# -- TLS ----------------------------------------------------------------------------------------------------------------


@attack("TLS: 2,000 half-open handshakes", "each sends its hello and nothing more", max_growth_mb=BOUND_MB, is_secured=True)
def half_open(target: Target) -> None:
    """It lasts until the broker has closed all connections."""
    hello = listeners_of(target).hello()
    links = crowd(target, listeners_of(target).ssl, [hello] * target.count(2000))
    watch(target, links, HANDSHAKE_S + 20)


@attack("TLS: 2,000 hellos that claim 130 kB", "each sends 1,000 bytes of it", max_growth_mb=BOUND_MB, is_secured=True)
def large_hellos(target: Target) -> None:
    """OpenSSL allocates what the header claims."""
    start = b"\x01" + (131_000).to_bytes(3, "big") + b"\x03\x03" + bytes(1000)
    links = crowd(target, listeners_of(target).ssl, [_record(start)] * target.count(2000))
    watch(target, links, HANDSHAKE_S + 20)


@attack("TLS: 2,000 hellos of 120 kB, torn", "each sends all but the end", max_growth_mb=BOUND_MB, is_secured=True)
def long_hellos(target: Target) -> None:
    """The hello has as many bytes as OpenSSL accepts."""
    body = b"\x01" + (131_000).to_bytes(3, "big") + b"\x03\x03" + bytes(120_000)
    data = b"".join(_record(body[at : at + 16_000]) for at in range(0, len(body), 16_000))
    links = crowd(target, listeners_of(target).sasl_ssl, [data] * target.count(2000))
    watch(target, links, HANDSHAKE_S + 20)


def _record(body: bytes) -> bytes:
    return b"\x16\x03\x01" + struct.pack(">H", len(body)) + body


@attack("TLS: 500 slow handshakes", "each sends its hello byte by byte", max_growth_mb=BOUND_MB, is_secured=True)
def slow(target: Target) -> None:
    """Each connection sends a byte every few ms for eight seconds."""
    hello = listeners_of(target).hello()
    links = crowd(target, listeners_of(target).ssl, [b""] * target.count(500))
    end = time.monotonic() + 8
    for byte in hello[:-1]:
        for link in links:
            with contextlib.suppress(OSError):
                link.send(bytes([byte]))
        if time.monotonic() > end:
            break
    watch(target, links, HANDSHAKE_S + 20)


@attack("TLS: 2,000 clients of another protocol", "HTTP, Kafka without TLS, random bytes", max_growth_mb=BOUND_MB, is_secured=True)
def other_protocols(target: Target) -> None:
    """The broker closes each at once."""
    random = Random(7)  # noqa: S311  repeatable
    kinds = (b"GET / HTTP/1.1\r\n\r\n", frames.metadata(b"x"), random.randbytes(20_000), _record(random.randbytes(16_000)))
    data = [kinds[number % len(kinds)] for number in range(target.count(2000))]
    watch(target, crowd(target, listeners_of(target).sasl_ssl, data), HANDSHAKE_S + 20)


@attack("TLS: 2,000 handshakes, each torn at random", "the hello with changed bytes", max_growth_mb=BOUND_MB, is_secured=True)
def changed_hellos(target: Target) -> None:
    """One byte is changed, or the end is missing."""
    random, hello = Random(7), listeners_of(target).hello()  # noqa: S311  repeatable
    data = []
    for _ in range(target.count(2000)):
        changed = bytearray(hello)
        changed[random.randrange(len(hello))] = random.randrange(256)
        data.append(bytes(changed[: random.randrange(1, len(hello) + 1)]))
    watch(target, crowd(target, listeners_of(target).ssl, data), HANDSHAKE_S + 20)


@attack("TLS: 2,000 open connections without a login", "of SASL_SSL; each sends half a record", max_growth_mb=BOUND_MB, is_secured=True)
def open_connections(target: Target) -> None:
    """The connections stay open for five seconds."""
    context, links = listeners_of(target).context(), []
    for _ in range(target.count(2000)):
        link = target.connect(listeners_of(target).sasl_ssl)
        try:
            secured = context.wrap_socket(link, server_hostname="localhost")
        except OSError:
            continue
        link = socket.socket(fileno=secured.detach())
        target.keep(link)
        link.setblocking(False)
        _push(link, b"\x17\x03\x03\x40\x00" + bytes(16_000))
        links.append(link)
    watch(target, links, 5)


@attack("TLS: handshakes as fast as possible", "for five seconds, two at a time", max_growth_mb=BOUND_MB, is_secured=True)
def handshakes(target: Target) -> None:
    """Each handshake is completed and closed at once."""
    context, end = listeners_of(target).context(), time.monotonic() + 5 * target.scale

    def shake_hands(_: int) -> int:
        count = 0
        while time.monotonic() < end:
            with (
                socket.create_connection(("127.0.0.1", listeners_of(target).ssl)) as link,
                context.wrap_socket(link, server_hostname="localhost"),
            ):
                count += 1
        return count

    with ThreadPoolExecutor(2) as threads:
        target.note(f"{sum(threads.map(shake_hands, range(2))):,} handshakes")


# -- SASL ---------------------------------------------------------------------------------------------------------------


@attack("SASL: 2,000 huge sizes", "negative, 2 GB, 600,000 and 0 bytes", max_growth_mb=BOUND_MB, is_secured=True)
def huge_sizes(target: Target) -> None:
    """The broker closes each at once."""
    sizes = (2**31 - 1, -1, -(2**31), REFUSED_SIZE, 0)
    data = [struct.pack(">i", sizes[number % len(sizes)]) + bytes(4096) for number in range(target.count(2000))]
    watch(target, crowd(target, listeners_of(target).sasl, data), 5)


@attack("SASL: 500 unfinished requests of 512 kB", "each sends all but the last bytes", max_growth_mb=BOUND_MB, is_secured=True)
def unfinished(target: Target) -> None:
    """The connections stay open for five seconds."""
    data = struct.pack(">i", LARGEST) + frames.frame(36, 0, b"")[4:] + bytes(LARGEST - 100)
    watch(target, crowd(target, listeners_of(target).sasl, [data] * target.count(500)), 5)


@attack("SASL: 2,000 torn requests", "each sends half of a SaslHandshake and stays", max_growth_mb=BOUND_MB, is_secured=True)
def torn(target: Target) -> None:
    """Two pieces of a request are sent, and the rest after five seconds."""
    data = handshake("PLAIN")
    links = crowd(target, listeners_of(target).sasl, [data[:3]] * target.count(2000))
    for piece in (data[3:12], data[12:-1]):
        for link in links:
            _push(link, piece)
    time.sleep(5)
    for link in links:
        _push(link, data[-1:])
    watch(target, links, 2)


@attack("SASL: 2,000 requests in the wrong order", "before, in the place of, and after their time", max_growth_mb=BOUND_MB, is_secured=True)
def wrong_order(target: Target) -> None:
    """The broker closes each, with or without an error answer."""
    versions, metadata, again = frames.frame(18, 0, b""), frames.metadata(b"x"), handshake("PLAIN")
    kinds = (
        metadata,
        frames.produce(b"x", 0, frames.record_batch(1, 1000)),
        authenticate(b"\0alice\0secret"),
        versions + versions,
        handshake("PLAIN") + metadata,
        handshake("PLAIN") + again,
        handshake("GSSAPI"),
        handshake("x" * 30_000),
        handshake("PLAIN") + authenticate(b""),
        struct.pack(">i", 3) + b"abc",
        b"\x60\x82" + bytes(300),
    )
    data = [kinds[number % len(kinds)] for number in range(target.count(2000))]
    watch(target, crowd(target, listeners_of(target).sasl, data), 5)


def _users(target: Target) -> None:
    own = listeners_of(target)
    make_users(Ports(own.plain, own.sasl, own.sasl))


@attack("SASL: 1,000 nonces, replayed and of others", "SCRAM-SHA-256", prepare=_users, max_growth_mb=BOUND_MB, is_secured=True)
def nonces(target: Target) -> None:
    """The last message of a valid login is sent on another connection, and with the nonce of another connection."""
    port = listeners_of(target).sasl
    first = f"n,,n={USER},r=0123456789abcdef"
    last = scram_client(USER, PASSWORD.encode(), MECHANISM)
    with Conversation(port) as good, Conversation(port) as other:
        for each in (good, other):
            each.handshake(MECHANISM)
        recorded = last(good.authenticate(first).auth_bytes)
        others = dict(part.split("=", 1) for part in other.authenticate(first).auth_bytes.decode().split(","))["r"]
        if good.authenticate(recorded).error_code:
            raise RuntimeError("the good login failed")

    def talk(number: int) -> str:
        with Conversation(port) as conversation:
            conversation.handshake(MECHANISM)
            own = conversation.authenticate(first)
            message = (recorded, last(own.auth_bytes, with_nonce=others), last(own.auth_bytes, with_nonce="0123456789abcdef"))[number % 3]
            return _outcome(conversation.authenticate(message))

    talks(target, target.count(1000), talk)


@attack("SASL: 1,000 tokens, alg none and HS256 with the public key", "OAUTHBEARER", max_growth_mb=BOUND_MB, is_secured=True)
def tokens(target: Target) -> None:
    """Neither token is signed by the key that the broker trusts."""
    own, now_s = listeners_of(target), int(time.time())
    claims = {"sub": USER, "aud": "kafka", "iat": now_s - 60, "exp": now_s + 3600}
    public = own.public_pem()

    def signed(header: dict[str, str], secret: bytes) -> str:
        text = f"{_part(header)}.{_part(claims)}"
        signature = base64.urlsafe_b64encode(hmac.digest(secret, text.encode(), "sha256")).decode().rstrip("=") if secret else ""
        return f"n,,\x01auth=Bearer {text}.{signature}\x01\x01"

    kinds = (signed({"alg": "none"}, b""), signed({"alg": "HS256", "kid": "one"}, public), signed({"alg": "RS256", "kid": "one"}, b"x"))

    def talk(number: int) -> str:
        with Conversation(own.sasl) as conversation:
            conversation.handshake("OAUTHBEARER")
            answer = conversation.authenticate(kinds[number % 3])
            if answer == CLOSED or b"invalid_token" not in answer.auth_bytes:
                return "LET IN OR CLOSED"
            return _outcome(conversation.authenticate(b"\x01"))

    talks(target, target.count(1000), talk)


def _part(value: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def _outcome(answer: Any) -> str:
    return "closed" if answer == CLOSED else f"answered with error {answer.error_code}"


@attack("SASL: 2,000 wrong passwords", "PLAIN, of known and unknown users", max_growth_mb=BOUND_MB, is_secured=True)
def passwords(target: Target) -> None:
    """Forty logins run at a time."""
    port = listeners_of(target).sasl

    def talk(number: int) -> str:
        with Conversation(port) as conversation:
            conversation.handshake("PLAIN")
            return _outcome(conversation.authenticate(f"\0{(USER, 'nobody')[number % 2]}\0wrong"))

    talks(target, target.count(2000), talk)
