"""Clients of a broker under test by their own metrics: each producer, consumer and admin client that pushes telemetry (docs/telemetry.md).

(client,) = [each for each in broker.clients if each.client_id == "orders"]
assert client.metrics["producer.record.send.total"] == 10
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any
from uuid import UUID

from minibroker.telemetry.clients import ClientInstance, Metrics, Sample


@dataclass(frozen=True, slots=True)
class PushingClient:
    """One client as it was when the test asked for it."""

    client_id: str | None
    instance_id: UUID
    software_name: str  #: such as apache-kafka-java or librdkafka
    software_version: str
    host: str
    port: int
    principal: str
    listener_name: str
    labels: dict[str, str]  #: what the client says about itself, such as group_id
    is_connected: bool
    is_terminated: bool  #: its last push said that it closes
    first_seen_ms: int
    last_push_ms: int  #: 0: it has not pushed yet
    push_count: int
    push_interval_ms: int
    requested_metrics: tuple[str, ...]
    metrics: Metrics


def to_json(clients: Iterable[ClientInstance]) -> list[dict[str, Any]]:
    """Return clients as an operation of the lab does."""
    return [_client_to_json(client) for client in clients]


def from_json(clients: Iterable[Mapping[str, Any]]) -> list[PushingClient]:
    """Return the clients of `to_json`."""
    return [
        PushingClient(
            **client
            | {
                "instance_id": UUID(client["instance_id"]),
                "requested_metrics": tuple(client["requested_metrics"]),
                "metrics": Metrics(map(_sample_from_json, client["metrics"])),
            }
        )
        for client in map(dict, clients)
    ]


def _client_to_json(client: ClientInstance) -> dict[str, Any]:
    plain = [each.name for each in fields(PushingClient) if each.name not in {"instance_id", "labels", "metrics"}]
    return {name: getattr(client, name) for name in plain} | {
        "instance_id": str(client.instance_id),
        "labels": dict(client.labels),
        "metrics": [_sample_to_json(sample) for sample in client.metrics.samples()],
    }


def _sample_to_json(sample: Sample) -> dict[str, Any]:
    value = sample.value if math.isfinite(sample.value) else None  # Java's averages of nothing are not JSON
    return sample._asdict() | {"labels": dict(sample.labels), "value": value}


def _sample_from_json(sample: Mapping[str, Any]) -> Sample:
    value = math.nan if sample["value"] is None else sample["value"]
    return Sample(**dict(sample) | {"labels": tuple(sample["labels"].items()), "value": value})
