"""Parse and check `listeners`, `advertised.listeners` and `listener.security.protocol.map`.

A listener is `NAME://HOST:PORT`; IPv6 hosts are in brackets. Its name is a security protocol, or the map translates it to one.
Rules are Kafka's (SocketServerConfigs.listenerListToEndPoints, AbstractKafkaConfig.validateValues).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from minibroker.errors import ConfigurationError

if TYPE_CHECKING:
    from ipaddress import IPv4Address, IPv6Address

SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
PORT_MAX = 65_535
NODES_MAX = 100  #: most brokers of one process, each with all listeners
ANY_HOSTS = ("", "0.0.0.0", "::")
_LOCAL_NAMES = ("localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback")

DEFAULT_LISTENERS = "PLAINTEXT://:9092"
DEFAULT_PROTOCOL_MAP = "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT"


class Listener(NamedTuple):
    """A named address. Port 0 means any free port until the server has bound it."""

    name: str
    host: str
    port: int
    protocol: str = "PLAINTEXT"

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


def parse_protocol_map(items: tuple[str, ...]) -> dict[str, str]:
    """Parse `NAME:PROTOCOL` pairs, or raise ConfigurationError."""
    mapping: dict[str, str] = {}
    for item in items:
        name, colon, protocol = item.partition(":")
        if not colon or not name or protocol.upper() not in SECURITY_PROTOCOLS:
            raise ConfigurationError(
                f"listener.security.protocol.map: {item!r} is not NAME:PROTOCOL with a protocol of {', '.join(SECURITY_PROTOCOLS)}"
            )
        mapping[name.upper()] = protocol.upper()
    return mapping


def parse_listener(prop: str, text: str, protocols: dict[str, str]) -> Listener:
    """Parse one `NAME://HOST:PORT`, or raise a ConfigurationError that names the property `prop`."""
    name, separator, address = text.partition("://")
    host, colon, port = address.rpartition(":")
    if not separator or not name or not colon or not (port.isascii() and port.isdigit()) or int(port) > PORT_MAX:
        raise ConfigurationError(
            f"{prop}: {text!r} is not NAME://HOST:PORT with a port of 0 to {PORT_MAX}, e.g. PLAINTEXT://localhost:9092"
        )
    name = name.upper()
    protocol = protocols.get(name) or (name if name in SECURITY_PROTOCOLS else None)
    if protocol is None:
        raise ConfigurationError(
            f"{prop}: no security protocol is known for listener {name}: add {name}:PLAINTEXT to listener.security.protocol.map"
        )
    return Listener(name, host.removeprefix("[").removesuffix("]"), int(port), protocol)


def parse_listeners(prop: str, items: tuple[str, ...], protocols: dict[str, str]) -> tuple[Listener, ...]:
    """Parse all listeners of a property. Raise ConfigurationError if one is invalid or a name is listed twice."""
    found = [parse_listener(prop, item, protocols) for item in items]
    names = [listener.name for listener in found]
    for name in names:
        if names.count(name) > 1:
            raise ConfigurationError(f"{prop}: each listener needs its own name, {name} is listed twice")
    return tuple(found)


def without_controllers(
    prop: str, items: tuple[str, ...], protocol_map: tuple[str, ...], controller_names: tuple[str, ...]
) -> tuple[Listener, ...]:
    """Parse the listeners of a property without those of Kafka's controller, which clients do not use."""
    protocols = parse_protocol_map(protocol_map)
    controllers = {name.upper() for name in controller_names}
    protocols |= {name: protocols.get(name, "PLAINTEXT") for name in controllers}
    return tuple(listener for listener in parse_listeners(prop, items, protocols) if listener.name not in controllers)


def listeners_of(properties: Mapping[str, str]) -> tuple[Listener, ...]:
    """Return the listeners that a broker with these properties opens, without checking other properties."""
    return without_controllers(
        "listeners",
        _items(properties.get("listeners", DEFAULT_LISTENERS)),
        _items(properties.get("listener.security.protocol.map", DEFAULT_PROTOCOL_MAP)),
        _items(properties.get("controller.listener.names", "")),
    )


def _items(text: str) -> tuple[str, ...]:
    return tuple(item.strip() for item in text.split(",")) if text.strip() else ()


def check_listeners(listeners: tuple[Listener, ...], advertised: tuple[Listener, ...]) -> None:
    """Raise ConfigurationError for listeners that cannot be served or reached, before any is opened."""
    if not listeners:
        raise ConfigurationError("listeners: at least one is needed, e.g. listeners=PLAINTEXT://:9092")
    ports = [(listener.host, listener.port) for listener in listeners if listener.port]
    for host, port in ports:
        if ports.count((host, port)) > 1:
            raise ConfigurationError(f"listeners: each listener needs its own port, {port} is listed twice")
    names = {listener.name for listener in listeners}
    for listener in advertised:
        if listener.name not in names:
            raise ConfigurationError(
                f"advertised.listeners: {listener} has no listener of that name; listeners has {', '.join(sorted(names))}"
            )
        if listener.host in ANY_HOSTS[1:]:
            raise ConfigurationError(
                f"advertised.listeners: clients cannot connect to {listener.host}: give a name or an address that they can reach"
            )


def is_loopback(host: str) -> bool:
    """Whether a name or an address is that of the local machine."""
    address = ip_address_of(host)
    return host.lower().rstrip(".") in _LOCAL_NAMES if address is None else address.is_loopback


def leads_to(advertised: Listener, bound: Listener) -> bool:
    """Whether an advertised address is evidently that of a bound listener of this machine. Names are not resolved."""
    if advertised.port != bound.port:
        return False
    return advertised.host == bound.host or (is_loopback(advertised.host) and (bound.host in ANY_HOSTS or is_loopback(bound.host)))


def is_private(host: str) -> bool:
    """Whether a host is an address of a private network, such as one of containers."""
    address = ip_address_of(host)
    return address is not None and address.is_private


def ip_address_of(host: str) -> IPv4Address | IPv6Address | None:
    """Parse an address, without its zone. Return None for a name."""
    from ipaddress import ip_address  # noqa: PLC0415  reading listeners does not need it

    try:
        return ip_address(host.partition("%")[0])
    except ValueError:
        return None
