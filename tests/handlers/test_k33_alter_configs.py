"""AlterConfigs: the answers of Apache Kafka; what is not named loses its override."""

from __future__ import annotations

from minibroker.errors import InvalidRequest
from minibroker.schemas import k33_alter_configs as schema
from tests.handlers.kafka_answers import differences
from tests.support.broker_in_memory import BrokerInMemory

TOPIC = 2


def request(name: str, times: int = 1, **configs: str) -> schema.Request:
    settings = [schema.Config(name=key.replace("_", "."), value=value) for key, value in configs.items()]
    return schema.Request(
        resources=[schema.Resource(resource_type=TOPIC, resource_name=name, configs=settings)] * times, validate_only=False
    )


def test_answers_as_apache_kafka_does() -> None:
    assert differences("k33_alter_configs") == []


def test_overrides_are_replaced() -> None:
    broker = BrokerInMemory()
    broker.cluster.create_topic("orders", configs={"retention.ms": "5", "segment.bytes": "100"})

    broker.ask(request("orders", retention_ms="7"))

    assert broker.cluster.topics["orders"].config == {"retention.ms": "7"}
    log = broker.cluster.partition("orders", 0).log
    assert (log.config.retention_ms, log.config.segment_bytes) == (7, 1024**3)


def test_duplicate_resource_is_refused() -> None:
    # Apache Kafka 4.3.1 never answers this one.
    answers = BrokerInMemory(topics={"orders": 1}).ask(request("orders", times=2, retention_ms="7")).responses
    assert [answer.error_code for answer in answers] == [InvalidRequest.code] * 2
