"""Connections that take, or give, next to nothing."""

from __future__ import annotations

import contextlib
import socket
import struct
import time

import frames

from attacking.declaration import TOPIC, Target, attack

MEGABYTE = 1 << 20
_FETCHED = 50 * MEGABYTE


def _log_of_64_megabytes(target: Target) -> None:
    target.create_topic()
    batch = frames.record_batch(10, 100_000)
    target.ask_each([frames.produce(TOPIC, 0, batch)] * 66, depth=2)


@attack(
    "100 clients that do not read", "each asks Fetch 11 for 50 MB and leaves the answer", prepare=_log_of_64_megabytes, max_growth_mb=64
)
def do_not_read(target: Target) -> None:
    """The answers begin and are not read for five seconds."""
    for _ in range(target.count(100)):
        target.connect().sendall(frames.fetch(TOPIC, 0, 0, _FETCHED, max_wait_ms=0))
    time.sleep(5)


@attack(
    "100 clients that read a byte a time",
    "each asks for 50 MB and reads a byte every 50 ms",
    prepare=_log_of_64_megabytes,
    max_growth_mb=64,
)
def read_slowly(target: Target) -> None:
    """It lasts five seconds; a client that reads a byte per second looks the same to the broker."""
    links = [target.connect() for _ in range(target.count(100))]
    for link in links:
        link.sendall(frames.fetch(TOPIC, 0, 0, _FETCHED, max_wait_ms=0))
    for _ in range(100):
        for link in links:
            link.recv(1)
        time.sleep(0.05)


@attack("100 clients that pipeline and do not read", "each sends 200 Metadata requests for all of 500 topics", max_growth_mb=64)
def pipeline(target: Target) -> None:
    """The answers are encoded objects, not files."""
    names = [b"many-%d" % number for number in range(500)]
    for at in range(0, len(names), 100):
        target.ask(_create(names[at : at + 100]))
    every = frames.frame(3, 4, struct.pack(">ib", -1, 0)) * 200
    for _ in range(target.count(100)):
        link = target.connect()
        link.settimeout(0.2)
        with contextlib.suppress(TimeoutError, OSError):
            link.sendall(every)
    time.sleep(5)


def _create(names: list[bytes]) -> bytes:
    body = b"".join(frames.string(name) + struct.pack(">ihii", 1, 1, 0, 0) for name in names)
    return frames.frame(19, 2, struct.pack(">i", len(names)) + body + struct.pack(">ib", 60_000, 0))


@attack("5,000 half-open connections", "each sends three bytes", max_growth_mb=64)
def half_open(target: Target) -> None:
    """The connections stay open for two seconds."""
    for _ in range(target.count(5000)):
        try:
            target.connect().sendall(b"\0\0\1")
        except OSError as error:
            target.note(f"refused: {error}")
            break
    time.sleep(2)


@attack("30 unfinished frames of 99 MB", "98 MB of each are sent, the rest never comes", max_growth_mb=None)
def unfinished(target: Target) -> None:
    """It notes how much of the frames the broker reads into memory within 20 seconds."""
    piece = bytes(MEGABYTE)
    left: dict[socket.socket, int] = {}
    for _ in range(target.count(30)):
        link = target.connect()
        link.sendall(struct.pack(">i", 99 * MEGABYTE) + struct.pack(">hhih", 0, 7, 1, 0))
        link.setblocking(False)
        left[link] = 98 * MEGABYTE
    total, end = sum(left.values()), time.monotonic() + 20
    while any(left.values()) and time.monotonic() < end:
        if not sum(_push(link, left, piece) for link in left):
            time.sleep(0.01)
    closed = sum(count < 0 for count in left.values())
    target.note(f"{total - sum(map(abs, left.values())) >> 20} MB were taken, {closed} connections were closed")
    time.sleep(1)


def _push(link: socket.socket, left: dict[socket.socket, int], piece: bytes) -> int:
    """Send what the broker accepts now; a closed connection counts as negative."""
    if left[link] <= 0:
        return 0
    try:
        sent = link.send(piece[: left[link]])
    except BlockingIOError:
        return 0
    except OSError:
        left[link] = -left[link]
        return 0
    left[link] -= sent
    return sent
