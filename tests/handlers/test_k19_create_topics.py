"""CreateTopics: the answers of Apache Kafka, and a topic that is really there."""

from __future__ import annotations

import errno

import pytest

from minibroker.errors import InvalidConfig, InvalidTopicException, KafkaError, KafkaStorageError, PolicyViolation, TopicAlreadyExists
from minibroker.schemas import k19_create_topics as schema
from minibroker.schemas import k32_describe_configs as k32
from minibroker.wire.schema import NIL_UUID
from tests.handlers.kafka_answers import differences
from tests.support.broker_in_memory import BrokerInMemory, records
from tests.support.faulty_files import FaultyFiles


def request(*names: str, count: int = 1, validate_only: bool = False, **configs: str) -> schema.Request:
    settings = [schema.Config(name=name.replace("_", "."), value=value) for name, value in configs.items()]
    topics = [schema.Topic(name=name, num_partitions=count, replication_factor=-1, assignments=[], configs=settings) for name in names]
    return schema.Request(topics=topics, validate_only=validate_only)


def test_answers_as_apache_kafka_does() -> None:
    assert differences("k19_create_topics") == []


def test_topic_is_ready_when_answered() -> None:
    broker = BrokerInMemory()

    (answer,) = broker.ask(request("orders", count=3, retention_ms="77")).topics

    assert (answer.error_code, answer.num_partitions, answer.replication_factor) == (0, 3, 1)
    assert answer.topic_id == broker.cluster.topics["orders"].topic_id != NIL_UUID
    assert broker.append("orders", 2, records(2)).last_offset == 1
    assert broker.cluster.partition("orders", 0).log.config.retention_ms == 77


def test_validate_only_creates_nothing() -> None:
    broker = BrokerInMemory()
    before = sorted(broker.folder.iterdir()), broker.cluster.metadata.last_offset

    (answer,) = broker.ask(request("orders", count=3, validate_only=True)).topics

    assert (answer.error_code, answer.num_partitions) == (0, 3)
    assert broker.cluster.topics == {}
    assert (sorted(broker.folder.iterdir()), broker.cluster.metadata.last_offset) == before


def test_refused_topic_does_not_affect_others() -> None:
    broker = BrokerInMemory(topics={"old": 1})

    answers = {topic.name: topic.error_code for topic in broker.ask(request("new", "old", "newer")).topics}

    assert answers == {"new": 0, "old": TopicAlreadyExists.code, "newer": 0}
    assert set(broker.cluster.topics) == {"new", "old", "newer"}


def test_many_topics_cost_one_fsync() -> None:
    """The loop waits for it: with one each, a request for a thousand topics would stop everybody for seconds."""
    files = FaultyFiles()
    broker = BrokerInMemory(topics={"first": 1}, files=files)
    before = files.counts["sync"]

    answers = broker.ask(request(*(f"orders-{number}" for number in range(50)), "first", count=2)).topics

    assert [answer.error_code for answer in answers] == [0] * 50 + [TopicAlreadyExists.code]
    assert files.counts["sync"] == before + 1
    assert broker.append("orders-49", 1, records(2)).last_offset == 1
    assert set(broker.restart(clean=False).cluster.topics) == {"first", *(f"orders-{number}" for number in range(50))}


def test_disk_failure_creates_no_topic() -> None:
    files = FaultyFiles()
    broker = BrokerInMemory(topics={"first": 1}, files=files)
    files.fail("sync", errno.EIO, path_part="__cluster_metadata")

    answers = {topic.name: topic.error_code for topic in broker.ask(request("orders", "first", "clicks")).topics}

    assert answers == {"orders": KafkaStorageError.code, "first": TopicAlreadyExists.code, "clicks": KafkaStorageError.code}
    assert set(broker.cluster.topics) == {"first"}
    assert [topic.error_code for topic in broker.ask(request("orders", "clicks")).topics] == [0, 0]
    assert set(broker.restart(clean=False).cluster.topics) == {"first", "orders", "clicks"}


