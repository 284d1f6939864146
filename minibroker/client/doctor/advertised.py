"""Check the addresses that brokers advertise (`advertised.listeners`) from where the client is.

A client uses its bootstrap address only for the first request. Then it connects to the advertised addresses. An address that is
right inside a container and unknown outside therefore fails after a connection that worked. This is the most frequent mistake.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from minibroker.client.doctor import NOTE, OK, PROBLEM, Finding
from minibroker.client.doctor.reach import Outcome, Reached
from minibroker.client.transport import Address
from minibroker.config.listeners import is_loopback, is_private

_EVERY_INTERFACE: Final = ("0.0.0.0", "::")


class Advertised(NamedTuple):
    """One advertised listener of a broker, from its configuration."""

    listener: str
    address: Address

    def __str__(self) -> str:
        return f"{self.listener}://{self.address}"


def judge(node_id: int, came_by: Address | None, reached: Reached, cluster_id: str | None, listeners: Sequence[Advertised]) -> Finding:
    """Check the address that a broker advertises to clients that connect by `came_by`.

    `came_by` is the bootstrap address of this broker, or None if the client connected only to other brokers of the cluster. `listeners`
    are all listeners of the broker, if they are known.
    """
    advertised = reached.address
    subject = f"broker {node_id}"
    says = f"tells clients to come to {advertised}"
    change = _change(node_id, came_by, advertised, listeners)
    if advertised.host in _EVERY_INTERFACE:
        return Finding(PROBLEM, subject, f"{says}, which is every address to a server, and none to a client", change)
    if reached.outcome is Outcome.SERVES:
        if reached.cluster_id != cluster_id:
            where = ", which is this machine here," if is_loopback(advertised.host) else ""
            text = f"{says}{where} where another cluster answers: {reached.cluster_id}, not {cluster_id}"
            return Finding(PROBLEM, subject, text, f"Clients would read and write in the wrong one. {change}")
        if is_loopback(advertised.host) and _is_from_afar(came_by):
            text = f"{says}, which works on this machine alone: others look for the broker on themselves"
            return Finding(NOTE, subject, text, change)
        return Finding(OK, subject, f"{says}, and answers there")
    return Finding(PROBLEM, subject, f"{says}, {_why(came_by, advertised, reached)}", _advice(came_by, advertised, reached, change))


def instead(finding: Finding, listener: Advertised) -> Finding:
    """Return the finding if another listener of the broker can be reached from here: then nothing has to be set."""
    return finding._replace(advice=f"Begin with {listener.address} instead: listener {listener.listener} tells that, and it answers here")


def judge_other(node_id: int, listener: Advertised, reached: Reached, cluster_id: str | None) -> Finding:
    """Check a listener that this client did not use. If it cannot be reached from here, other clients may reach it."""
    subject = f"broker {node_id}"
    if reached.outcome is Outcome.SERVES and reached.cluster_id == cluster_id:
        return Finding(OK, subject, f"listener {listener.listener} is advertised as {listener.address}, and answers there")
    why = {
        Outcome.UNKNOWN_NAME: "that name is unknown here",
        Outcome.REFUSED: "nothing listens there from here",
        Outcome.SILENT: "there is no answer from there",
        Outcome.SERVES: "another cluster answers there",
        Outcome.SECURITY: f"it does not take this client's TLS or SASL ({reached.part})",
    }.get(reached.outcome, "it does not answer as a Kafka listener without TLS and SASL")
    return Finding(
        NOTE,
        subject,
        f"listener {listener.listener} is advertised as {listener.address}: {why}, which is right if it is for clients elsewhere",
    )


def _why(came_by: Address | None, advertised: Address, reached: Reached) -> str:
    """Return why an address cannot be reached, as the end of the sentence `tells clients to come to HOST:PORT, `."""
    if reached.outcome is Outcome.UNKNOWN_NAME:
        return f"and the name {advertised.host!r} is unknown here"
    if reached.outcome is Outcome.REFUSED:
        if is_loopback(advertised.host) and _is_from_afar(came_by):
            return "which is the machine of the client itself, not the broker's, and nothing listens there"
        if came_by is not None and _is_mapped(advertised, came_by):
            return f"where nothing listens: from here the broker is at port {came_by.port}"
        return "where nothing listens"
    if reached.outcome is Outcome.SILENT:
        return "an address of a network that cannot be reached from here" if is_private(advertised.host) else "from where nothing answers"
    if reached.outcome is Outcome.FAILS:
        return f"where a broker fails: {reached.words}"
    if reached.outcome is Outcome.SECURITY:
        return f"where the {reached.part} is wrong: {reached.words}"
    return "where something answers that is no Kafka listener without TLS and SASL"


def _advice(came_by: Address | None, advertised: Address, reached: Reached, change: str) -> str:
    if reached.outcome is Outcome.UNKNOWN_NAME and "." not in advertised.host:
        host = "HOST" if came_by is None else came_by.host
        return (
            f"{advertised.host!r} looks like a name that containers of one network know. Give clients elsewhere a listener of their own: "
            f"listeners=INSIDE://:{advertised.port},OUTSIDE://:{_another_port(advertised.port)}, "
            f"advertised.listeners=INSIDE://{advertised},OUTSIDE://{host}:{_another_port(advertised.port)}, "
            f"listener.security.protocol.map=INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT, and map that port to the same port outside"
        )
    if reached.outcome is Outcome.REFUSED and came_by is None:
        return f"Is it up? {change}"
    if reached.outcome is Outcome.REFUSED and came_by is not None and _is_mapped(advertised, came_by):
        return f"A port that is mapped to another one must be advertised as it is outside. {change}"
    return change


def _change(node_id: int, came_by: Address | None, advertised: Address, listeners: Sequence[Advertised]) -> str:
    """Return what to set, with the address by which the broker was reached."""
    if came_by is None:
        return f"Set advertised.listeners of broker {node_id} to an address of its own that can be reached from here"
    known = [each for each in listeners if each.address == advertised]
    name = known[0].listener if known else "PLAINTEXT"
    right = Advertised(name, came_by)
    values = [right if each.listener == name else each for each in listeners] or [right]
    if right not in values:
        values.append(right)
    return f"Set advertised.listeners={','.join(map(str, values))} (KAFKA_ADVERTISED_LISTENERS in a container's environment)"


def _is_from_afar(came_by: Address | None) -> bool:
    return came_by is not None and not is_loopback(came_by.host)


def _is_mapped(advertised: Address, came_by: Address) -> bool:
    return advertised.port != came_by.port and _same_host(advertised, came_by)


def _same_host(one: Address, other: Address) -> bool:
    return one.host == other.host or (is_loopback(one.host) and is_loopback(other.host))


def _another_port(port: int) -> int:
    """Return the port of a second listener: Kafka's usual one, unless the first listener has it."""
    return 9092 if port != 9092 else 29092
