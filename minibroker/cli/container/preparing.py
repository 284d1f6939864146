"""Create topics, seed data and schemas before clients can connect, with a broker on the same directories that listens only on loopback.

Invariants:
- An existing topic is not changed, so a container that restarts on its volume adds nothing.
- A topic that is incomplete because the container was killed is created again: until all are complete, a file beside the
  logs has their names.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from minibroker.cli.container.new_topics import BROKER_DEFAULT, NewTopic, partitions_named, seed_records
from minibroker.client import topics as admin
from minibroker.client.client import Client
from minibroker.client.errors import ClientError, describe
from minibroker.client.producer import Producer
from minibroker.config.broker_config import BrokerConfig
from minibroker.errors import ConfigurationError, KafkaError, UnknownTopicOrPartition
from minibroker.server.loop import run
from minibroker.testing.simulation.broker import SimulatedBroker

UNFINISHED: Final = ".minibroker-unfinished-topics"  #: in the first log directory; minibroker and Apache Kafka ignore such a file
_TIMEOUT_MS: Final = 60_000


def prepare(
    properties: Mapping[str, str],
    new_topics: Sequence[NewTopic],
    *,
    broker_count: int = 1,
    then: Callable[[SimulatedBroker], Awaitable[str]] | None = None,
) -> list[str]:
    """Create missing topics with their seed data, on as many brokers as clients will see, and do what comes `then`.

    Returns a line per topic, and that of `then`.

    Raises:
        ConfigurationError: the directories cannot be used, the broker rejects a topic, or a seed file is invalid.
    """
    config = BrokerConfig({**properties, **_loopback_listeners(properties)})
    lines: list[str] = []

    async def serve_alone() -> None:
        broker = SimulatedBroker(config, broker_count=broker_count)
        await broker.start()
        try:
            port = broker.listeners[0].port
            unfinished = Path(config.log_dirs[0]) / UNFINISHED
            lines.extend(await asyncio.to_thread(_create_topics, f"127.0.0.1:{port}", new_topics, unfinished))
            if then is not None:
                lines.append(await then(broker))
        finally:
            await broker.stop()

    run(serve_alone())
    return lines


def _loopback_listeners(properties: Mapping[str, str]) -> dict[str, str]:
    """Return listeners that only this process can reach."""
    controllers = [name.strip() for name in properties.get("controller.listener.names", "").split(",")]
    name = "PREPARING" if "PLAINTEXT" in controllers else "PLAINTEXT"
    return {"listeners": f"{name}://127.0.0.1:0", "advertised.listeners": "", "listener.security.protocol.map": f"{name}:PLAINTEXT"}


def _create_topics(bootstrap: str, new_topics: Sequence[NewTopic], unfinished: Path) -> list[str]:
    with Client(bootstrap, timeout_ms=_TIMEOUT_MS) as client:
        try:
            return _create_missing(client, new_topics, unfinished)
        except (ClientError, KafkaError) as error:
            raise ConfigurationError(f"topics of this container: {describe(error)}") from error


def _create_missing(client: Client, new_topics: Sequence[NewTopic], unfinished: Path) -> list[str]:
    if unfinished.exists():
        _delete(client, json.loads(unfinished.read_text(encoding="utf-8")))
    existing = {topic.name for topic in client.metadata(None).topics}
    missing = [topic for topic in new_topics if topic.name not in existing]
    if not missing:
        return []
    unfinished.write_text(json.dumps([topic.name for topic in missing]), encoding="utf-8")
    lines = [_create(client, topic) for topic in missing]
    unfinished.unlink()
    return lines


def _create(client: Client, topic: NewTopic) -> str:
    partition_count = topic.partition_count
    if topic.seed is not None and partition_count == BROKER_DEFAULT:
        partition_count = partitions_named(topic.seed) or BROKER_DEFAULT
    created = admin.create_topics(
        client,
        [topic.name],
        partition_count=partition_count,
        replication_factor=topic.replication_factor,
        configs={"cleanup.policy": topic.cleanup_policy} if topic.cleanup_policy else {},
    )[topic.name]
    if isinstance(created, KafkaError):
        raise created
    record_count = 0
    if topic.seed is not None:
        producer = Producer(client, topic.name, idempotent=False)
        for record, partition in seed_records(topic.seed):
            producer.add(record, partition)
            record_count += 1
        producer.flush()
    return f"created topic {topic.name}: {created.num_partitions} partitions, {record_count} records"


def _delete(client: Client, names: Sequence[str]) -> None:
    for error in admin.delete_topics(client, names).values():
        if error is not None and not isinstance(error, UnknownTopicOrPartition):
            raise error
