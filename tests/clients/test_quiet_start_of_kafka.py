"""Apache Kafka opens a directory after our orderly stop, and logs no error: the directory looks as after its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.clients.adapters import CLIENTS, Sent
from tests.support.becoming import becomes
from tests.support.broker_process import BrokerProcess
from tests.support.kafka_process import KafkaProcess

SENT = [Sent(None, b"%d" % number) for number in range(20)]


def commit(bootstrap: str, group: str) -> None:
    from confluent_kafka import TopicPartition

    from tests.support.confluent import Consumer

    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    try:
        consumer.commit(offsets=[TopicPartition("orders", 0, 7)], asynchronous=False)
    finally:
        consumer.close()


def committed(bootstrap: str, group: str) -> int | None:
    """What the group's coordinator says; None until Kafka has elected it and it has loaded its partition."""
    from confluent_kafka import KafkaException, TopicPartition

    from tests.support.confluent import Consumer

    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    try:
        (found,) = consumer.committed([TopicPartition("orders", 0)], timeout=120)
        return int(found.offset)
    except KafkaException:
        return None
    finally:
        consumer.close()


@pytest.mark.timeout(600)
def test_kafka_logs_no_error_on_committed_offsets_and_transactions(tmp_path: Path) -> None:
    from tests.support.confluent import Producer

    groups = [f"group-{number}" for number in range(10)]
    with BrokerProcess(tmp_path) as broker:
        CLIENTS["confluent-kafka"].write(broker.bootstrap, "orders", SENT)
        for group in groups:
            commit(broker.bootstrap, group)
        producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "till"})
        producer.init_transactions(60)
        producer.begin_transaction()
        producer.produce("orders", b"paid")
        producer.commit_transaction(60)
        assert broker.stop() == 0

    (tmp_path / "kafka").mkdir()
    with KafkaProcess(tmp_path / "kafka", broker.data_dir) as kafka:
        for group in groups:
            assert becomes(lambda group=group: committed(kafka.bootstrap, group) == 7)  # type: ignore[misc]
        kafka.stop()
    lines = (tmp_path / "kafka" / "out.txt").read_text(errors="replace").splitlines()
    assert [line for line in lines if " INFO " in line], "what it logs is seen here"
    # On a slow machine Kafka complains of slow events, and registers with its controller before that is elected.
    lines = [line for line in lines if "EventPerformanceMonitor" not in line and "NotControllerException" not in line]
    assert not [line for line in lines if " ERROR " in line or line.startswith(("java.", "org.apache.kafka.common.errors."))]
