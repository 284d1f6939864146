"""Log a warning if a client connects that cannot use the advertised address.

A client connects to one address and then uses the address of `advertised.listeners`. The broker can detect two mistakes:

    localhost, for a client on another machine          the client would connect to its own machine
    a name that this machine cannot resolve, for a      the client could not resolve it either
    client on this machine

A connection from the address of the gateway gets no warning: the client may run on the host of a container, whose localhost has the port
mapped. The same applies to networks through which the host reaches containers in a virtual machine, or without root. `minibroker doctor`
runs where the client runs, and detects the rest.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Final

from minibroker.config.listeners import ip_address_of, is_loopback

log = logging.getLogger(__name__)

SEEN_MAX: Final = 1_000  #: remembered addresses of clients; clients from further addresses are not checked
UNKNOWN: Final = "unknown"  #: the address of a connection that has closed already
#: of Docker Desktop, of gvproxy (Podman's machine), of slirp4netns
_FROM_THE_HOST: Final = ("192.168.65.", "192.168.127.", "10.0.2.")
_ROUTES: Final = Path("/proc/net/route")
_LINE: Final = (
    "a client at %s connected to listener %s, but the advertised address %s:%d %s: set advertised.listeners=%s://HOST:%d "
    "with a name or an address that it can reach%s; 'minibroker doctor -b HOST:PORT' tries it from there"
)


Submit = Callable[[Callable[[], object], Callable[[object], None]], None]  #: runs work, then calls back with its result or error


class PeerWatch:
    """Checks the clients of one listener; warns once for each advertised address."""

    def __init__(
        self,
        listener_name: str,
        advertised: Callable[[], tuple[str, int]],
        submit: Submit,
        *,
        gateways: Callable[[], frozenset[str]] | None = None,
        resolve: Callable[[str], object] | None = None,
    ) -> None:
        """Watch a listener.

        Args:
            listener_name: for the log.
            advertised: returns the host and port that clients get.
            submit: runs work that may take long.
            gateways: returns the addresses of gateways.
            resolve: looks up a name; raises OSError if it is unknown.
        """
        self.seen: set[str] = set()
        self._listener_name = listener_name
        self._advertised = advertised
        self._submit = submit
        self._gateways = gateways or default_gateways
        self._resolve = resolve or _resolve
        self._done: set[tuple[str, int]] = set()  # advertised addresses with a warning

    def look(self, peer: str, own: str) -> None:
        """Check a client that connected from the address `peer`, if that is new; `own` is the broker's address that it connected to."""
        if len(self.seen) >= SEEN_MAX or peer == UNKNOWN:
            return
        self.seen.add(peer)
        host, port = self._advertised()
        if (host, port) in self._done:
            return
        is_here = peer == own or is_loopback(peer)
        if is_loopback(host):
            if not is_here and not peer.startswith(_FROM_THE_HOST) and peer not in self._gateways():
                self._say(peer, host, port, "is the client's own machine", f" (it connected to {own})")
        elif is_here and ip_address_of(host) is None:
            self._submit(lambda: self._resolve(host), lambda found: self._resolved(peer, host, port, found))

    def _resolved(self, peer: str, host: str, port: int, found: object) -> None:
        if isinstance(found, socket.gaierror) and found.errno == socket.EAI_NONAME:
            self._say(peer, host, port, "is a name that is unknown on this machine", "")

    def _say(self, peer: str, host: str, port: int, what: str, hint: str) -> None:
        if (host, port) not in self._done:
            self._done.add((host, port))
            log.warning(_LINE, peer, self._listener_name, host, port, what, self._listener_name, port, hint)


@cache
def default_gateways() -> frozenset[str]:
    """Return the addresses of this machine's default gateways, as Linux reports them; none on other systems."""
    try:
        rows = [line.split() for line in _ROUTES.read_text(encoding="ascii").splitlines()[1:]]
    except (OSError, ValueError):
        return frozenset()
    return frozenset(socket.inet_ntoa(bytes.fromhex(row[2])[::-1]) for row in rows if len(row) > 2 and row[1] == "00000000")


def _resolve(host: str) -> object:
    return socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
