"""Whether a broker can be reached at an address from here, and if not, at which step it ends."""

from __future__ import annotations

import socket
from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

from minibroker.client.address import Address
from minibroker.client.connection import Connect, Connection, connect
from minibroker.client.deadline import Deadline
from minibroker.client.errors import BrokerUnreachable, ClientError, NotAKafkaBroker, TimedOut, check, describe
from minibroker.errors import KafkaError
from minibroker.schemas import k03_metadata


class Outcome(Enum):
    """How far it went."""

    SERVES = "serves"
    UNKNOWN_NAME = "unknown name"
    REFUSED = "refused"  #: nobody listens there
    SILENT = "silent"  #: no answer at all, or no way there
    NOT_KAFKA = "not kafka"  #: somebody listens, and does not answer in Kafka's protocol without TLS and SASL
    FAILS = "fails"  #: a broker answers with an error


class Reached(NamedTuple):
    """What was found at an address; the connection stays open for more questions where it serves."""

    address: Address
    outcome: Outcome
    ip_addresses: tuple[str, ...] = ()  #: what the name stands for
    words: str = ""  #: of the failure
    connection: Connection | None = None
    metadata: k03_metadata.Response | None = None  #: brokers alone, no topics

    @property
    def cluster_id(self) -> str | None:
        """Of the cluster that answered."""
        return None if self.metadata is None else self.metadata.cluster_id


class Network(NamedTuple):
    """What a check-up stands on; tests put their own in its place."""

    resolve: Callable[[str], tuple[str, ...]]  #: OSError for a name that is unknown
    connect: Connect = connect
    is_container: bool = False  #: whether it runs in a container itself


def resolve(host: str) -> tuple[str, ...]:
    """The addresses that a name stands for."""
    return tuple(dict.fromkeys(str(each[4][0]) for each in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)))


def reach(address: Address, network: Network, timeout_ms: int) -> Reached:
    """Go there as a client does: name, connection, versions, metadata."""
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
        return Outcome.NOT_KAFKA  # it was connected, and the connection ended at the first question
    return Outcome.SILENT
