"""IncrementalAlterConfigs: the answers of Apache Kafka; changes that reach open logs and outlive a restart."""

from __future__ import annotations

from minibroker.schemas import k44_incremental_alter_configs as schema
from tests.handlers.kafka_answers import differences
from tests.support.broker_in_memory import BrokerInMemory

TOPIC, BROKER = 2, 4
SET, DELETE = 0, 1


def change(kind: int, name: str, key: str, value: str | None) -> schema.Request:
    config = schema.Config(name=key, config_operation=DELETE if value is None else SET, value=value)
    return schema.Request(resources=[schema.Resource(resource_type=kind, resource_name=name, configs=[config])], validate_only=False)


def test_answers_as_apache_kafka_does() -> None:
    assert differences("k44_incremental_alter_configs") == []


def test_topic_change_applies_to_its_open_log() -> None:
    broker = BrokerInMemory(topics={"orders": 1})
    log = broker.cluster.partition("orders", 0).log

    broker.ask(change(TOPIC, "orders", "segment.bytes", "70"))
    assert log.config.segment_bytes == 70
    broker.ask(change(TOPIC, "orders", "segment.bytes", None))
    assert log.config.segment_bytes == 1024**3


def test_broker_change_applies_to_logs_without_an_override() -> None:
    broker = BrokerInMemory(topics={"orders": 1})
    broker.cluster.create_topic("small", configs={"max.message.bytes": "100"})

    broker.ask(change(BROKER, "", "message.max.bytes", "5000"))
    broker.ask(change(BROKER, "1", "message.max.bytes", "6000"))
    broker = broker.restart(clean=False)

    assert broker.config.message_max_bytes == 6000
    assert broker.cluster.partition("orders", 0).log.config.max_message_bytes == 6000
    assert broker.cluster.partition("small", 0).log.config.max_message_bytes == 100


def test_token_secret_key_cannot_be_changed() -> None:
    """The broker would read the file, or ask the server, that a client names (CVE-2025-27817)."""
    url = "sasl.oauthbearer.jwks.endpoint.url"
    for name in (url, f"listener.name.x.{url}", f"listener.name.x.oauthbearer.{url}"):
        config = schema.Config(name=name, config_operation=0, value="file:///etc/passwd")
        request = schema.Request(resources=[schema.Resource(resource_type=4, resource_name="1", configs=[config])], validate_only=False)
        (answer,) = BrokerInMemory().ask(request).responses
        assert (answer.error_code, answer.error_message) == (42, f"Cannot update these configs dynamically: [{name}]")
