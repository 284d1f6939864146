"""MirrorMaker 2 with the properties of docs/moving.md: from minibroker to Apache Kafka and back. Starts three JVMs in turn."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.adapters import CLIENTS, Sent
from tests.clients.test_groups import confluent
from tests.conftest import NO_RETENTION
from tests.support.becoming import wait_until
from tests.support.broker_process import BrokerProcess
from tests.support.child_process import ChildProcess
from tests.support.java import KAFKA_VERSION, LOGGING, SHORT_LIVED, jars
from tests.support.kafka_process import KafkaProcess
from tests.support.soak import IS_SOAK

pytestmark = pytest.mark.skipif(not IS_SOAK, reason="takes minutes: MINIBROKER_SOAK=1 runs it")

PAGE = Path(__file__).parents[2] / "docs" / "moving.md"
MIRROR = (f"kafka-connect-mirror-{KAFKA_VERSION}", f"org.apache.kafka:connect-mirror:{KAFKA_VERSION}", LOGGING)
MAIN = "org.apache.kafka.connect.mirror.MirrorMaker"
#: So that the test need not wait for minutes. The page leaves these at their defaults.
SOON = """
emit.checkpoints.interval.seconds = 1
sync.group.offsets.interval.seconds = 1
refresh.groups.interval.seconds = 1
refresh.topics.interval.seconds = 1
sync.topic.configs.interval.seconds = 1
offset.flush.interval.ms = 1000
"""
PARTITIONS = 3
RECORDS = 1000  #: of each partition
GROUP = "billing"
TOPIC = "orders"


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    folder = tmp_path_factory.mktemp("kafka")
    settings = {"log.retention.check.interval.ms": "100000000", "log.initial.task.delay.ms": "100000000"}
    with BrokerProcess(tmp_path_factory.mktemp("minibroker"), *NO_RETENTION) as ours, KafkaProcess(folder, settings=settings) as kafka:
        yield {"minibroker": ours.bootstrap, "kafka": kafka.bootstrap}
        assert ours.stop() == 0, ours.output
        assert "Traceback" not in ours.output


def properties(source: str, target: str, brokers: dict[str, str], topic: str) -> str:
    """Return the page's properties with other addresses; for the other direction, as the page says, with the two names swapped."""
    block = re.search(r"```properties\n# mm2.properties\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert block is not None
    text = block[1].replace("minibroker->kafka", f"{source}->{target}")
    for name, address in brokers.items():
        text, count = re.subn(rf"(?m)^{name}\.bootstrap\.servers = .*$", f"{name}.bootstrap.servers = {address}", text)
        assert count == 1
    assert "topics = orders, payments" in text
    return text.replace("topics = orders, payments", f"topics = {topic}") + SOON


def mirror_maker(folder: Path, text: str) -> ChildProcess:
    (folder / "mm2.properties").write_text(text)
    command = ["java", "-Xmx400m", *SHORT_LIVED, "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", f"{jars(*MIRROR)}/*", MAIN]
    return ChildProcess([*command, str(folder / "mm2.properties")], folder / "mirror.txt")


def records(partition: int, first: int, count: int) -> list[Sent]:
    return [
        Sent(b"k%d" % number, b"%d-%d" % (partition, number), (("h", b"v"),), 1_700_000_000_000 + number)
        for number in range(first, first + count)
    ]


class Side:
    """One broker, as the test looks at it."""

    def __init__(self, bootstrap: str) -> None:
        from tests.support.confluent import AdminClient, Consumer

        self.bootstrap = bootstrap
        self._admin = AdminClient({"bootstrap.servers": bootstrap})
        self._consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": GROUP})  # never joins

    def create(self, topic: str) -> None:
        from confluent_kafka.admin import NewTopic

        new = NewTopic(topic, PARTITIONS, 1, config={"retention.ms": "-1", "max.message.bytes": "2000000"})
        self._admin.create_topics([new])[topic].result(60)

    def ends(self, topic: str) -> list[int]:
        """Return where each partition ends; nothing while the topic does not exist or has no leaders yet."""
        from confluent_kafka import KafkaException, TopicPartition

        if topic not in self._consumer.list_topics(timeout=30).topics:
            return []
        try:
            return [self._consumer.get_watermark_offsets(TopicPartition(topic, number), 30)[1] for number in range(PARTITIONS)]
        except KafkaException:
            return []

    def committed(self, topic: str) -> list[int]:
        """Return the group's offset of each partition; -1001 where it has none."""
        from confluent_kafka import TopicPartition

        places = [TopicPartition(topic, number) for number in range(PARTITIONS)]
        return [each.offset for each in self._consumer.committed(places, 30)]

    def max_message_bytes(self, topic: str) -> str:
        from confluent_kafka.admin import ConfigResource

        (configs,) = self._admin.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, topic)]).values()
        return str(configs.result(60)["max.message.bytes"].value)

    def close(self) -> None:
        self._consumer.close()


