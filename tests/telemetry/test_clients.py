"""Client instances and their latest values: totals of deltas, look-up by name, families, and what is forgotten."""

from __future__ import annotations

from collections import deque
from uuid import UUID

import pytest

from minibroker.dispatch.context import ConnectionInfo
from minibroker.telemetry import clients as module
from minibroker.telemetry.clients import ClientInstance, Clients, Metrics
from minibroker.telemetry.families import client_families
from minibroker.telemetry.payload import Kind, Labels, Payload, Point
from minibroker.telemetry.subscriptions import InstanceSubscription

SUBSCRIPTION = InstanceSubscription(1, ("org.apache.kafka.",), 5_000)


def point(name: str, value: float, kind: Kind = "gauge", *, is_delta: bool = False, count: int = 0, **labels: str) -> Point:
    return Point(f"org.apache.kafka.{name}", kind, "", tuple(sorted(labels.items())), value, count, 0, is_delta)


def push(metrics: Metrics, *points: Point) -> None:
    deque(metrics.update(Payload((), [*points], is_complete=True)))


def seen(clients: Clients, number: int, now_ms: int = 0, labels: Labels = ()) -> ClientInstance:
    connection = ConnectionInfo("PLAINTEXT", "127.0.0.1", client_port=number)
    client = clients.seen(UUID(int=number), f"client-{number}", connection, SUBSCRIPTION, now_ms)
    client.labels = labels
    return client


def pushed(clients: Clients, client: ClientInstance, *points: Point) -> None:
    deque(clients.pushed(client, Payload((), [*points], is_complete=True), 0, is_last=False))


def test_deltas_are_added_up() -> None:
    metrics = Metrics()
    for _ in range(3):
        push(metrics, point("sent", 5, "counter", is_delta=True), point("time", 2, "histogram", is_delta=True, count=4), point("size", 7))
    push(metrics, point("sent", 5, "counter", is_delta=True), point("total", 9, "counter"))
    assert dict(metrics) == {
        "org.apache.kafka.sent": 20,
        "org.apache.kafka.time": 6,
        "org.apache.kafka.size": 7,
        "org.apache.kafka.total": 9,
    }
    assert {each.name[17:]: each.observation_count for each in metrics.samples()} == {"sent": 0, "time": 12, "size": 0, "total": 0}


def test_values_are_found_by_name_and_labels() -> None:
    metrics = Metrics()
    push(metrics, point("latency", 1, node="1"), point("latency", 2, node="2"), point("sent", 3, "counter", topic="a"))
    push(metrics, point("sent", 4, "counter", topic="b"))
    assert metrics["sent"] == metrics["org.apache.kafka.sent"] == 7
    assert metrics.value("sent", topic="b") == 4
    assert metrics.value("latency", node="2") == 2
    push(metrics, point("sent", 7, "counter"))
    assert metrics["sent"] == 7  # not 14: a total beside its parts
    with pytest.raises(ValueError, match="latency has 2 values, name labels of one: node=1; node=2"):
        metrics["latency"]
    with pytest.raises(KeyError, match="nothing"):
        metrics["nothing"]
    assert (len(metrics), "sent" in metrics, "nothing" in metrics) == (2, True, False)


def test_metrics_of_a_client_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TELEMETRY_BYTES_OF_CLIENT_MAX", 5_000)
    metrics = Metrics()
    push(metrics, *(point("lag", number, partition=f"{number}") for number in range(100)))
    assert not metrics.is_complete
    assert 5 < len(metrics.samples()) < 15
    assert metrics.byte_count <= 5_000


def test_memory_of_all_clients_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TELEMETRY_BYTES_MAX", 5_000)
    clients = Clients()
    for number in range(1, 11):
        client = seen(clients, number)
        pushed(clients, client, *(point("lag", each, partition=f"{each}") for each in range(5)))
    assert [len(client.metrics.samples()) for client in clients.all()] == [0] * 8 + [5] * 2
    assert sum(client.metrics.byte_count for client in clients.all()) <= 5_000


def test_memory_is_limited_although_metrics_are_forgotten_while_a_push_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TELEMETRY_BYTES_MAX", 5_000)
    monkeypatch.setattr(module, "_STEP", 5)
    clients = Clients()
    first, second = seen(clients, 1), seen(clients, 2)
    points = [point("lag", each, partition=f"{each}") for each in range(10)]
    steps = clients.pushed(first, Payload((), points, is_complete=True), 0, is_last=False)
    next(steps)
    pushed(clients, second, *points)  # forgets the metrics of the first client
    deque(steps)
    for number in range(3, 9):
        pushed(clients, seen(clients, number), *points[:3])
        assert sum(client.metrics.byte_count for client in clients.all()) <= 5_000


def test_number_of_clients_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CLIENTS_MAX", 3)
    clients = Clients()
    for number in (1, 2, 3, 1, 4):
        seen(clients, number)
    assert {client.client_id for client in clients.all()} == {"client-1", "client-3", "client-4"}


def test_clients_are_forgotten_after_their_connection() -> None:
    clients = Clients()
    for number in (1, 2):
        seen(clients, number, now_ms=1_000)
    clients.disconnected("127.0.0.1", 1)
    clients.forget_silent(300_999)
    assert [client.is_connected for client in clients.all()] == [False, True]
    clients.forget_silent(301_000)
    assert [client.client_id for client in clients.all()] == ["client-2"]


def test_families_for_prometheus() -> None:
    clients = Clients()
    for number in (1, 2):
        client = seen(clients, number, labels=(("group.id", "readers"),))
        points = [point("fetch-size.avg", number, topic="a-b"), point("time", 2, "histogram", count=4)]
        pushed(clients, client, *points)
    first, second = (
        {
            "group_id": "readers",
            "client_id": f"client-{number}",
            "client_instance_id": str(UUID(int=number)),
            "client_software_name": "unknown",
            "client_software_version": "unknown",
        }
        for number in (1, 2)
    )
    what = "org.apache.kafka.{} as its client pushed it (KIP-714)."
    found = [family for family in client_families(clients.all()) if family is not None]
    assert [(family.name, family.kind, family.documentation, [*family.samples()]) for family in found] == [
        (
            "org_apache_kafka_fetch_size_avg",
            "gauge",
            what.format("fetch-size.avg"),
            [({"topic": "a-b"} | first, 1), ({"topic": "a-b"} | second, 2)],
        ),
        ("org_apache_kafka_time_sum", "counter", what.format("time"), [(first, 2), (second, 2)]),
        ("org_apache_kafka_time_count", "counter", what.format("time"), [(first, 4), (second, 4)]),
    ]
