"""What users do about too many records: purge a topic by its retention, or keep very little; with real clients."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.clients.adapters import CLIENTS, Sent
from tests.support.broker_process import BrokerProcess

TIMEOUT_S = 60.0
COUNT = 10


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """One whose own check never comes: what goes, goes because somebody changed a configuration."""
    with BrokerProcess(tmp_path_factory.mktemp("purge"), "--set", "log.initial.task.delay.ms=100000000") as broker:
        yield broker


@pytest.fixture
def purged(broker: BrokerProcess, request: pytest.FixtureRequest) -> str:
    """A topic that had ten records, was purged by retention.ms=1 and keeps everything again."""
    from confluent_kafka.admin import NewTopic

    from tests.support.confluent import AdminClient

    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    topic = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)
    admin.create_topics([NewTopic(topic, 1, 1, config={"retention.ms": "-1"})])[topic].result(TIMEOUT_S)
    CLIENTS["confluent-kafka"].write(broker.bootstrap, topic, [Sent(b"k", b"%d" % number) for number in range(COUNT)])
    alter(admin, topic, "1")
    until(lambda: watermarks(broker.bootstrap, topic) == (COUNT, COUNT))
    alter(admin, topic, "-1")
    return topic


def alter(admin: Any, topic: str, retention_ms: str) -> None:
    from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

    entry = ConfigEntry("retention.ms", retention_ms, incremental_operation=AlterConfigOpType.SET)
    (future,) = admin.incremental_alter_configs([ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])]).values()
    future.result(TIMEOUT_S)


def watermarks(bootstrap: str, topic: str) -> tuple[int, int]:
    from confluent_kafka import TopicPartition

    from tests.support.confluent import Consumer

    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "nobody"})
    try:
        low, high = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=TIMEOUT_S)
    finally:
        consumer.close()
    return low, high


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize("client", sorted(CLIENTS))
def test_purged_topic_continues_at_its_next_offset(client: str, broker: BrokerProcess, purged: str) -> None:
    assert CLIENTS[client].write(broker.bootstrap, purged, [Sent(b"k", b"new")]) == [COUNT]
    (found,) = CLIENTS[client].read(broker.bootstrap, purged, start=COUNT, count=1)
    assert (found.offset, found.record.value) == (COUNT, b"new")


def test_a_reader_of_purged_records_starts_at_the_earliest(broker: BrokerProcess, purged: str) -> None:
    from confluent_kafka import TopicPartition

    from tests.support.confluent import Consumer

    CLIENTS["confluent-kafka"].write(broker.bootstrap, purged, [Sent(b"k", b"new")])
    config = {"group.id": "nobody", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, **config})
    try:
        consumer.assign([TopicPartition(purged, 0, 2)])
        message = consumer.poll(TIMEOUT_S)
        assert message is not None
        assert (message.error(), message.offset(), message.value()) == (None, COUNT, b"new")
    finally:
        consumer.close()


def test_a_broker_that_keeps_almost_nothing(tmp_path: Path) -> None:
    """The settings of Spark's own tests of data loss."""
    settings = {"log.segment.bytes": "70", "log.retention.bytes": "40", "log.retention.check.interval.ms": "100"}
    arguments = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    with BrokerProcess(tmp_path, *arguments) as broker:
        writer = CLIENTS["confluent-kafka"]
        for number in range(COUNT):
            writer.write(broker.bootstrap, "losing", [Sent(None, b"%d" % number, (), int(time.time() * 1000))])
        until(lambda: watermarks(broker.bootstrap, "losing") == (COUNT - 1, COUNT))
        (found,) = writer.read(broker.bootstrap, "losing", start=COUNT - 1, count=1)
        assert found.record.value == b"9"
        assert "Traceback" not in broker.output
        assert broker.stop() == 0
    assert [path.name for path in (tmp_path / "data" / "losing-0").glob("*.log")] == [f"{COUNT - 1:020}.log"]