def resume(bootstrap: str, topic: str, until: list[int]) -> list[set[int]]:
    """Read as a member of the group from the copied offsets up to `until`; return the numbers of the records of each partition."""
    seen: list[set[int]] = [set() for _ in range(PARTITIONS)]
    with confluent(bootstrap, topic, GROUP) as consumer:

        def is_read() -> bool:
            for message in consumer.consume(500, 0.5):
                assert message.error() is None, message.error()
                partition, number = map(int, message.value().split(b"-"))
                seen[partition].add(number)
            return all(end - 1 in numbers for end, numbers in zip(until, seen, strict=True))

        wait_until(is_read, "the group has read all records of the target", timeout_s=120)
    return seen


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("source", "target"), [("minibroker", "kafka"), ("kafka", "minibroker")])
def test_records_configs_and_group_offsets_arrive(source: str, target: str, brokers: dict[str, str], tmp_path: Path) -> None:
    topic = f"{TOPIC}-from-{source}"
    origin, copy = Side(brokers[source]), Side(brokers[target])
    origin.create(topic)
    writer = CLIENTS["confluent-kafka"]
    sent = [records(partition, 0, RECORDS) for partition in range(PARTITIONS)]
    for partition, each in enumerate(sent):
        writer.write(origin.bootstrap, topic, each, compression=("none", "zstd", "lz4")[partition], partition=partition)

    with mirror_maker(tmp_path, properties(source, target, brokers, topic)) as mirror:

        def arrived(wanted: int) -> bool:
            assert mirror.is_alive, mirror.output
            return copy.ends(topic) == [wanted] * PARTITIONS

        wait_until(lambda: arrived(RECORDS), "all records are in the target", timeout_s=300)
        with confluent(origin.bootstrap, topic, GROUP) as consumer:  # reads half of it and commits
            left = PARTITIONS * RECORDS // 2
            while left > 0:
                left -= len(consumer.consume(min(left, 500), 1.0))
            consumer.commit(asynchronous=False)
        for partition, each in enumerate(sent):  # while the mirror runs
            more = records(partition, RECORDS, RECORDS)
            writer.write(origin.bootstrap, topic, more, partition=partition)
            sent[partition] = each + more
        wait_until(lambda: arrived(2 * RECORDS), "the later records are in the target", timeout_s=300)
        given = origin.committed(topic)
        assert sum(each for each in given if each > 0) == PARTITIONS * RECORDS // 2

        def is_synchronized() -> bool:
            copied = copy.committed(topic)
            return all((there > 0) == (here > 0) for here, there in zip(given, copied, strict=True))

        wait_until(is_synchronized, "the group has offsets in the target", timeout_s=300)
        wait_until(lambda: copy.max_message_bytes(topic) == "2000000", "the topic has its config", timeout_s=120)
        mirror.stop()

    copied = copy.committed(topic)
    for side in (origin, copy):
        side.close()
    assert all(there <= here for here, there in zip(given, copied, strict=True)), (given, copied)
    for partition, each in enumerate(sent):
        read = CLIENTS["aiokafka"].read(copy.bootstrap, topic, count=2 * RECORDS, partition=partition)
        assert [(found.offset, found.record) for found in read] == list(enumerate(each))
    seen = resume(copy.bootstrap, topic, [2 * RECORDS] * PARTITIONS)
    for numbers, there in zip(seen, copied, strict=True):
        assert numbers == set(range(max(there, 0), 2 * RECORDS))
