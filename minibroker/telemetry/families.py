"""Metrics of clients as families for Prometheus: names with underscores, and who pushed them as labels.

    org.apache.kafka.producer.record.send.total    org_apache_kafka_producer_record_send_total{client_id="orders", ...}

A histogram is two families, `_sum` and `_count`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final, Literal, NamedTuple

from minibroker.telemetry.clients import ClientInstance, Sample
from minibroker.telemetry.payload import Labels

_STEP: Final = 500  #: values between two pauses
_NOT_IN_NAMES: Final = re.compile(r"[^a-zA-Z0-9_]")


class Family(NamedTuple):
    """One name, with all of its series."""

    name: str
    kind: Literal["gauge", "counter"]
    documentation: str
    series: list[tuple[Labels, dict[str, str], float]]  #: labels of the value, those of its client, the value

    def samples(self) -> Iterator[tuple[dict[str, str], float]]:
        """Yield labels and value of each series. They are made here: those of a client may be long, and repeat for each value."""
        for own, of_client, value in self.series:
            yield {_name(key): text for key, text in own} | of_client, value


def client_families(clients: Iterable[ClientInstance]) -> Iterator[Family | None]:
    """Yield the families of all clients, and None where the caller may pause: at least every 500 values."""
    found: dict[str, Family] = {}
    for client in clients:
        owner = _labels_of(client)
        yield None
        for number, sample in enumerate(client.metrics.samples(), 1):
            for name, kind, value in _series_of(sample):
                family = found.get(name)
                if family is None:
                    family = found[name] = Family(name, kind, f"{sample.name} as its client pushed it (KIP-714).", [])
                family.series.append((sample.labels, owner, value))
            if number % _STEP == 0:
                yield None
    yield from found.values()


def _labels_of(client: ClientInstance) -> dict[str, str]:
    return {_name(key): text for key, text in client.labels} | {
        "client_id": client.client_id or "",
        "client_instance_id": str(client.instance_id),
        "client_software_name": client.software_name,
        "client_software_version": client.software_version,
    }


def _series_of(sample: Sample) -> list[tuple[str, Literal["gauge", "counter"], float]]:
    name = _name(sample.name)
    if sample.kind == "histogram":
        return [(f"{name}_sum", "counter", sample.value), (f"{name}_count", "counter", sample.observation_count)]
    return [(name, sample.kind, sample.value)]


def _name(text: str) -> str:
    name = _NOT_IN_NAMES.sub("_", text)
    return name if name and not name[0].isdigit() else f"_{name}"
