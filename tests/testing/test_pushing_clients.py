"""`broker.clients`: what real clients push, in each form of a broker under test, over HTTP and by `minibroker lab`."""

from __future__ import annotations

import asyncio
import json
import math
from collections import deque
from collections.abc import Callable
from uuid import UUID

import pytest

from minibroker.dispatch.context import ConnectionInfo
from minibroker.telemetry.clients import Clients
from minibroker.telemetry.payload import Payload, Point
from minibroker.telemetry.subscriptions import InstanceSubscription
from minibroker.testing import Broker, BrokerError, BrokerProcess, BrokerThread, GivenCluster, PushingClient, Surface
from minibroker.testing.clients import from_json, to_json
from tests.support.becoming import wait_until
from tests.support.confluent import Producer

LATENCY = "producer.node.request.latency.max"


def pushed(bootstrap_servers: str, clients: Callable[[], list[PushingClient]]) -> PushingClient:
    """Produce until the broker has values of the producer."""
    producer = Producer({"bootstrap.servers": bootstrap_servers, "client.id": "orders"})
    found: list[PushingClient] = []

    def has_pushed() -> bool:
        producer.produce("orders", b"value")
        producer.poll(0.05)
        found[:] = [each for each in clients() if each.client_id == "orders" and f"org.apache.kafka.{LATENCY}" in each.metrics]
        return any(each.metrics.value(LATENCY, **{"node.id": "1"}) > 0 for each in found)

    wait_until(has_pushed, "the producer has not pushed")
    (client,) = found
    return client


def check(client: PushingClient) -> None:
    assert (client.software_name, client.host, client.principal) == ("confluent-kafka-python", "127.0.0.1", "User:ANONYMOUS")
    assert (client.push_interval_ms, client.requested_metrics) == (1_000, ("org.apache.kafka.",))
    assert (client.is_connected, client.is_terminated) == (True, False)
    assert client.port > 0
    assert client.push_count >= 1
    assert client.metrics["org.apache.kafka.producer.record.queue.time.avg"] >= 0


@pytest.mark.parametrize("form", [BrokerThread, BrokerProcess])
def test_a_producer_shows_what_it_measured(form: type[BrokerThread | BrokerProcess]) -> None:
    with form(topics={"orders": 1}) as broker:
        assert broker.clients == []
        check(pushed(broker.bootstrap_servers, lambda: broker.clients))


def test_a_producer_in_an_asynchronous_test() -> None:
    async def main() -> None:
        async with Broker(topics={"orders": 1}) as broker:
            check(await asyncio.to_thread(pushed, broker.bootstrap_servers, lambda: broker.clients))

    asyncio.run(main())


def test_a_producer_that_closes_pushes_at_once() -> None:
    with BrokerThread(topics={"orders": 1}, config={"minibroker.telemetry.interval.ms": 3_600_000}) as broker:

        def pushed_at_its_end() -> bool:
            """Whether a producer pushed when it closed: it does not if it closes before it knows its subscription."""
            broker.reset()
            producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "client.id": "orders"})
            wait_until(lambda: [each.client_id for each in broker.clients] == ["orders"], "the producer has not asked for its subscription")
            del producer
            wait_until(lambda: not broker.clients[0].is_connected, "the producer is still connected")
            (client,) = broker.clients
            assert client.push_count == client.is_terminated
            return client.is_terminated

        wait_until(pushed_at_its_end, "no producer has pushed at its end")


def test_no_client_pushes_where_telemetry_is_off() -> None:
    with BrokerThread(topics={"orders": 1}, config={"minibroker.telemetry": False}) as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        producer.produce("orders", b"value")
        assert producer.flush(30) == 0
        assert broker.clients == []
        assert [*broker.request_log.of("GetTelemetrySubscriptions")] == []


def test_json_keeps_everything() -> None:
    clients = Clients()
    connection = ConnectionInfo("PLAINTEXT", "127.0.0.1", client_port=5)
    client = clients.seen(UUID(int=7), None, connection, InstanceSubscription(1, ("a.", "b."), 100), 1)
    points = [
        Point("m", "gauge", "ms", (("a", "b"),), math.nan, 0, 9, is_delta=False),
        Point("h", "histogram", "", (), 2, 3, 9, is_delta=False),
    ]
    deque(clients.pushed(client, Payload((("group_id", "g"),), points, is_complete=True), 3, is_last=True))
    text = json.dumps(to_json(clients.all()), allow_nan=False)
    (found,) = from_json(json.loads(text))
    assert (found.instance_id, found.client_id, found.labels, found.last_push_ms) == (UUID(int=7), None, {"group_id": "g"}, 3)
    assert found.requested_metrics == ("a.", "b.")
    assert [str(sample) for sample in found.metrics.samples()] == [str(sample) for sample in client.metrics.samples()]
    assert math.isnan(found.metrics.value("m", a="b"))


def test_a_given_kafka_cannot_do_it() -> None:
    cluster: Surface = GivenCluster("localhost:1")
    with pytest.raises(BrokerError, match="clients needs a minibroker"):
        _ = cluster.clients
