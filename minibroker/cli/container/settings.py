"""Defaults of the container image, as environment variables; the file and the environment override them.

    log.dirs               /var/lib/kafka/data
    listeners              if nothing is set: PLAINTEXT on 9092 for the host, advertised as localhost:9092, and DOCKER on 19092
                           for other containers, advertised with this container's address. If only advertised.listeners is
                           set, as in compose files for Confluent's images: the same names and ports on all interfaces.
    advertised.listeners   from KAFKA_ADVERTISED_HOST_NAME and KAFKA_ADVERTISED_PORT, if an old compose file sets these and no
                           listener

If the user sets listeners, nothing is added to them.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping

from minibroker.config import sources
from minibroker.config.listeners import ANY_HOSTS

DATA_DIR = "/var/lib/kafka/data"
CONFIG_FILE = "/mnt/shared/config/server.properties"
HOST_PORT = 9092
CONTAINER_PORT = 19092
OLD_NAMES = ("KAFKA_ADVERTISED_HOST_NAME", "KAFKA_ADVERTISED_PORT")


def image_environment(environment: Mapping[str, str], from_file: Mapping[str, str], address: str | None) -> dict[str, str]:
    """Return the variables to add to `environment`, from the properties file and this container's address."""
    properties = {**from_file, **sources.from_environment(environment)}
    added = _without_empty_items(environment)
    if not properties.get("log.dirs") and not properties.get("log.dir"):
        added["KAFKA_LOG_DIRS"] = DATA_DIR
    advertised = advertised_by_old_names(environment, from_file)
    if advertised is not None:
        properties["advertised.listeners"] = added["KAFKA_ADVERTISED_LISTENERS"] = advertised
    if not properties.get("listeners"):
        added |= (
            _listeners_of_advertised(properties["advertised.listeners"])
            if properties.get("advertised.listeners")
            else _own_listeners(properties, address)
        )
    return added


def advertised_by_old_names(environment: Mapping[str, str], from_file: Mapping[str, str]) -> str | None:
    """Return the advertised listener of variables from before Kafka 3.0; None without them, or if newer ones are set."""
    properties = {**from_file, **sources.from_environment(environment)}
    host_name, port = map(environment.get, OLD_NAMES)
    if not host_name or properties.get("advertised.listeners") or properties.get("listeners"):
        return None
    return f"PLAINTEXT://{host_name}:{port or HOST_PORT}"


def _without_empty_items(environment: Mapping[str, str]) -> dict[str, str]:
    """Return listener variables without empty items, which start scripts leave when they join lists."""
    found = {name: environment[name] for name in ("KAFKA_LISTENERS", "KAFKA_ADVERTISED_LISTENERS") if name in environment}
    clean = {name: ",".join(filter(None, map(str.strip, text.split(",")))) for name, text in found.items()}
    return {name: text for name, text in clean.items() if text != found[name]}


def own_address() -> str | None:
    """Return the address at which other containers reach this one; None without a network."""
    try:
        found = socket.gethostbyname(socket.gethostname())
    except OSError:
        return None
    return None if found.startswith("127.") else found


def _own_listeners(properties: Mapping[str, str], address: str | None) -> dict[str, str]:
    if address is None:
        return {}
    added = {
        "KAFKA_LISTENERS": f"PLAINTEXT://:{HOST_PORT},DOCKER://:{CONTAINER_PORT}",
        "KAFKA_ADVERTISED_LISTENERS": f"PLAINTEXT://localhost:{HOST_PORT},DOCKER://{address}:{CONTAINER_PORT}",
    }
    protocols = properties.get("listener.security.protocol.map") or "PLAINTEXT:PLAINTEXT"
    added["KAFKA_LISTENER_SECURITY_PROTOCOL_MAP"] = f"{protocols},DOCKER:PLAINTEXT"
    return added


def _listeners_of_advertised(advertised: str) -> dict[str, str]:
    """Return listeners on the advertised ports, on all interfaces; empty for an invalid address, which `serve` rejects."""
    found = []
    for each in filter(None, map(str.strip, advertised.split(","))):
        name, _, address = each.partition("://")
        port = address.rpartition(":")[2]
        if not port.isdecimal():
            return {}
        found.append(f"{name}://{ANY_HOSTS[0]}:{port}")
    return {"KAFKA_LISTENERS": ",".join(found)}


def kafka_ready_lines(node_id: int) -> list[str]:
    """Return lines of Kafka's log that other programs wait for: Testcontainers for the first two, others for the last."""
    moment = time.time()
    head = f"[{time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(moment))},{int(moment * 1000) % 1000:03d}] INFO"
    life = f"[BrokerLifecycleManager id={node_id}] The broker has been unfenced. Transitioning from RECOVERY to RUNNING."
    return [
        f"{head} {life} (kafka.server.BrokerLifecycleManager)",
        f"{head} [KafkaServer id={node_id}] started (kafka.server.KafkaServer)",
        f"{head} [KafkaRaftServer nodeId={node_id}] Kafka Server started (kafka.server.KafkaRaftServer)",
    ]
