"""Describing and altering brokers, compared with Apache Kafka 4.3.1 (tests/golden/captures/broker_configs.py), config by config."""

from __future__ import annotations

from typing import Any

import pytest

from minibroker.config.broker_config import BrokerConfig
from minibroker.config.broker_properties import BROKER_PROPERTIES, DESCRIBED_IF_SET, DYNAMIC_ONLY
from minibroker.config.definition import SOURCE_DEFAULT, SOURCE_STATIC_BROKER
from minibroker.config.differences import KAFKA_DEFAULTS, NOT_KAFKAS, READ_ONLY_HERE
from minibroker.handlers.k32_describe_configs import PIECES
from minibroker.schemas import k32_describe_configs as k32
from tests.config.kafka_configs import ATTEMPTS, DESCRIBED, DOCUMENTATION, STEPS
from tests.golden import broker_config_scenes as scenes
from tests.golden.broker_config_scenes import ALL, NODE, SEEN, SET, change, describe, refusal, replace, rows, step
from tests.support.broker_in_memory import BrokerInMemory

#: what the properties file of the Kafka that was asked sets; its log directory was a temporary one
STATIC = {
    name: synonyms[0][1]
    for name, (_, _, source, _, _, synonyms) in DESCRIBED.items()
    if source == SOURCE_STATIC_BROKER and name not in {"log.dirs", "broker.id"}
}


def broker() -> BrokerInMemory:
    return BrokerInMemory(config=STATIC)


def deliberate(name: str, row: list[Any]) -> list[Any]:
    """Kafka's row of a config with the differences that minibroker/config/differences.py lists."""
    value, kind, source, is_read_only, is_sensitive, synonyms = row
    if name in KAFKA_DEFAULTS:
        default = BROKER_PROPERTIES[name].default
        kept = [each for each in synonyms if each[2] != SOURCE_DEFAULT]
        synonyms = kept + ([[name, default, SOURCE_DEFAULT]] if default is not None else [])
        value = value if kept else default
    return [value, kind, source, is_read_only or name in READ_ONLY_HERE, is_sensitive, synonyms]


def test_every_kafka_config_is_described_like_kafka() -> None:
    requested = broker()
    requested.ask(change(ALL, [("min.insync.replicas", SET, "1")]))  # which Kafka stores when it formats its directory
    ours = rows(requested.ask(describe(NODE)))
    assert set(DESCRIBED) - set(ours) == set()
    assert set(ours) - set(DESCRIBED) == NOT_KAFKAS - DESCRIBED_IF_SET
    own = requested.config.static.keys() - STATIC.keys() - {"broker.id"}  # what every broker in memory sets
    assert "log.dirs" in own < set(DESCRIBED)
    assert len(own) < 10
    for name in set(DESCRIBED) - own:
        assert (name, ours[name]) == (name, deliberate(name, DESCRIBED[name]))


def test_documentation_of_supported_configs_is_our_own() -> None:
    found = {each.name: each.documentation for each in broker().ask(describe(NODE, documentation=True)).results[0].configs}
    assert {name: found[name] for name in DOCUMENTATION if name not in BROKER_PROPERTIES} == {
        name: text for name, text in DOCUMENTATION.items() if name not in BROKER_PROPERTIES
    }
    assert [name for name in found if name in BROKER_PROPERTIES and found[name] != BROKER_PROPERTIES[name].documentation] == []


@pytest.mark.parametrize(("name", "value", "for_one", "for_all", "whole"), ATTEMPTS, ids=lambda each: str(each)[:40])
def test_changes_are_accepted_or_refused_like_kafka(
    name: str, value: str, for_one: list[Any], for_all: list[Any], whole: list[Any]
) -> None:
    requested = broker()
    assert refusal(requested.ask(change(NODE, [(name, SET, value)], validate_only=True))) == for_one
    assert refusal(requested.ask(change(ALL, [(name, SET, value)], validate_only=True))) == for_all
    assert refusal(requested.ask(replace(NODE, {name: value}, validate_only=True))) == whole


def test_stored_configs_are_described_like_kafka_after_a_restart() -> None:
    requested = broker()
    for request, (answer, of_one, of_all) in zip(scenes.STEPS, STEPS, strict=True):
        assert refusal(requested.ask(step(*request))) == answer
        for _ in range(2):
            assert rows(requested.ask(describe(NODE, SEEN))) == of_one
            assert rows(requested.ask(describe(ALL, SEEN))) == of_all
            requested = requested.restart(clean=False)


def test_configs_without_effect_are_described_from_the_properties_file() -> None:
    requested = BrokerInMemory(
        config={"sasl.enabled.mechanisms": "PLAIN", "ssl.key.password": "secret", "my.plugin": "x", "replica.fetch.max.bytes": "x"}
    )
    names = ["sasl.enabled.mechanisms", "ssl.key.password", "my.plugin", "replica.fetch.max.bytes"]
    found = {each.name: each for each in requested.ask(describe(NODE, names)).results[0].configs}
    assert {name: (each.value, each.config_source, each.is_sensitive) for name, each in found.items()} == {
        "sasl.enabled.mechanisms": ("PLAIN", SOURCE_STATIC_BROKER, False),
        "ssl.key.password": (None, SOURCE_STATIC_BROKER, True),
        "my.plugin": (None, SOURCE_STATIC_BROKER, True),
        "replica.fetch.max.bytes": ("x", SOURCE_STATIC_BROKER, False),
    }


@pytest.mark.parametrize("properties", [{"node.id": "7"}, {"broker.id": "7"}, {"node.id": "7", "broker.id": "7"}])
def test_node_id_and_broker_id_are_synonyms(properties: dict[str, str]) -> None:
    config = BrokerConfig(properties)
    config.set_dynamic({}, {"message.max.bytes": "5000"})
    assert config.node_id == 7
    assert [(config.text(name), config.value(name)) for name in ("node.id", "broker.id")] == [("7", 7), ("7", 7)]


def test_broker_is_described_in_its_own_slice() -> None:
    """With its hundreds of configs; tests/dispatch/test_pieces.py has what that means."""
    broker_resource = k32.Resource(resource_type=scenes.BROKER, resource_name=NODE, configuration_keys=None)
    topic = k32.Resource(resource_type=2, resource_name="orders", configuration_keys=None)
    chosen = k32.Resource(resource_type=scenes.BROKER, resource_name=NODE, configuration_keys=["node.id"])
    for resources, is_one in (
        ([broker_resource], True),
        ([broker_resource] * 2, False),
        ([broker_resource, topic], False),
        ([topic] * 10, True),
        ([topic] * 11, False),
        ([chosen] * 5, True),
        ([chosen] * 6, False),
    ):
        assert PIECES.is_one(k32.Request(resources=resources)) == is_one
    results = broker().ask(k32.Request(resources=[broker_resource] * 20)).results
    assert [len(result.configs) for result in results] == [len(results[0].configs)] * 20
    assert len(results[0].configs) >= len(DESCRIBED)
    assert not DYNAMIC_ONLY & {each.name for each in results[0].configs}
