"""Ask at an advertised address which cluster answers there, and log a warning if it is another one.

A client would use that address, and read and write in the other cluster. The typical mistake is two brokers on one machine, of which
the second listens on another port and still advertises `localhost:9092`.

The probe runs once, when a listener opens, in a background thread. It logs nothing if the address cannot be reached: the mapped port
of a container is usually unreachable from inside. `peer_watch.py` and `minibroker doctor` look at such addresses.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable
from typing import Final

from minibroker.config.listeners import Listener, leads_to
from minibroker.errors import WireError
from minibroker.schemas import k03_metadata
from minibroker.wire.codec import decode_from, encode
from minibroker.wire.header import PREFIX_SIZE, RequestHeader, decode_response_header, encode_request_header, frame_size, with_size

log = logging.getLogger(__name__)

CLIENT_ID: Final = "minibroker-advertised-probe"
_TIMEOUT_S: Final = 5.0
_VERSION: Final = 4  #: of Metadata: not flexible, has the cluster id, creates no topics, and every Kafka since 1.0 serves it
_ANSWER_MAX_BYTES: Final = 1024 * 1024  #: requests no topics
_HEADER_VERSION: Final = 1

Submit = Callable[[Callable[[], object], Callable[[object], None]], None]


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
        WireError: what answers is not a Kafka broker.
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
