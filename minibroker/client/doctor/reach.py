"""Check whether a broker can be reached at an address from here, and which step fails."""

from __future__ import annotations

import socket
from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

from minibroker.client.connection import Connect, Connection, connect
from minibroker.client.errors import BrokerUnreachable, ClientError, NotAKafkaBroker, SecurityFailed, TimedOut, check, describe
from minibroker.client.transport import Address, Deadline
from minibroker.errors import KafkaError
from minibroker.schemas import k03_metadata


class Outcome(Enum):
    """The step that failed, or success."""

    SERVES = "serves"
    UNKNOWN_NAME = "unknown name"
    REFUSED = "refused"  #: no process listens there
    SILENT = "silent"  #: no answer, or no route
    NOT_KAFKA = "not kafka"  #: a process listens, but does not answer in Kafka's protocol without TLS and SASL
    SECURITY = "security"  #: TLS or SASL ended the connection
    FAILS = "fails"  #: a broker answers with an error


class Reached(NamedTuple):
    """The result for an address. If a broker answers, its connection stays open for more requests."""

    address: Address
    outcome: Outcome
    ip_addresses: tuple[str, ...] = ()  #: the resolved addresses
    words: str = ""  #: the error message
    part: str = ""  #: what of TLS or SASL is wrong
    connection: Connection | None = None
    metadata: k03_metadata.Response | None = None  #: only brokers, no topics

    @property
    def cluster_id(self) -> str | None:
        """The id of the cluster that answered."""
        return None if self.metadata is None else self.metadata.cluster_id


class Network(NamedTuple):
    """The network of a check-up; tests replace it."""

    resolve: Callable[[str], tuple[str, ...]]  #: raises OSError for an unknown name
    connect: Connect = connect
    is_container: bool = False  #: whether this process runs in a container


def resolve(host: str) -> tuple[str, ...]:
    """Return the addresses of a name."""
    return tuple(dict.fromkeys(str(each[4][0]) for each in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)))


def reach(address: Address, network: Network, timeout_ms: int) -> Reached:
    """Connect as a client does: resolve, connect, ApiVersions, Metadata."""
    try:
        ip_addresses = network.resolve(address.host)
    except (OSError, UnicodeError) as error:
        return Reached(address, Outcome.UNKNOWN_NAME, words=getattr(error, "strerror", None) or str(error))
    deadline = Deadline(timeout_ms)
    connection = None
    try:
        connection = network.connect(address, deadline)
        metadata: k03_metadata.Response = connection.ask(k03_metadata, k03_metadata.Request(topics=[]), deadline)
        check(metadata.error_code, f"{address}: Metadata")
    except (ClientError, KafkaError) as error:
        if connection is not None:
            connection.close()
        if isinstance(error, SecurityFailed):
            return Reached(address, Outcome.SECURITY, ip_addresses, describe(error), error.part.value)
        return Reached(address, _outcome(error, is_connected=connection is not None), ip_addresses, describe(error))
    return Reached(address, Outcome.SERVES, ip_addresses, connection=connection, metadata=metadata)


def _outcome(error: Exception, *, is_connected: bool) -> Outcome:
    if isinstance(error, KafkaError):
        return Outcome.FAILS
    if isinstance(error, NotAKafkaBroker) or is_connected:
        return Outcome.NOT_KAFKA
    cause = error.__cause__
    if isinstance(cause, ConnectionRefusedError):
        return Outcome.REFUSED
    if isinstance(error, TimedOut) or isinstance(cause, OSError):
        return Outcome.SILENT
    if isinstance(error, BrokerUnreachable) and cause is not None:
        return Outcome.NOT_KAFKA  # the connection was made, and closed at the first request
    return Outcome.SILENT
