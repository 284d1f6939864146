"""DescribeConfigs: every config with its source and synonyms, as Apache Kafka shows them."""

from __future__ import annotations

from minibroker.config.definition import SOURCE_DEFAULT, SOURCE_DYNAMIC_TOPIC, SOURCE_STATIC_BROKER
from minibroker.schemas import k32_describe_configs as schema
from tests.config.kafka_configs import TOPIC_CONFIGS
from tests.handlers.kafka_answers import differences
from tests.support.broker_in_memory import BrokerInMemory

TOPIC, BROKER = 2, 4


def describe(broker: BrokerInMemory, kind: int, name: str, *, documentation: bool = False) -> dict[str, schema.Config]:
    resource = schema.Resource(resource_type=kind, resource_name=name, configuration_keys=None)
    request = schema.Request(resources=[resource], include_synonyms=True, include_documentation=documentation)
    return {config.name: config for config in broker.ask(request).results[0].configs}


def test_answers_as_apache_kafka_does() -> None:
    assert differences("k32_describe_configs") == []


def test_topic_without_overrides_matches_apache_kafka() -> None:
    broker = BrokerInMemory(topics={"orders": 1})
    broker.cluster.configs.alter_broker("", {"min.insync.replicas": "1"})  # Kafka's formatting stores it

    configs = describe(broker, TOPIC, "orders")

    ours = {
        name: [config.value, config.config_type, config.config_source, config.read_only, config.is_sensitive,
               [[each.name, each.value, each.source] for each in config.synonyms]]
        for name, config in configs.items()
    }  # fmt: skip
    assert ours == TOPIC_CONFIGS


def test_every_config_is_documented() -> None:
    broker = BrokerInMemory(topics={"orders": 1})
    for kind, name in ((TOPIC, "orders"), (BROKER, "1")):
        undocumented = [config.name for config in describe(broker, kind, name, documentation=True).values() if not config.documentation]
        assert undocumented == []


def test_config_sources() -> None:
    broker = BrokerInMemory(config={"log.retention.hours": "2", "log.segment.bytes": "1000"})
    broker.cluster.create_topic("orders", configs={"retention.ms": "5"})
    broker.cluster.create_topic("clicks")

    orders, clicks = describe(broker, TOPIC, "orders"), describe(broker, TOPIC, "clicks")

    assert (orders["retention.ms"].value, orders["retention.ms"].config_source) == ("5", SOURCE_DYNAMIC_TOPIC)
    assert clicks["retention.ms"].value == "7200000"
    assert (clicks["segment.bytes"].value, clicks["segment.bytes"].config_source) == ("1000", SOURCE_STATIC_BROKER)
    assert clicks["flush.ms"].config_source == SOURCE_DEFAULT


def test_version_0_reports_defaults() -> None:
    broker = BrokerInMemory(config={"log.segment.bytes": "1000"})
    broker.cluster.create_topic("orders", configs={"retention.ms": "5"})
    keys = ["retention.ms", "segment.bytes", "flush.ms"]
    resource = schema.Resource(resource_type=TOPIC, resource_name="orders", configuration_keys=keys)
    configs = broker.ask(schema.Request(resources=[resource]), 0).results[0].configs
    assert {config.name: (config.value, config.is_default) for config in configs} == {
        "retention.ms": ("5", False),
        "segment.bytes": ("1000", False),
        "flush.ms": ("9223372036854775807", True),
    }
