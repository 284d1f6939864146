"""Administration by confluent-kafka, kafka-python and aiokafka: topics, partitions, configs, records, log directories."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.clients.adapters import CLIENTS, Sent


@pytest.fixture
def python_admin(bootstrap: str) -> Iterator[Any]:
    from kafka import KafkaAdminClient

    client = KafkaAdminClient(bootstrap_servers=bootstrap)
    yield client
    client.close()


def result(futures: dict[Any, Any]) -> Any:
    (future,) = futures.values()
    return future.result(timeout=60)


def create(admin: Any, name: str, partitions: int = 1, replication: int = 1, config: dict[str, str] | None = None, **more: Any) -> Any:
    from confluent_kafka.admin import NewTopic

    return result(admin.create_topics([NewTopic(name, partitions, replication, config=config or {})], **more))


def test_topic_is_created_described_and_deleted(admin: Any) -> None:
    name = f"comes-and-goes-{os.getpid()}"
    create(admin, name, partitions=3)
    described = admin.list_topics(topic=name, timeout=60).topics[name]
    assert sorted(described.partitions) == [0, 1, 2]
    assert all(p.leader == p.replicas[0] == p.isrs[0] for p in described.partitions.values())
    result(admin.delete_topics([name]))
    assert name not in admin.list_topics(timeout=60).topics


@pytest.mark.parametrize(
    ("name", "partitions", "replication", "config", "code"),
    [
        ("a/b", 1, 1, {}, "TOPIC_EXCEPTION"),
        ("..", 1, 1, {}, "TOPIC_EXCEPTION"),
        ("ü", 1, 1, {}, "TOPIC_EXCEPTION"),
        ("x" * 250, 1, 1, {}, "TOPIC_EXCEPTION"),
        ("zero-partitions", 0, 1, {}, "INVALID_PARTITIONS"),
        ("three-replicas", 1, 3, {}, "INVALID_REPLICATION_FACTOR"),
        ("no-such-config", 1, 1, {"no.such.config": "1"}, "INVALID_CONFIG"),
        ("bad-value", 1, 1, {"retention.ms": "soon"}, "INVALID_CONFIG"),
        ("bad-policy", 1, 1, {"cleanup.policy": "burn"}, "INVALID_CONFIG"),
    ],
)
def test_a_bad_topic_is_refused(admin: Any, name: str, partitions: int, replication: int, config: dict[str, str], code: str) -> None:
    from confluent_kafka import KafkaException

    with pytest.raises(KafkaException) as refused:
        create(admin, name, partitions, replication, config)
    assert refused.value.args[0].name() == code
    assert name not in admin.list_topics(timeout=60).topics


def test_a_name_is_taken_once(admin: Any, topic: str) -> None:
    from confluent_kafka import KafkaException

    with pytest.raises(KafkaException) as refused:
        create(admin, topic)
    assert refused.value.args[0].name() == "TOPIC_ALREADY_EXISTS"


def test_validate_only_creates_nothing(admin: Any) -> None:
    name = f"only-validated-{os.getpid()}"
    create(admin, name, validate_only=True)
    assert name not in admin.list_topics(timeout=60).topics


def test_an_unknown_topic_cannot_be_deleted(admin: Any) -> None:
    from confluent_kafka import KafkaException

    with pytest.raises(KafkaException) as refused:
        result(admin.delete_topics(["never-created"]))
    assert refused.value.args[0].name() == "UNKNOWN_TOPIC_OR_PART"


def test_a_topic_made_again_is_empty_and_has_another_id(admin: Any, bootstrap: str, topic: str) -> None:
    from confluent_kafka import TopicCollection

    def topic_id() -> str:
        (described,) = admin.describe_topics(TopicCollection([topic])).values()
        return str(described.result(timeout=60).topic_id)

    CLIENTS["confluent-kafka"].write(bootstrap, topic, [Sent(b"old", b"old")] * 5)
    before = topic_id()
    result(admin.delete_topics([topic]))
    create(admin, topic, config={"retention.ms": "-1"})
    assert topic_id() != before
    assert CLIENTS["confluent-kafka"].write(bootstrap, topic, [Sent(b"new", b"new")]) == [0]
    assert [r.record.value for r in CLIENTS["aiokafka"].read(bootstrap, topic, count=1)] == [b"new"]


def test_partitions_grow_and_never_shrink(admin: Any, bootstrap: str, topic: str) -> None:
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import NewPartitions

    result(admin.create_partitions([NewPartitions(topic, 3)]))
    assert sorted(admin.list_topics(topic=topic, timeout=60).topics[topic].partitions) == [0, 1, 2]
    assert CLIENTS["aiokafka"].write(bootstrap, topic, [Sent(None, b"in the new one")], partition=2) == [0]
    for count in (2, 3):
        with pytest.raises(KafkaException) as refused:
            result(admin.create_partitions([NewPartitions(topic, count)]))
        assert refused.value.args[0].name() == "INVALID_PARTITIONS"


def described(admin: Any, topic: str) -> dict[str, Any]:
    from confluent_kafka.admin import ConfigResource

    return dict(result(admin.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, topic)])))


def test_configs_of_a_topic(admin: Any, new_topic: Callable[..., str]) -> None:
    from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ConfigSource

    topic = new_topic(**{"retention.ms": "12345"})
    configs = described(admin, topic)
    assert (configs["retention.ms"].value, configs["retention.ms"].source) == ("12345", ConfigSource.DYNAMIC_TOPIC_CONFIG.value)
    assert (configs["cleanup.policy"].value, configs["cleanup.policy"].is_default) == ("delete", True)
    assert configs["segment.bytes"].value == "1073741824"
    assert configs["max.message.bytes"].value == "1048588"

    changes = [
        ConfigEntry("retention.ms", None, incremental_operation=AlterConfigOpType.DELETE),
        ConfigEntry("max.message.bytes", "2000000", incremental_operation=AlterConfigOpType.SET),
        ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.APPEND),
    ]
    result(admin.incremental_alter_configs([ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=changes)]))
    configs = described(admin, topic)
    assert (configs["retention.ms"].value, configs["retention.ms"].is_default) == ("604800000", True)
    assert configs["max.message.bytes"].value == "2000000"
    assert configs["cleanup.policy"].value == "delete,compact"


def test_alter_configs_replaces_all(admin: Any, new_topic: Callable[..., str]) -> None:
    from confluent_kafka.admin import ConfigResource

    topic = new_topic(**{"retention.ms": "12345"})
    result(admin.alter_configs([ConfigResource(ConfigResource.Type.TOPIC, topic, set_config={"segment.ms": "1000000"})]))
    configs = described(admin, topic)
    assert configs["segment.ms"].value == "1000000"
    assert configs["retention.ms"].value == "604800000"


def test_a_changed_limit_holds_at_once(admin: Any, bootstrap: str, topic: str) -> None:
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource

    change = [ConfigEntry("max.message.bytes", "1000", incremental_operation=AlterConfigOpType.SET)]
    result(admin.incremental_alter_configs([ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=change)]))
    with pytest.raises(KafkaException) as refused:
        CLIENTS["confluent-kafka"].write(bootstrap, topic, [Sent(b"k", os.urandom(2000))])
    assert refused.value.args[0].name() == "MSG_SIZE_TOO_LARGE"


def test_configs_of_the_broker(admin: Any) -> None:
    from confluent_kafka.admin import ConfigResource

    (broker,) = admin.list_topics(timeout=60).brokers
    configs = result(admin.describe_configs([ConfigResource(ConfigResource.Type.BROKER, str(broker))]))
    assert configs["message.max.bytes"].value == "1048588"
    assert configs["log.dirs"].is_read_only


def test_a_senseless_change_of_configs_is_refused(admin: Any, topic: str) -> None:
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource

    change = [ConfigEntry("retention.ms", "soon", incremental_operation=AlterConfigOpType.SET)]
    with pytest.raises(KafkaException) as refused:
        result(admin.incremental_alter_configs([ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=change)]))
    assert refused.value.args[0].name() == "INVALID_CONFIG"


def test_records_are_deleted_up_to_an_offset(admin: Any, bootstrap: str, topic: str) -> None:
    from confluent_kafka import TopicPartition

    from tests.support.confluent import Consumer

    CLIENTS["aiokafka"].write(bootstrap, topic, [Sent(None, b"%d" % i) for i in range(10)])
    assert result(admin.delete_records([TopicPartition(topic, 0, 4)])).low_watermark == 4
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "not-used", "auto.offset.reset": "error"})
    assert consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=60) == (4, 10)
    consumer.close()
    assert [r.record.value for r in CLIENTS["kafka-python"].read(bootstrap, topic, start=4, count=6)] == [b"%d" % i for i in range(4, 10)]
    assert result(admin.delete_records([TopicPartition(topic, 0, -1)])).low_watermark == 10


def test_records_beyond_the_end_cannot_be_deleted(admin: Any, topic: str) -> None:
    from confluent_kafka import KafkaException, TopicPartition

    with pytest.raises(KafkaException) as refused:
        result(admin.delete_records([TopicPartition(topic, 0, 1)]))
    assert refused.value.args[0].name() == "OFFSET_OUT_OF_RANGE"


def test_the_cluster(admin: Any, bootstrap: str) -> None:
    cluster = admin.describe_cluster().result(timeout=60)
    assert len(cluster.cluster_id) == 22
    (node,) = cluster.nodes
    assert cluster.controller.id == node.id
    assert node.port == int(bootstrap.rpartition(":")[2])


def test_kafka_python_administers(python_admin: Any, bootstrap: str) -> None:
    from kafka import TopicPartition
    from kafka.admin import ConfigResource, ConfigResourceType

    name = f"by-kafka-python-{os.getpid()}"
    python_admin.create_topics({name: {"num_partitions": 2, "replication_factor": 1, "configs": {"retention.ms": "-1"}}})
    assert name in python_admin.list_topics()
    python_admin.create_partitions({name: 3})
    (topic,) = python_admin.describe_topics([name])
    assert len(topic["partitions"]) == 3
    python_admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, name, {"max.message.bytes": "5000"})])
    configs = python_admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, name)])["topic"][name]
    assert (configs["retention.ms"]["value"], configs["max.message.bytes"]["value"]) == ("-1", "5000")

    CLIENTS["kafka-python"].write(bootstrap, name, [Sent(b"k", b"v")] * 4)
    deleted = python_admin.delete_records({TopicPartition(name, 0): 3})
    assert deleted[TopicPartition(name, 0)]["low_watermark"] == 3
    (log_dirs,) = python_admin.describe_log_dirs({name: [0, 1, 2]})
    sizes = {p["partition_index"]: p["partition_size"] for d in log_dirs["log_dirs"] for t in d["topics"] for p in t["partitions"]}
    assert sizes[0] > 0
    assert sizes[1] == sizes[2] == 0
    python_admin.delete_topics([name])
    assert name not in python_admin.list_topics()


async def test_aiokafka_administers(bootstrap: str) -> None:
    from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
    from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
    from aiokafka.structs import TopicPartition

    name = f"by-aiokafka-{os.getpid()}"
    client = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await client.start()
    try:
        created = await client.create_topics([NewTopic(name, 1, 1, topic_configs={"retention.ms": "-1"})])
        assert [t[:2] for t in created.topic_errors] == [(name, 0)]
        await client.create_partitions({name: NewPartitions(2)})
        (described,) = await client.describe_topics([name])
        assert len(described["partitions"]) == 2
        (configs,) = await client.describe_configs([ConfigResource(ConfigResourceType.TOPIC, name, {"retention.ms": ""})])
        assert [(c[0], c[1]) for c in configs.resources[0][4]] == [("retention.ms", "-1")]
        assert (await client.delete_records({TopicPartition(name, 0): RecordsToDelete(before_offset=0)})) == {TopicPartition(name, 0): 0}
        await client.delete_topics([name])
        assert name not in await client.list_topics()
    finally:
        await client.close()


def test_a_topic_is_created_by_its_first_use(bootstrap: str, admin: Any) -> None:
    for name, client in CLIENTS.items():
        topic = f"first-use-{name}-{os.getpid()}"
        assert client.write(bootstrap, topic, [Sent(b"k", b"v")]) == [0], name
        assert topic in admin.list_topics(timeout=60).topics
