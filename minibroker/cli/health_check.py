"""Check over the wire whether brokers serve, without click: importing it costs as much as the rest of a check.

ApiVersions and Metadata show that a broker's listener, loop and metadata log work. DescribeLogDirs without topics shows that its
disks work. A listener with TLS or SASL gets only ApiVersions, because the other requests need a login. The commands add their
options. `quick` is for calls without options, which are the most frequent.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from minibroker.client.connection import Connect, connect
from minibroker.client.errors import ClientError, check, describe
from minibroker.client.transport import Address, Deadline
from minibroker.config import sources
from minibroker.config.listeners import Listener, listeners_of
from minibroker.errors import ConfigurationError, KafkaError
from minibroker.schemas import k03_metadata, k35_describe_log_dirs

TIMEOUT_S = 5.0
REGISTRY_PORT = "MINIBROKER_REGISTRY_PORT"
#: variables that are options of the commands
_OPTIONS_OF_CONTAINER = ("MINIBROKER_SERVE_OPTIONS", "MINIBROKER_SASL_USERS")
_OPTIONS_OF_HEALTH = ("MINIBROKER_BOOTSTRAP_SERVER", "MINIBROKER_COMMAND_CONFIG")
#: the addresses to use for a listener on every interface
_LOOPBACK = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}


class Unhealthy(ClientError):  # noqa: N818  named for what happened, like the other subclasses of ClientError
    """The broker answers, but something that it needs does not work."""


class Health(NamedTuple):
    """The answers of a healthy broker."""

    address: Address
    cluster_id: str | None
    broker_count: int
    log_dir_count: int


def check_health(address: Address, deadline: Deadline, connect: Connect = connect) -> Health:
    """Check one broker.

    Raises:
        BrokerUnreachable, NotAKafkaBroker, TimedOut: it does not answer, or not in Kafka's protocol.
        Unhealthy: it answers; its metadata is empty, or a log directory is offline.
        KafkaError: it answers with an error.
    """
    connection = connect(address, deadline)
    try:
        metadata: k03_metadata.Response = connection.ask(k03_metadata, k03_metadata.Request(topics=[]), deadline)
        check(metadata.error_code, f"{address}: Metadata")
        if not metadata.brokers:
            raise Unhealthy(f"{address} knows no broker, not even itself: it may be starting")
        directories: k35_describe_log_dirs.Response = connection.ask(
            k35_describe_log_dirs, k35_describe_log_dirs.Request(topics=[]), deadline
        )
    finally:
        connection.close()
    check(directories.error_code, f"{address}: DescribeLogDirs")
    offline = [each.log_dir for each in directories.results if each.error_code]
    if offline:
        raise Unhealthy(f"{address}: log directory {', '.join(offline)} is offline: see the broker's log, then restart it")
    return Health(address, metadata.cluster_id, len(metadata.brokers), len(directories.results))


def check_all(addresses: Sequence[Address], timeout_s: float, connect: Connect = connect) -> str:
    """Check brokers and return one line if all serve; raises the error of `check_health` for the first that does not."""
    deadline = Deadline(int(timeout_s * 1000))
    return "healthy: " + _summary([check_health(address, deadline, connect) for address in addresses])


def check_own(listeners: Sequence[Listener], timeout_s: float) -> str:
    """Check the listeners of this machine's broker as `check_all` does; those with TLS or SASL only for an answer."""
    deadline = Deadline(int(timeout_s * 1000))
    plain = [Address(each.host, each.port) for each in listeners if each.protocol == "PLAINTEXT"]
    parts = [_summary([check_health(address, deadline) for address in plain])] if plain else []
    for each in listeners:
        if each.protocol != "PLAINTEXT":
            from minibroker.client.security.greeting import greet  # noqa: PLC0415  most checks need no TLS

            greet(Address(each.host, each.port), each.protocol, deadline)
            parts.append(f"{each.host}:{each.port} ({each.protocol}) answers")
    without_login = "" if plain else "; metadata and log directories were not checked, because that needs a login"
    return f"healthy: {', '.join(parts)}{without_login}"


def _summary(found: Sequence[Health]) -> str:
    one = found[0]
    directories = "1 log directory" if one.log_dir_count == 1 else f"{one.log_dir_count} log directories"
    return f"{', '.join(str(each.address) for each in found)}, cluster {one.cluster_id}, {directories} online"


def registry_port(environment: Mapping[str, str]) -> int | None:
    """Return the port of the container's schema registry; None if it has none. ConfigurationError: it is not a port."""
    text = environment.get(REGISTRY_PORT, "").strip()
    if not text:
        return None
    if not (text.isascii() and text.isdecimal()) or not 0 < int(text) < 1 << 16:
        raise ConfigurationError(f"{REGISTRY_PORT} must be a port from 1 to 65535, got {text}")
    return int(text)


def check_registry(port: int, timeout_s: float, host: str = "127.0.0.1") -> None:
    """Raise Unhealthy unless the schema registry of this machine accepts connections. `host` is where it listens."""
    try:
        socket.create_connection((_LOOPBACK.get(host, host), port), timeout_s).close()
    except OSError as error:
        raise Unhealthy(f"the schema registry does not answer on port {port}: {error.strerror or error}") from error


def own_listeners(properties: Mapping[str, str]) -> list[Listener]:
    """Return the listeners of a broker with these properties, with addresses on this machine.

    Raises:
        ConfigurationError: they cannot be determined.
    """
    listeners = listeners_of(properties)
    for listener in listeners:
        if listener.port == 0:
            raise ConfigurationError(f"listeners: {listener} has port 0, a free port that only the broker knows: give the address with -b")
    return [listener._replace(host=_LOOPBACK.get(listener.host, listener.host)) for listener in listeners]


def quick(words: Sequence[str], environment: Mapping[str, str]) -> int | None:
    """Run `health` or `container --health` without options and return the exit code; None if click must parse options."""
    is_container = list(words) == ["container", "--health"]
    has_options = any(map(environment.get, _OPTIONS_OF_CONTAINER if is_container else _OPTIONS_OF_HEALTH))
    if has_options or not (is_container or list(words) == ["health"]):
        return None
    try:
        port = registry_port(environment) if is_container else None
        if port is not None:
            check_registry(port, TIMEOUT_S)
        print(check_own(own_listeners(_properties(environment, is_container=is_container)), TIMEOUT_S))
    except (ClientError, KafkaError, ConfigurationError, OSError) as error:
        print(f"Error: {' '.join(describe(error).split())}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def _properties(environment: Mapping[str, str], *, is_container: bool) -> dict[str, str]:
    if not is_container:
        return sources.from_environment(environment)
    from minibroker.cli.container.settings import CONFIG_FILE, image_environment, own_address  # noqa: PLC0415  only containers need it

    from_file = file_properties(CONFIG_FILE) if os.path.isfile(CONFIG_FILE) else {}  # noqa: PTH113  pathlib takes longer to import
    own = image_environment(environment, from_file, own_address())
    return from_file | sources.from_environment({**environment, **own})


def file_properties(path: str) -> dict[str, str]:
    """Return the properties in a file."""
    from pathlib import Path  # noqa: PLC0415  only a file needs it

    return sources.from_file(Path(path))
