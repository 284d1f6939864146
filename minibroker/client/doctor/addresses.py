"""Check whether clients on this machine reach an address, and what to set if a broker advertises a wrong one.

A client uses its bootstrap address only for the first request. Then it connects to the addresses in `advertised.listeners`. An
address that is right inside a container and unknown outside therefore fails after a connection that worked. This is the most
frequent mistake.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Final, NamedTuple

from minibroker.client.connection import Connect, Connection, connect
from minibroker.client.doctor import NOTE, OK, PROBLEM, Finding
from minibroker.client.errors import BrokerUnreachable, ClientError, NotAKafkaBroker, SecurityFailed, TimedOut, check, describe
from minibroker.client.transport import Address, Deadline
from minibroker.config.listeners import is_loopback, is_private
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


class ReachResult(NamedTuple):
    """The result of a connection to an address. If a broker answers, the connection stays open for more requests."""

    address: Address
    outcome: Outcome
    ip_addresses: tuple[str, ...] = ()  #: the resolved addresses
    message: str = ""  #: of the error
    part: str = ""  #: of TLS or SASL that is wrong
    connection: Connection | None = None
    metadata: k03_metadata.Response | None = None  #: only brokers, no topics

    @property
    def cluster_id(self) -> str | None:
        """The id of the cluster that answered."""
        return None if self.metadata is None else self.metadata.cluster_id


class Network(NamedTuple):
    """The network of a checkup; tests replace it."""

    resolve: Callable[[str], tuple[str, ...]]  #: raises OSError for an unknown name
    connect: Connect = connect
    is_container: bool = False  #: whether this process runs in a container


def resolve(host: str) -> tuple[str, ...]:
    """Return the addresses of a name."""
    return tuple(dict.fromkeys(str(each[4][0]) for each in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)))


def reach(address: Address, network: Network, timeout_ms: int) -> ReachResult:
    """Connect as a client does: resolve, connect, ApiVersions, Metadata."""
    try:
        ip_addresses = network.resolve(address.host)
    except (OSError, UnicodeError) as error:
        return ReachResult(address, Outcome.UNKNOWN_NAME, message=getattr(error, "strerror", None) or str(error))
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
            return ReachResult(address, Outcome.SECURITY, ip_addresses, describe(error), error.part.value)
        return ReachResult(address, _outcome(error, is_connected=connection is not None), ip_addresses, describe(error))
    return ReachResult(address, Outcome.SERVES, ip_addresses, connection=connection, metadata=metadata)


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
        return Outcome.NOT_KAFKA  # the peer accepted the connection, and closed it at the first request
    return Outcome.SILENT


_EVERY_INTERFACE: Final = ("0.0.0.0", "::")


class AdvertisedListener(NamedTuple):
    """One advertised listener of a broker, from its configuration."""

    listener: str
    address: Address

    def __str__(self) -> str:
        return f"{self.listener}://{self.address}"


def check_advertised(
    node_id: int, bootstrap: Address | None, reached: ReachResult, cluster_id: str | None, listeners: Sequence[AdvertisedListener]
) -> Finding:
    """Check the address that a broker advertises to clients.

    Args:
        node_id: the broker.
        bootstrap: its bootstrap address; None if the client connected only to other brokers of the cluster.
        reached: the attempt to connect to the advertised address.
        cluster_id: the cluster to which the broker belongs.
        listeners: all listeners of the broker, if they are known.
    """
    advertised = reached.address
    subject = f"broker {node_id}"
    says = f"advertises {advertised}"
    change = _change(node_id, bootstrap, advertised, listeners)
    if advertised.host in _EVERY_INTERFACE:
        return Finding(PROBLEM, subject, f"{says}, where a server can listen, but to which no client can connect", change)
    if reached.outcome is Outcome.SERVES:
        if reached.cluster_id != cluster_id:
            where = ", which is this machine," if is_loopback(advertised.host) else ""
            text = f"{says}{where} where another cluster answers: {reached.cluster_id}, not {cluster_id}"
            return Finding(PROBLEM, subject, text, f"Clients would read from and write to the wrong cluster. {change}")
        if is_loopback(advertised.host) and _is_from_afar(bootstrap):
            text = f"{says}, which works only on this machine: clients on other machines would connect to themselves"
            return Finding(NOTE, subject, text, change)
        return Finding(OK, subject, f"{says}, and answers there")
    return Finding(PROBLEM, subject, f"{says}, {_why(bootstrap, advertised, reached)}", _advice(bootstrap, advertised, reached, change))


def suggest_listener(finding: Finding, listener: AdvertisedListener) -> Finding:
    """Replace the advice of a finding: another listener of the broker can be reached from here, so nothing has to be set."""
    advice = f"Connect to {listener.address} instead: listener {listener.listener} advertises it, and it answers here"
    return finding._replace(advice=advice)


def check_other_listener(node_id: int, listener: AdvertisedListener, reached: ReachResult, cluster_id: str | None) -> Finding:
    """Check a listener that this client did not use. If it cannot be reached from here, other clients may reach it."""
    subject = f"broker {node_id}"
    if reached.outcome is Outcome.SERVES and reached.cluster_id == cluster_id:
        return Finding(OK, subject, f"listener {listener.listener} is advertised as {listener.address}, and answers there")
    why = {
        Outcome.UNKNOWN_NAME: "that name is unknown here",
        Outcome.REFUSED: "seen from here, nothing listens there",
        Outcome.SILENT: "nothing answers there",
        Outcome.SERVES: "another cluster answers there",
        Outcome.SECURITY: f"it does not accept this client's TLS or SASL ({reached.part})",
    }.get(reached.outcome, "it does not answer as a Kafka listener without TLS and SASL")
    return Finding(
        NOTE,
        subject,
        f"listener {listener.listener} is advertised as {listener.address}: {why}, which is right if it is for clients elsewhere",
    )


def _why(bootstrap: Address | None, advertised: Address, reached: ReachResult) -> str:
    """Return why an address cannot be reached, as the end of the sentence `advertises HOST:PORT, `."""
    if reached.outcome is Outcome.UNKNOWN_NAME:
        return f"and the name {advertised.host!r} is unknown here"
    if reached.outcome is Outcome.REFUSED:
        if is_loopback(advertised.host) and _is_from_afar(bootstrap):
            return "which is the machine of the client itself, not the broker's, and nothing listens there"
        if bootstrap is not None and _is_mapped(advertised, bootstrap):
            return f"where nothing listens: from here the broker is at port {bootstrap.port}"
        return "where nothing listens"
    if reached.outcome is Outcome.SILENT:
        return "an address of a network that cannot be reached from here" if is_private(advertised.host) else "where nothing answers"
    if reached.outcome is Outcome.FAILS:
        return f"where a broker fails: {reached.message}"
    if reached.outcome is Outcome.SECURITY:
        return f"where the {reached.part} is wrong: {reached.message}"
    return "where something answers that is not a Kafka listener without TLS and SASL"


def _advice(bootstrap: Address | None, advertised: Address, reached: ReachResult, change: str) -> str:
    if reached.outcome is Outcome.UNKNOWN_NAME and "." not in advertised.host:
        host = "HOST" if bootstrap is None else bootstrap.host
        return (
            f"{advertised.host!r} looks like a name that only containers of one network know. Add a listener for clients elsewhere: "
            f"listeners=INSIDE://:{advertised.port},OUTSIDE://:{_another_port(advertised.port)}, "
            f"advertised.listeners=INSIDE://{advertised},OUTSIDE://{host}:{_another_port(advertised.port)}, "
            f"listener.security.protocol.map=INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT, and map that port to the same port outside"
        )
    if reached.outcome is Outcome.REFUSED and bootstrap is None:
        return f"Is it up? {change}"
    if reached.outcome is Outcome.REFUSED and bootstrap is not None and _is_mapped(advertised, bootstrap):
        return f"If a container's port is mapped to another one, advertise the outer port. {change}"
    return change


def _change(node_id: int, bootstrap: Address | None, advertised: Address, listeners: Sequence[AdvertisedListener]) -> str:
    """Return what to set, with the address by which the broker was reached."""
    if bootstrap is None:
        return f"Set advertised.listeners of broker {node_id} to an address that is only its own and can be reached from here"
    known = [each for each in listeners if each.address == advertised]
    name = known[0].listener if known else "PLAINTEXT"
    right = AdvertisedListener(name, bootstrap)
    values = [right if each.listener == name else each for each in listeners] or [right]
    if right not in values:
        values.append(right)
    return f"Set advertised.listeners={','.join(map(str, values))} (KAFKA_ADVERTISED_LISTENERS in a container's environment)"


def _is_from_afar(bootstrap: Address | None) -> bool:
    return bootstrap is not None and not is_loopback(bootstrap.host)


def _is_mapped(advertised: Address, bootstrap: Address) -> bool:
    return advertised.port != bootstrap.port and _same_host(advertised, bootstrap)


def _same_host(one: Address, other: Address) -> bool:
    return one.host == other.host or (is_loopback(one.host) and is_loopback(other.host))


def _another_port(port: int) -> int:
    """Return the port of a second listener: Kafka's usual one, unless the first listener has it."""
    return 9092 if port != 9092 else 29092
