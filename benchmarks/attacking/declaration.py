"""The definition of an attack, and its measurements."""

from __future__ import annotations

import contextlib
import math
import socket
import struct
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import frames
from pump import LoadError, call, connect

from attacking.disk import Disk

if TYPE_CHECKING:
    from attacking.secured_listeners import SecuredListeners

ANSWER_S = 30.0  #: the longest wait of an attacker for an answer
TOPIC = b"attacked"


class Target:
    """The broker as an attacker sees it: an address, and a process whose memory is watched."""

    def __init__(self, address: tuple[str, int], pid: int, scale: float) -> None:
        self.address = address
        self.pid = pid
        self.scale = scale  #: factor of counts; the published table has 1
        self.disk: Disk | None = None  #: only of an attack that needs one
        self.secured: SecuredListeners | None = None  #: only of an attack that needs them
        self.notes: list[str] = []
        self._links: list[socket.socket] = []

    def count(self, full: int) -> int:
        """Return a count at this scale."""
        return max(1, int(full * self.scale))

    def connect(self, port: int = 0) -> socket.socket:
        """Connect to the broker's first listener or to another `port`; the connection stays open until the attack is over."""
        link = connect((self.address[0], port or self.address[1]))
        patience = struct.pack("@ll", int(ANSWER_S), 0)
        link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, patience)
        self._links.append(link)
        return link

    def keep(self, link: socket.socket) -> None:
        """Close a connection when the attack is over."""
        self._links.append(link)

    def ask(self, frame: bytes, link: socket.socket | None = None) -> bytes:
        """Return the answer to one request, empty if the broker closed the connection or did not answer in time."""
        try:
            return bytes(call(link or self.connect(), frame))
        except (OSError, LoadError) as error:
            self.note(f"no answer: {error!r}")
            return b""

    def ask_each(self, requests: Iterable[bytes], depth: int = 20, *, look: Callable[[bytearray], object] | None = None) -> int:
        """Send requests with `depth` of them in flight on one connection, and return how many were answered.

        `look` is called with each answer.
        """
        link, answered, sent = self.connect(), 0, 0
        try:
            for request in requests:
                link.sendall(request)
                sent += 1
                if sent - answered >= depth:
                    answer = read_one(link)
                    answered += 1
                    if look is not None:
                        look(answer)
            while answered < sent:
                answer = read_one(link)
                answered += 1
                if look is not None:
                    look(answer)
        except (OSError, LoadError) as error:
            self.note(f"closed after {answered}: {error!r}")
        return answered

    def create_topic(self, name: bytes = TOPIC, partitions: int = 1, configs: Mapping[bytes, bytes] | None = None) -> None:
        """Create the topic of the attack."""
        self.ask(frames.create_topic(name, partitions, configs))

    def note(self, text: str) -> None:
        """Add a remark to the table, each only once."""
        if text not in self.notes:
            self.notes.append(text)

    def close(self) -> None:
        """Close all connections."""
        for link in self._links:
            with contextlib.suppress(OSError):
                link.close()
        self._links.clear()


def read_one(link: socket.socket) -> bytearray:
    """Read one of several answers in flight, without its size."""
    (size,) = struct.unpack(">i", _exactly(link, 4))
    return _exactly(link, size)


def _exactly(link: socket.socket, size: int) -> bytearray:
    data = bytearray(size)
    view, at = memoryview(data), 0
    while at < size:
        count = link.recv_into(view[at:])
        if not count:
            raise LoadError("the broker closed the connection")
        at += count
    return data


class Attack(NamedTuple):
    """One row of the table.

    `prepare` is not measured. `request_bytes` is the size of the largest single request. The bound on memory is on top of it.
    """

    name: str
    about: str
    run: Callable[[Target], None]
    prepare: Callable[[Target], None] | None = None
    properties: Mapping[str, str] = {}
    request_bytes: int = 0
    max_growth_mb: int | None = None  #: the bound that the project promises, None where there is no promise
    restarts: bool = False  #: stop and start the broker afterwards, and note the time, the memory and the open files
    needs_disk: bool = False  #: the data directory is on a disk that can fail
    is_secured: bool = False  #: the broker has listeners with TLS and SASL, and honest clients use SASL_SSL


class Damage(NamedTuple):
    """What an attack did to the broker and to the honest client beside it."""

    attack: str
    about: str
    peak_mb: float  #: peak memory during the attack, above the memory before
    left_mb: float  #: a second after the attack
    cpu_s: float
    seconds: float
    honest_p99_ms: float
    honest_max_ms: float
    notes: str
    bound_mb: float | None
    turn_ms: float = 0.0  #: the longest turn that the broker's watchdog reported; 0 if none was above 100 ms

    @property
    def is_within_bound(self) -> bool:
        """Whether memory stayed within the promised bound."""
        return self.bound_mb is None or self.peak_mb <= self.bound_mb


ATTACKS: dict[str, Attack] = {}


def attack(
    name: str,
    about: str,
    *,
    prepare: Callable[[Target], None] | None = None,
    properties: Mapping[str, str] | None = None,
    request_bytes: int = 0,
    max_growth_mb: int | None = None,
    restarts: bool = False,
    needs_disk: bool = False,
    is_secured: bool = False,
) -> Callable[[Callable[[Target], None]], Callable[[Target], None]]:
    """Enter the decorated function into the table."""

    def enter(run: Callable[[Target], None]) -> Callable[[Target], None]:
        if name in ATTACKS:
            raise ValueError(name)
        ATTACKS[name] = Attack(name, about, run, prepare, properties or {}, request_bytes, max_growth_mb, restarts, needs_disk, is_secured)
        return run

    return enter


def resident_mb(pid: int) -> float:
    """Return the present memory of a process."""
    return _status_mb(pid, "VmRSS")


def peak_mb(pid: int) -> float:
    """Return the peak memory since `forget_peak`."""
    return _status_mb(pid, "VmHWM")


def forget_peak(pid: int) -> None:
    """Let the kernel count the peak from now on."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def open_files(pid: int) -> int:
    """Return the number of open descriptors of a process."""
    return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())


def _status_mb(pid: int, name: str) -> float:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return math.nan
    return next((int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith(name)), math.nan)
