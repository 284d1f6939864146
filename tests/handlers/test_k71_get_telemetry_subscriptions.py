"""GetTelemetrySubscriptions: golden frames of real clients, and what ApiVersions lists. test_telemetry_scenes.py has the rest."""

from __future__ import annotations

from uuid import UUID

import pytest

from minibroker.dispatch import telemetry_offer
from minibroker.errors import WireError
from minibroker.schemas import k18_api_versions as k18
from minibroker.schemas import k71_get_telemetry_subscriptions as schema
from minibroker.telemetry import telemetry
from tests.golden import golden
from tests.support.broker_in_memory import BrokerInMemory
from tests.support.golden_exchange import answer_of, kafka_answer, serve
from tests.support.golden_requests import requests_of
from tests.support.telemetry import PushingClient

KEYS = {71, 72}


def listed(broker: BrokerInMemory) -> set[int]:
    answer = broker.ask(k18.Request(client_software_name="a", client_software_version="1"))
    return {api.api_key for api in answer.api_keys} & KEYS


@pytest.mark.parametrize("name", requests_of("k71_get_telemetry_subscriptions"))
def test_golden_requests_get_kafka_bytes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    request = golden(name)
    monkeypatch.setattr(telemetry, "uuid4", lambda: answer_of(request).client_instance_id)
    broker = BrokerInMemory(config={"minibroker.telemetry.interval.ms": "500"})
    assert serve(broker, request) == kafka_answer(request)


def test_clients_are_asked_for_all_metrics_by_default() -> None:
    client = PushingClient(BrokerInMemory())
    assert (client.subscription.requested_metrics, client.subscription.push_interval_ms) == (["org.apache.kafka."], 5_000)
    assert client.instance_id not in {UUID(int=0), PushingClient(BrokerInMemory()).instance_id}


@pytest.mark.parametrize("config", [{"minibroker.telemetry": "false"}, {"minibroker.like.kafka": "true"}])
def test_apis_are_not_listed_where_telemetry_is_off(config: dict[str, str]) -> None:
    broker = BrokerInMemory(config=config)
    assert listed(broker) == set()
    assert broker.services.telemetry is None
    with pytest.raises(WireError):
        broker.ask(schema.Request(client_instance_id=UUID(int=0)))
    assert listed(BrokerInMemory()) == KEYS


def test_apis_are_not_listed_without_the_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telemetry_offer, "_PACKAGES", (("opentelemetry", "opentelemetry.no_such_package"),))
    telemetry_offer.are_installed.cache_clear()
    assert listed(BrokerInMemory()) == set()
    telemetry_offer.are_installed.cache_clear()
