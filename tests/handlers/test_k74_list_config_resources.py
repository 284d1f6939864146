"""ListConfigResources: golden frames of real clients; codes as Apache Kafka 4.3.1 gave them (raw frames, one KRaft node, 2026-11-21)."""

from __future__ import annotations

import pytest

from minibroker.schemas import k74_list_config_resources as schema
from minibroker.schemas.internal.setting_records import ConfigRecord
from tests.golden import golden
from tests.support.broker_in_memory import BrokerInMemory
from tests.support.golden_exchange import kafka_answers, kafka_like, serve

STEM = "k74_list_config_resources"
TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32


def with_resources(resources: list[schema.Resource]) -> BrokerInMemory:
    """A broker that has these topics, in this order, and these configs that Apache Kafka left in the metadata log."""
    broker = kafka_like(topics={each.resource_name: 1 for each in resources if each.resource_type == TOPIC})
    for each in resources:
        if each.resource_type in {GROUP, METRICS}:
            config = ConfigRecord(resource_type=each.resource_type, resource_name=each.resource_name, name="a", value="1")
            broker.cluster.image.apply(config)
    return broker


def ask(broker: BrokerInMemory, *types: int, version: int = 1) -> tuple[int, list[tuple[int, str]]]:
    answer = broker.ask(schema.Request(resource_types=list(types)), version)
    return answer.error_code, [(each.resource_type, each.resource_name) for each in answer.config_resources]


@pytest.mark.parametrize(
    ("request_name", "response_name"),
    [
        ("v0_request_franz_go_1.22.2_groups", "v0_response_franz_go_1.22.2_groups"),
        ("v1_request_franz_go_1.22.2_groups_small", "v1_response_franz_go_1.22.2_groups"),
        ("v1_request_java_4.3.1_admin_tools", "v1_response_java_4.3.1_admin_tools_small"),
        ("v1_request_kafka_python_3.0.12_admin", "v1_response_kafka_python_3.0.12_admin"),
    ],
)
def test_golden_requests_get_kafka_bytes(request_name: str, response_name: str) -> None:
    request, response = golden(f"{STEM}_{request_name}"), golden(f"{STEM}_{response_name}")
    answer = serve(with_resources(response.decode().config_resources), request)
    assert answer == response.data[:4] + request.frame[4:8] + response.data[8:]
    assert answer in kafka_answers(request)


def test_only_requested_types_are_listed_once() -> None:
    broker = with_resources([schema.Resource(resource_name="orders", resource_type=TOPIC)])
    assert ask(broker, TOPIC, TOPIC, BROKER) == (0, [(BROKER, "1"), (TOPIC, "orders")])
    assert ask(broker, LOGGER) == (0, [(LOGGER, "1")])
    assert ask(broker, GROUP, METRICS) == (0, [])
    assert ask(broker) == (0, [(LOGGER, "1"), (BROKER, "1"), (TOPIC, "orders")])


@pytest.mark.parametrize("types", [(0,), (1,), (3,), (-1,), (TOPIC, 5)])
def test_unknown_resource_type(types: tuple[int, ...]) -> None:
    assert ask(BrokerInMemory(topics={"orders": 1}), *types) == (35, [])


def test_version_0_lists_only_client_metrics() -> None:
    names = [schema.Resource(resource_name=name, resource_type=kind) for name, kind in (("m", METRICS), ("g", GROUP), ("t", TOPIC))]
    assert ask(with_resources(names), version=0) == (0, [(METRICS, "m")])


def test_resource_without_configs_is_not_listed() -> None:
    broker = with_resources([schema.Resource(resource_name="g", resource_type=GROUP)])
    assert ask(broker, GROUP) == (0, [(GROUP, "g")])
    broker.cluster.image.apply(ConfigRecord(resource_type=GROUP, resource_name="g", name="a", value=None))
    assert ask(broker, GROUP) == (0, [])
