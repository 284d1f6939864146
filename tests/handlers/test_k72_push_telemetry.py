"""PushTelemetry: golden frames of real clients, payloads that are not valid, and limits. test_telemetry_scenes.py has the rest."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from minibroker.background import InlineBackground
from minibroker.config.request_limits import TELEMETRY_PUSHES_MAX
from minibroker.dispatch.context import ConnectionInfo
from minibroker.records.compression import Compression
from minibroker.schemas import k71_get_telemetry_subscriptions as k71
from tests.golden import golden
from tests.golden.telemetry_scenes import payload
from tests.support.broker_in_memory import BrokerInMemory
from tests.support.golden_exchange import kafka_answer, serve
from tests.support.golden_requests import requests_of
from tests.support.telemetry import PushingClient, telemetry_of


@pytest.mark.parametrize("name", requests_of("k72_push_telemetry"))
def test_golden_requests_get_kafka_bytes_and_their_metrics_are_kept(name: str) -> None:
    request = golden(name)
    pushed = request.decode()
    broker = BrokerInMemory(config={"minibroker.telemetry.interval.ms": "500"})
    broker.ask(k71.Request(client_instance_id=pushed.client_instance_id))
    assert serve(broker, request) == kafka_answer(request)
    (client,) = telemetry_of(broker).clients()
    assert (client.instance_id, client.push_count, client.is_terminated) == (pushed.client_instance_id, 1, pushed.terminating)
    assert len(client.metrics) > 0
    assert all(each.startswith("org.apache.kafka.") for each in client.metrics)
    assert {sample.kind for sample in client.metrics.samples()} <= {"gauge", "counter", "histogram"}


def test_a_later_push_replaces_values() -> None:
    client = PushingClient(BrokerInMemory())
    assert client.push(payload(2)) == 0
    assert dict(client.metrics) == {"org.apache.kafka.test.0": 1.5, "org.apache.kafka.test.1": 1.5}
    for _ in range(3):
        assert client.push(payload(1)) == 0
    assert dict(client.metrics) == {"org.apache.kafka.test.0": 1.5}


def test_payloads_that_are_not_valid_change_nothing() -> None:
    client = PushingClient(BrokerInMemory())
    assert client.push(payload(1)) == 0
    assert client.push(b"\xff\xff") == 87
    assert client.push(b"") == 0
    assert dict(client.metrics) == {"org.apache.kafka.test.0": 1.5}


class HeldBackground(InlineBackground):
    """Runs work when the test says so."""

    def __init__(self) -> None:
        self.held: list[Callable[[], None]] = []

    def submit(self, work, done):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201  as Background declares it
        self.held.append(lambda: InlineBackground.submit(self, work, done))


def test_payloads_are_decoded_in_another_thread() -> None:
    broker = BrokerInMemory()
    client = PushingClient(broker)
    background = telemetry_of(broker)._background = HeldBackground()
    pending = client.begin_push(payload(1), Compression.NONE, is_last=True)
    assert not pending.is_done
    assert dict(client.metrics) == {}
    (run,) = background.held
    run()
    broker.clock.advance(1)
    assert pending.answer().error_code == 0
    assert dict(client.metrics) == {"org.apache.kafka.test.0": 1.5}


def test_last_metrics_are_kept_if_the_client_closes_its_connection() -> None:
    broker = BrokerInMemory()
    client = PushingClient(broker)
    background = telemetry_of(broker)._background = HeldBackground()
    pending = client.begin_push(payload(1))
    pending.in_flight.cancel()
    client.connection.closed()
    background.held.pop()()
    assert dict(client.metrics) == {"org.apache.kafka.test.0": 1.5}
    (known,) = telemetry_of(broker).clients()
    assert not known.is_connected


def test_many_values_are_taken_in_several_turns() -> None:
    broker = BrokerInMemory()
    client = PushingClient(broker)
    pending = client.begin_push(payload(1200))
    assert (len(client.metrics), pending.is_done) == (500, False)
    broker.clock.advance(0)
    assert (len(client.metrics), pending.is_done) == (1200, True)


def test_pushes_that_wait_are_limited() -> None:
    broker = BrokerInMemory()
    background = HeldBackground()
    telemetry_of(broker)._background = background
    clients = [PushingClient(broker) for _ in range(TELEMETRY_PUSHES_MAX + 1)]
    waiting = [client.begin_push(payload(1)) for client in clients]
    assert waiting.pop().answer().error_code == 89
    assert len(background.held) == TELEMETRY_PUSHES_MAX
    for run in background.held:
        run()
    assert {pending.answer().error_code for pending in waiting} == {0}
    assert clients[-1].begin_push(payload(1)).is_done is False


def test_clients_stay_known_after_their_connection() -> None:
    broker = BrokerInMemory()
    client = PushingClient(broker, "orders")
    assert client.push(payload(1), is_last=True) == 0
    client.connection.closed()
    (known,) = telemetry_of(broker).clients()
    assert (known.client_id, known.is_connected, known.is_terminated) == ("orders", False, True)
    assert (known.software_name, known.software_version, known.host, known.port) == ("scenes", "1.2", "127.0.0.1", 50_000)
    broker.clock.advance(600_000)
    assert telemetry_of(broker).clients() == []


def test_connections_without_telemetry_are_no_clients() -> None:
    broker = BrokerInMemory()
    broker.connection = ConnectionInfo("PLAINTEXT", "127.0.0.1")
    assert telemetry_of(broker).clients() == []
