"""Metrics that clients push are on /metrics, in both formats, under the client's names."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from itertools import pairwise
from typing import Any
from uuid import UUID

import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData
from prometheus_client.openmetrics import parser

from minibroker.metrics import scrape
from minibroker.schemas import k18_api_versions as k18
from minibroker.schemas import k71_get_telemetry_subscriptions as k71
from minibroker.schemas import k72_push_telemetry as k72
from minibroker.telemetry.payload import Payload, Point
from minibroker.testing import Broker
from tests.golden import golden
from tests.metrics.conftest import Scraped
from tests.support.kafka_users import KafkaUser
from tests.support.telemetry import connection

STRANGE = 'a"b\\c\nd{e="f"} # é'
JAVA = golden("k72_push_telemetry_v0_request_java_4.3.1").decode()


open_metrics: Any = parser.text_string_to_metric_families  # without types


def push(bootstrap_servers: str, codec: int, metrics: bytes, client_id: str = "reader") -> str:
    """Push as one client; return its instance id."""
    with KafkaUser(int(bootstrap_servers.rpartition(":")[2]), "") as client:
        client.ask(k18.Request(client_software_name="apache-kafka-java", client_software_version="4.3.1"))
        subscription = client.ask(k71.Request(client_instance_id=JAVA.client_instance_id), client_id=client_id)
        request = k72.Request(
            client_instance_id=subscription.client_instance_id,
            subscription_id=subscription.subscription_id,
            terminating=False,
            compression_type=codec,
            metrics=metrics,
        )
        assert client.ask(request, client_id=client_id).error_code == 0
        return str(subscription.client_instance_id)


async def test_a_consumer_of_java(broker: Broker, scraped: Scraped) -> None:
    instance_id = await asyncio.to_thread(push, broker.bootstrap_servers, JAVA.compression_type, JAVA.metrics)
    consumed = "org_apache_kafka_consumer_fetch_manager_records_consumed_total"
    owner = {
        "client_id": "reader",
        "client_instance_id": instance_id,
        "client_software_name": "apache-kafka-java",
        "client_software_version": "4.3.1",
        "group_id": "telemetry",
    }
    assert await scraped(consumed, topic="telemetry", **owner) == 20
    latency = await scraped("org_apache_kafka_consumer_node_request_latency_avg", node_id="node--1", **owner)
    assert latency is not None
    assert math.isnan(latency)


async def test_openmetrics_of_it_is_valid(broker: Broker, scraped: Scraped) -> None:
    await asyncio.to_thread(push, broker.bootstrap_servers, JAVA.compression_type, JAVA.metrics)
    text = await scraped.scraper.text(is_open_metrics=True)
    names = {family.name for family in open_metrics(text)}
    assert "org_apache_kafka_consumer_fetch_manager_records_consumed" in names


async def test_strange_names_and_labels(broker: Broker, scraped: Scraped) -> None:
    message = MetricsData()
    scope = message.resource_metrics.add().scope_metrics.add()
    for name in (STRANGE, "1st", "minibroker_build_info", "minibroker_build", "kafka_brokers", "process_open_fds"):
        point = scope.metrics.add(name=name).gauge.data_points.add(as_double=2)
        point.attributes.add(key=STRANGE).value.string_value = STRANGE
    for name in ("pair", "pair.total"):  # in OpenMetrics, the counter is a family of the same name
        scope.metrics.add(name=name).gauge.data_points.add(as_double=2)
    total = scope.metrics[-1].sum
    total.is_monotonic = True
    total.data_points.add(as_double=2)
    await asyncio.to_thread(push, broker.bootstrap_servers, 0, message.SerializeToString(), STRANGE)
    found = await scraped.all()
    assert [dict(labels)["client_id"] for labels in found["_1st"]] == [STRANGE]
    assert [value for labels, value in found["kafka_brokers"].items()] == [1]
    assert "minibroker_build" not in found
    assert len(found["process_open_fds"]) == 1
    open_text = await scraped.scraper.text(is_open_metrics=True)
    assert [*open_metrics(open_text)]


def owned(broker: Broker, count: int) -> None:
    """Let a client have many values of one metric, and long labels."""
    telemetry = broker._hosted.broker.nodes[0].services.telemetry
    assert telemetry is not None
    client = telemetry._clients.seen(UUID(int=1), "reader", connection(), telemetry._subscriptions.of(UUID(int=1), {}), 0)
    points = [Point("lag", "gauge", "", (("partition", f"{each}"),), each, 0, 0, is_delta=False) for each in range(count)]
    labels = tuple((f"label-{each}", "x" * 256) for each in range(32))
    deque(telemetry._clients.pushed(client, Payload(labels, points, is_complete=True), 0, is_last=False))


async def test_the_series_of_one_name_are_written_in_pieces(broker: Broker, scraped: Scraped) -> None:
    owned(broker, 400)
    pieces: list[str] = []
    lengths = [len("".join(pieces)) for _ in scraped.scraper._text(await scraped.scraper.state(), pieces, is_open_metrics=False)]
    assert lengths[-1] > 3_000_000
    assert max(end - start for start, end in pairwise(lengths)) < 200_000


async def test_the_text_of_pushed_metrics_is_limited(
    broker: Broker, scraped: Scraped, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(scrape, "TELEMETRY_TEXT_MAX", 200_000)
    owned(broker, 100)
    for _ in range(2):
        assert 5 < (await scraped.scraper.text()).count("\nlag{") < 25
    assert [each.message.partition(":")[0] for each in caplog.records] == ["/metrics leaves out some metrics that clients pushed"]
    assert len((await scraped.all())["kafka_brokers"]) == 1