def test_colliding_names_in_one_request() -> None:
    answers = {topic.name: topic.error_code for topic in BrokerInMemory().ask(request("a.b", "a_b", "a-b")).topics}
    assert answers == {"a.b": 0, "a_b": InvalidTopicException.code, "a-b": 0}


@pytest.mark.parametrize(("name", "count"), [("clicks", 6), ("orders", 4)], ids=["of the map", "num.partitions"])
def test_the_broker_chooses_the_partition_count(name: str, count: int) -> None:
    broker = BrokerInMemory(config={"num.partitions": "4", "topic.partition.count.map": "clicks:6"})
    assert broker.ask(request(name, count=-1)).topics[0].num_partitions == count


def test_failed_metadata_write_creates_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = BrokerInMemory()

    def fail(*_: object) -> int:
        raise KafkaStorageError("no room")

    monkeypatch.setattr(broker.cluster.metadata.log, "append_all", fail)

    assert broker.ask(request("orders")).topics[0].error_code == KafkaStorageError.code
    assert broker.cluster.topics == {}
    assert not (broker.folder / "orders-0").exists()


def test_partition_limit_of_one_request() -> None:
    broker = BrokerInMemory()
    answers = broker.ask(request("a", "b", count=5_001)).topics
    assert [answer.error_code for answer in answers] == [PolicyViolation.code] * 2
    assert not broker.cluster.topics


@pytest.mark.parametrize(("name", "retention_ms", "error"), [("..", "1", InvalidTopicException), ("a", "soon", InvalidConfig)])
def test_name_and_configs_are_validated_before_assignments(name: str, retention_ms: str, error: type[KafkaError]) -> None:
    requested = request(name, count=1, retention_ms=retention_ms)  # a count beside assignments is wrong too
    requested.topics[0].assignments.append(schema.Assignment(partition_index=0, broker_ids=[1]))
    (answer,) = BrokerInMemory().ask(requested).topics
    assert answer.error_code == error.code


@pytest.mark.parametrize("version", [2, 7])
def test_very_long_name(version: int) -> None:
    (answer,) = BrokerInMemory().ask(request("x" * 32_700), version).topics
    assert answer.error_code == InvalidTopicException.code
    assert answer.error_message.startswith("Topic name is invalid: the length of 'xxx")


def test_internal_segment_bytes_behaves_like_apache_kafka() -> None:
    broker = BrokerInMemory()
    name = "internal.segment.bytes"

    for value, message in (
        ("x", f"Invalid value x for configuration {name}: Not a number of type INT"),
        ("", f"Invalid value  for configuration {name}: Not a number of type INT"),
    ):
        (answer,) = broker.ask(request("bad", internal_segment_bytes=value)).topics
        assert (answer.error_code, answer.error_message) == (InvalidConfig.code, message)
    (small,) = broker.ask(request("small", internal_segment_bytes="100", segment_bytes="2000000")).topics
    broker.ask(request("plain"))

    assert {each.name: each.value for each in small.configs if "segment.bytes" in each.name} == {name: "100", "segment.bytes": "2000000"}
    for _ in range(2):
        for topic, expected in (("small", [(name, "100", 1, False, 3)]), ("plain", [])):
            resource = k32.Resource(resource_type=2, resource_name=topic, configuration_keys=[name])
            configs = broker.ask(k32.Request(resources=[resource])).results[0].configs
            assert [(each.name, each.value, each.config_source, each.read_only, each.config_type) for each in configs] == expected
        assert broker.cluster.partition("small", 0).log.config.segment_bytes == 100
        assert broker.cluster.partition("plain", 0).log.config.segment_bytes == 1 << 30
        broker = broker.restart(clean=False)
    for _ in range(3):
        broker.append("small", 0, records(1))
    assert len(broker.cluster.partition("small", 0).log.segments) == 3
