"""Log a warning if clients cannot use an advertised address, or if another cluster answers there.

A client connects to one address and then uses the address of `advertised.listeners`. When a client connects, `PeerWatch` detects:

    localhost, for a client on another machine          the client would connect to its own machine
    a name that this machine cannot resolve, for a      the client could not resolve it either
    client on this machine

A connection from the address of the gateway gets no warning: the client may run on the host of a container, whose localhost has the port
mapped. The same applies to networks through which the host reaches containers in a virtual machine, or without root.

When a listener opens, `probe` asks once, in a background thread, which cluster answers at the advertised address. A client would read and
write in that cluster. The typical mistake is two brokers on one machine, of which the second listens on another port and still advertises
`localhost:9092`. `probe` logs nothing if the address cannot be reached: the mapped port of a container is usually unreachable from inside.

`minibroker doctor` runs where the client runs, and detects the rest.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Final

from minibroker.config.listeners import Listener, ip_address_of, is_loopback, leads_to
from minibroker.errors import WireError
from minibroker.schemas import k03_metadata
from minibroker.wire.codec import decode_from, encode
from minibroker.wire.header import PREFIX_SIZE, RequestHeader, decode_response_header, encode_request_header, frame_size, with_size

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
                self._warn(peer, host, port, "is the client's own machine", f" (it connected to {own})")
        elif is_here and ip_address_of(host) is None:
            self._submit(lambda: self._resolve(host), lambda found: self._resolved(peer, host, port, found))

    def _resolved(self, peer: str, host: str, port: int, found: object) -> None:
        if isinstance(found, socket.gaierror) and found.errno == socket.EAI_NONAME:
            self._warn(peer, host, port, "is a name that is unknown on this machine", "")

    def _warn(self, peer: str, host: str, port: int, problem: str, hint: str) -> None:
        if (host, port) not in self._done:
            self._done.add((host, port))
            log.warning(_LINE, peer, self._listener_name, host, port, problem, self._listener_name, port, hint)


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


CLIENT_ID: Final = "minibroker-advertised-probe"
_TIMEOUT_S: Final = 5.0
_VERSION: Final = 4  #: of Metadata: not flexible, has the cluster id, creates no topics, and every Kafka since 1.0 serves it
_ANSWER_MAX_BYTES: Final = 1024 * 1024  #: the answer has no topics
_HEADER_VERSION: Final = 1


def probe(bound: Listener, advertised: Listener, cluster_id: Callable[[], str], submit: Submit) -> None:
    """Compare the cluster at the advertised address with this one, unless that address is certain to be the bound one.

    Args:
        bound: the address on which the listener listens.
        advertised: the address that clients get.
        cluster_id: returns the id of this cluster, at the time of the answer.
        submit: runs the exchange off the loop.
    """
    if leads_to(advertised, bound) or bound.protocol != "PLAINTEXT":
        return  # the probe does not log in
    request = _request()

    def compare(answer: object) -> None:
        found = _cluster_in(answer) if isinstance(answer, bytes) else None
        own = cluster_id()
        if found is not None and found != own:
            log.warning(
                "listener %s advertises %s:%d, where another cluster answers: %s, not %s: its clients will read and write there. "
                "It listens on %s: set advertised.listeners to an address that leads to it",
                bound.name,
                advertised.host,
                advertised.port,
                found,
                own,
                bound,
            )

    submit(lambda: _exchange((advertised.host, advertised.port), request), compare)


def _request() -> bytes:
    header = RequestHeader(api_key=k03_metadata.API_KEY, api_version=_VERSION, correlation_id=0, client_id=CLIENT_ID)
    body = encode(k03_metadata.Request(topics=[], allow_auto_topic_creation=False), _VERSION, flexible=False)
    return b"".join(with_size([encode_request_header(header, _HEADER_VERSION), body]))


def _cluster_in(frame: bytes) -> str | None:
    """Return the cluster id in an answer; None if the answer is not Kafka's or has no cluster id."""
    try:
        _, position = decode_response_header(frame, 0)
        response, _ = decode_from(k03_metadata.Response, frame, position, _VERSION, flexible=False)
    except WireError:
        return None
    return response.cluster_id


def _exchange(address: tuple[str, int], request: bytes) -> bytes:
    """Send a frame, and return the frame that answers it.

    Raises:
        OSError: nothing answers there in time.
        WireError: the server there is not a Kafka broker.
    """
    with socket.create_connection(address, timeout=_TIMEOUT_S) as connection:
        connection.sendall(request)
        return _receive(connection, frame_size(_receive(connection, PREFIX_SIZE), 0, _ANSWER_MAX_BYTES))


def _receive(connection: socket.socket, size: int) -> bytes:
    received = bytearray()
    while len(received) < size:
        chunk = connection.recv(size - len(received))
        if not chunk:
            raise WireError("the connection was closed in the middle of an answer")
        received += chunk
    return bytes(received)
