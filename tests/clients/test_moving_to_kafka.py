"""Where a user outgrows us: Apache Kafka opens the same data directory and goes on, and we open it again after it.

Here with `controller.quorum.voters`, as clusters made before Kafka 3.9 have it; test_interchange.py is the long story.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.clients.adapters import CLIENTS, Read, Sent
from tests.support.broker_process import BrokerProcess
from tests.support.kafka_process import KafkaProcess

FIRST = [Sent(b"k%d" % i, b"ours %d" % i, (("h", b"v"),), 1_700_000_000_000 + i) for i in range(500)]
SECOND = [Sent(b"k%d" % i, b"kafka's %d" % i, (), 1_700_000_001_000 + i) for i in range(500)]
THIRD = [Sent(None, b"ours again")]


def described(bootstrap: str) -> tuple[str, Any]:
    """Topic id and configs of the topic."""
    from confluent_kafka import TopicCollection
    from confluent_kafka.admin import ConfigResource

    from tests.support.confluent import AdminClient

    admin = AdminClient({"bootstrap.servers": bootstrap})
    (topic,) = admin.describe_topics(TopicCollection(["orders"])).values()
    (configs,) = admin.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, "orders")]).values()
    found = configs.result(timeout=60)
    return str(topic.result(timeout=60).topic_id), {name: found[name].value for name in ("retention.ms", "segment.bytes")}


def create(bootstrap: str) -> None:
    from confluent_kafka.admin import NewTopic

    from tests.support.confluent import AdminClient

    admin = AdminClient({"bootstrap.servers": bootstrap})
    topics = [NewTopic("orders", 2, 1, config={"retention.ms": "-1", "segment.bytes": "1048576"}), NewTopic("gone", 1, 1)]
    topics.append(NewTopic("tiny", 1, 1, config={"segment.bytes": "500"}))  # Apache Kafka would not even start on it as it is
    for created in admin.create_topics(topics).values():
        created.result(timeout=60)
    admin.delete_topics(["gone"])["gone"].result(timeout=60)


@pytest.mark.timeout(600)
def test_data_survives_moving_to_kafka_and_back(tmp_path: Path) -> None:
    writer, reader = CLIENTS["confluent-kafka"], CLIENTS["aiokafka"]
    with BrokerProcess(tmp_path) as broker:
        create(broker.bootstrap)
        writer.write(broker.bootstrap, "orders", FIRST, compression="zstd")
        writer.write(broker.bootstrap, "tiny", FIRST[:20])
        before = described(broker.bootstrap)
        assert broker.stop() == 0

        (tmp_path / "kafka").mkdir()
        with KafkaProcess(tmp_path / "kafka", broker.data_dir, static_voters=True) as kafka:
            assert described(kafka.bootstrap) == before
            assert writer.write(kafka.bootstrap, "orders", SECOND, compression="snappy") == list(range(500, 1000))
            writer.write(kafka.bootstrap, "tiny", FIRST[:20])
            assert reader.read(kafka.bootstrap, "orders", count=1000) == [Read(i, record) for i, record in enumerate(FIRST + SECOND)]
            kafka.stop()

        broker.restart()
        assert described(broker.bootstrap) == before
        assert [each.record for each in reader.read(broker.bootstrap, "tiny", count=40)] == FIRST[:20] * 2
        assert writer.write(broker.bootstrap, "orders", THIRD) == [1000]
        found = reader.read(broker.bootstrap, "orders", count=1001)
        assert found[:1000] == [Read(i, record) for i, record in enumerate(FIRST + SECOND)]
        assert found[1000].record.value == b"ours again"
        assert broker.stop() == 0
