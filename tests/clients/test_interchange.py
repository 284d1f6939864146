"""The data directory goes from minibroker to Apache Kafka and back, twice: nothing is lost, and each reads all that the other wrote.

At each stop DumpLogSegments reads every file, the metadata log and its snapshots too; at each start a real client reads every topic. Also
from a directory that Apache Kafka began.
"""

from __future__ import annotations

import json
import random
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol

import pytest
from click.testing import CliRunner

from minibroker.cli.main import main
from minibroker.client.client import Client
from minibroker.client.errors import check
from minibroker.records.builder import build_batch
from minibroker.records.record import Record
from minibroker.schemas import k00_produce, k22_init_producer_id
from tests.clients.adapters import CLIENTS, Read, Sent
from tests.support import java
from tests.support.becoming import wait_until
from tests.support.broker_process import BrokerProcess
from tests.support.dump_log import check_metadata_log, dump
from tests.support.kafka_process import KafkaProcess

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
HOUR_MS = 3_600_000
SEGMENT = {"segment.bytes": "1048576"}  # the least that Apache Kafka takes
TOPICS: dict[str, tuple[int, dict[str, str]]] = {
    "codecs": (2, {"retention.ms": "-1"}),
    "segments": (1, {**SEGMENT, "retention.ms": "-1", "index.interval.bytes": "1000"}),
    "compacted": (1, {**SEGMENT, "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}),
    "timed": (1, {**SEGMENT, "retention.ms": str(HOUR_MS), "file.delete.delay.ms": "1000"}),
    "fresh": (1, {**SEGMENT, "retention.ms": str(HOUR_MS)}),
    "idempotent": (1, {"retention.ms": "-1"}),
}
OFTEN = {"log.retention.check.interval.ms": "500", "log.initial.task.delay.ms": "200", "log.cleaner.backoff.ms": "300"}
SNAPSHOTS = {"metadata.log.max.record.bytes.between.snapshots": "1500", "metadata.max.retention.bytes": "10000"}


class Broker(Protocol):
    @property
    def bootstrap(self) -> str: ...


def watermarks(bootstrap: str, topic: str) -> tuple[int, int]:
    from confluent_kafka import TopicPartition

    from tests.support.confluent import Consumer

    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "none"})
    try:
        low, high = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=60)
        return int(low), int(high)
    finally:
        consumer.close()


def read_all(bootstrap: str, topic: str) -> dict[int, Sent]:
    """Offset to record of partition 0, by librdkafka (read_committed), to the end; compaction and transactions leave gaps."""
    from confluent_kafka import OFFSET_BEGINNING, KafkaError, KafkaException, TopicPartition

    from tests.support.confluent import Consumer

    settings = {"bootstrap.servers": bootstrap, "group.id": "none", "enable.partition.eof": True, "check.crcs": True}
    consumer = Consumer({**settings, "enable.auto.commit": False})
    found: dict[int, Sent] = {}
    try:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        while True:
            message = consumer.poll(30)
            assert message is not None, f"{topic}: no end after {len(found)} records"
            if message.error() is None:
                found[message.offset()] = Sent(message.key(), message.value(), tuple(message.headers() or ()), message.timestamp()[1])
            elif message.error().code() == KafkaError._PARTITION_EOF:
                return found
            else:
                raise KafkaException(message.error())
    finally:
        consumer.close()


def described(bootstrap: str, topics: list[str]) -> dict[str, Any]:
    """Id, leaders and own configs of topics."""
    from confluent_kafka import TopicCollection
    from confluent_kafka.admin import ConfigResource

    from tests.support.confluent import AdminClient

    admin = AdminClient({"bootstrap.servers": bootstrap})
    found: dict[str, Any] = {}
    for name, described_topic in admin.describe_topics(TopicCollection(topics)).items():
        topic = described_topic.result(timeout=60)
        found[name] = str(topic.topic_id), [partition.leader.id for partition in topic.partitions]
    for resource, described_config in admin.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, name) for name in topics]).items():
        dynamic_topic_config = 1
        entries = described_config.result(timeout=60).values()
        found[resource.name] += ({entry.name: entry.value for entry in entries if entry.source == dynamic_topic_config},)
    return found


class IdempotentProducer:
    """Sends batches of its own making, so that its id, epoch and sequence go on wherever the directory goes."""

    def __init__(self, bootstrap: str) -> None:
        with Client(bootstrap) as client:
            answer = client.retrying(lambda: self._begin(client), client.deadline())
        self.id, self.epoch = answer.producer_id, answer.producer_epoch
        self.sequence = 0
        self.last = b""

    @staticmethod
    def _begin(client: Client) -> k22_init_producer_id.Response:
        request = k22_init_producer_id.Request(transactional_id=None, transaction_timeout_ms=0)
        answer: k22_init_producer_id.Response = client.ask(k22_init_producer_id, request)
        check(answer.error_code, "InitProducerId")  # Apache Kafka is still loading when it has just started
        return answer

    def send(self, bootstrap: str, data: bytes) -> tuple[int, int]:
        """(error code, base offset)."""
        partition = k00_produce.Partition(index=0, records=data)
        with Client(bootstrap) as client:
            topic_id = client.topic("idempotent").topic_id
            topic = k00_produce.Topic(name="idempotent", topic_id=topic_id, partition_data=[partition])
            answer = client.ask(k00_produce, k00_produce.Request(transactional_id=None, acks=-1, timeout_ms=10_000, topic_data=[topic]))
        (result,) = answer.responses[0].partition_responses
        return result.error_code, result.base_offset

    def go_on(self, bootstrap: str) -> None:
        """The last batch again is a duplicate; the next one follows it; one that leaves a gap is refused."""
        if self.last:
            assert self.send(bootstrap, self.last) == (0, self.sequence - 2)
        self.last = self._batch(self.sequence)
        assert self.send(bootstrap, self.last) == (0, self.sequence)
        self.sequence += 2
        assert self.send(bootstrap, self._batch(self.sequence + 5))[0] == 45  # OUT_OF_ORDER_SEQUENCE_NUMBER

    def _batch(self, sequence: int) -> bytes:
        now = int(time.time() * 1000)  # Apache Kafka forgets a producer of old records when it starts (producer.id.expiration.ms)
        rows = [Record(0, now + i, None, b"%d" % (sequence + i)) for i in range(2)]
        return bytes(build_batch(rows, producer_id=self.id, producer_epoch=self.epoch, base_sequence=sequence))


class Story:
    """What was written so far, and what must be there."""

    def __init__(self) -> None:
        self.step = 0
        self.written: dict[str, list[Sent]] = {name: [] for name in TOPICS}
        self.producer: IdempotentProducer | None = None
        self.described: dict[str, Any] = {}
        self.timed_from = 0

    def create(self, bootstrap: str) -> None:
        from confluent_kafka.admin import NewTopic

        from tests.support.confluent import AdminClient

        admin = AdminClient({"bootstrap.servers": bootstrap})
        topics = [NewTopic(name, count, 1, config=configs) for name, (count, configs) in TOPICS.items()]
        for created in admin.create_topics([*topics, NewTopic("gone", 3, 1)]).values():
            created.result(timeout=60)
        admin.delete_topics(["gone"])["gone"].result(timeout=60)
        self.described = described(bootstrap, list(TOPICS))
        assert [configs for _, _, configs in self.described.values()] == [configs for _, configs in TOPICS.values()]
        self.producer = IdempotentProducer(bootstrap)

    def write(self, bootstrap: str) -> None:
        """A step's worth into every topic."""
        self.step += 1
        writer = CLIENTS["confluent-kafka"]
        for number, codec in enumerate(CODECS):
            rows = [self._row(number, i, headers=(("step", b"%d" % self.step), ("empty", None))) for i in range(40)]
            self._sent("codecs", rows, writer.write(bootstrap, "codecs", rows, compression=codec))
        rows = [self._row(7, i, size=1000) for i in range(1500)]
        self._sent("segments", rows, writer.write(bootstrap, "segments", rows))
        noise = random.Random(self.step)
        rows = [self._row(8, i)._replace(key=b"k%d" % (i % 50 + self.step * 10), value=noise.randbytes(600)) for i in range(4000)]
        self._sent("compacted", rows, writer.write(bootstrap, "compacted", rows, compression="lz4" if self.step % 2 else "none"))
        rows = [self._row(9, i, size=1000) for i in range(1200)]
        self._sent("timed", rows, writer.write(bootstrap, "timed", rows))
        rows = [row._replace(timestamp=int(time.time() * 1000)) for row in rows]
        self._sent("fresh", rows, writer.write(bootstrap, "fresh", rows))
        assert self.producer is not None
        self.producer.go_on(bootstrap)

    def _row(self, kind: int, index: int, *, size: int = 10, headers: tuple[tuple[str, bytes | None], ...] = ()) -> Sent:
        value = (b"%d %d %d " % (self.step, kind, index)).ljust(size, b".")
        return Sent(b"k%d" % index, value, headers, 1_700_000_000_000 + self.step * 1_000_000 + kind * 10_000 + index)

    def _sent(self, topic: str, rows: list[Sent], offsets: list[int]) -> None:
        known = self.written[topic]
        assert offsets == list(range(len(known), len(known) + len(rows))), topic
        known += rows

    def check(self, bootstrap: str) -> None:
        """Everything is there, by two real clients."""
        assert described(bootstrap, list(TOPICS)) == self.described
        for topic in ("codecs", "segments", "fresh"):
            assert read_all(bootstrap, topic) == dict(enumerate(self.written[topic])), topic
        expected = [Read(offset, row) for offset, row in enumerate(self.written["codecs"])]
        assert CLIENTS["aiokafka"].read(bootstrap, "codecs", count=len(expected)) == expected
        low, high = watermarks(bootstrap, "timed")
        assert (low, high) == (self.timed_from, len(self.written["timed"]))
        compacted = read_all(bootstrap, "compacted")
        assert all(self.written["compacted"][offset] == row for offset, row in compacted.items())
        assert {row.key: row.value for row in compacted.values()} == {row.key: row.value for row in self.written["compacted"]}
        assert self.producer is not None
        values = [row.value for row in read_all(bootstrap, "idempotent").values()]
        assert values == [b"%d" % number for number in range(self.producer.sequence)]

    def live(self, broker: Broker) -> None:
        """Write, and wait until retention and compaction have been at work on what was written."""
        self.write(broker.bootstrap)
        self.timed_from = len(self.written["timed"])
        wait_until(lambda: watermarks(broker.bootstrap, "timed")[0] == self.timed_from, "retention")
        wait_until(lambda: len(read_all(broker.bootstrap, "compacted")) < len(self.written["compacted"]) - 3000, "compaction")
        self.check(broker.bootstrap)


def check_files(data_dir: Path) -> None:
    """Kafka's own tool over everything that a stopped broker left, and ours."""
    checked = CliRunner().invoke(main, ["storage", "check", "--jobs", "1", "--deep", str(data_dir)], catch_exceptions=False)
    assert checked.exit_code == 0, checked.output
    folders = sorted(folder for folder in data_dir.iterdir() if folder.is_dir() and not folder.name.startswith("__cluster_metadata"))
    gapless, others = ([log for folder in folders if gaps(folder) == has for log in sorted(folder.glob("*.log"))] for has in (False, True))
    indexes = sorted(file for folder in folders for file in folder.glob("*.*index"))
    snapshots = sorted(file for folder in folders for file in folder.glob("*.snapshot"))
    with ThreadPoolExecutor(2) as pool:  # a JVM takes a second to start
        running = [
            pool.submit(dump, gapless, "--deep-iteration"),
            pool.submit(dump, others, "--deep-iteration", may_have_gaps=True),
            pool.submit(dump, indexes, "--index-sanity-check"),
            pool.submit(dump, [*(file for file in indexes if file.stat().st_size), *snapshots]),
            pool.submit(check_metadata_log, data_dir),
        ]
        for each in running:
            each.result()


def gaps(folder: Path) -> bool:
    """Compaction leaves gaps."""
    return folder.name.startswith(("compacted", "__"))


@pytest.mark.timeout(600)
def test_data_survives_repeated_moves_to_kafka_and_back(tmp_path: Path) -> None:
    settings = [word for name, value in (OFTEN | SNAPSHOTS).items() for word in ("--set", f"{name}={value}")]
    story = Story()
    (tmp_path / "kafka").mkdir()
    metadata = tmp_path / "data" / "__cluster_metadata-0"
    with BrokerProcess(tmp_path, *settings) as broker:
        story.create(broker.bootstrap)
        story.live(broker)
        assert broker.stop() == 0
        check_files(broker.data_dir)
        assert list(metadata.glob("*.checkpoint"))

        with KafkaProcess(tmp_path / "kafka", broker.data_dir, settings=OFTEN | SNAPSHOTS) as kafka:
            story.check(kafka.bootstrap)
            story.live(kafka)
            kafka.stop()
            check_files(broker.data_dir)

            broker.restart()
            story.check(broker.bootstrap)
            story.live(broker)
            assert broker.stop() == 0
            check_files(broker.data_dir)

            kafka.start()
            story.check(kafka.bootstrap)
            story.live(kafka)
            kafka.stop()
            check_files(broker.data_dir)


def java_config(bootstrap: str, *arguments: str) -> str:
    return java.run_tool(java.CONFIG_COMMAND, "--bootstrap-server", bootstrap, *arguments)


class Estate:
    """What only Apache Kafka makes: groups, transactions, credentials, quotas, ACLs, configs of groups and of client metrics."""

    ENTITIES = (("users", "alice", "producer_byte_rate=1048576.0"), ("groups", "readers", "consumer.session.timeout.ms=50000"))

    def make(self, bootstrap: str) -> None:
        from confluent_kafka.admin import (
            AclBinding,
            AclOperation,
            AclPermissionType,
            NewTopic,
            ResourcePatternType,
            ResourceType,
            ScramCredentialInfo,
            ScramMechanism,
            UserScramCredentialUpsertion,
        )

        from tests.support.confluent import AdminClient

        admin = AdminClient({"bootstrap.servers": bootstrap})
        topics = [NewTopic("plain", 4, 1, config={"retention.ms": "-1"}), NewTopic("transactions", 1, 1), NewTopic("deleted", 2, 1)]
        for created in admin.create_topics(topics).values():
            created.result(timeout=60)
        scram = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        for altered in admin.alter_user_scram_credentials([UserScramCredentialUpsertion("alice", scram, b"secret")]).values():
            altered.result(timeout=60)
        pattern = (ResourceType.TOPIC, "plain", ResourcePatternType.LITERAL)
        for made in admin.create_acls([AclBinding(*pattern, "User:alice", "*", AclOperation.READ, AclPermissionType.ALLOW)]).values():
            made.result(timeout=60)
        for kind, name, config in self.ENTITIES:
            java_config(bootstrap, "--alter", "--entity-type", kind, "--entity-name", name, "--add-config", config)
        self._commit(bootstrap)
        self._transactions(bootstrap)

    def check(self, bootstrap: str) -> None:
        """All of it, as Kafka tells it."""
        from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
        from confluent_kafka.admin import AclBindingFilter, AclOperation, AclPermissionType, ResourcePatternType, ResourceType

        from tests.support.confluent import AdminClient

        admin = AdminClient({"bootstrap.servers": bootstrap})
        (credential,) = admin.describe_user_scram_credentials(["alice"]).values()
        assert credential.result(timeout=60).scram_credential_infos[0].iterations == 4096
        anything = (None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY)
        (acl,) = admin.describe_acls(AclBindingFilter(ResourceType.TOPIC, *anything)).result(timeout=60)
        assert (acl.name, acl.principal) == ("plain", "User:alice")
        for kind, name, config in self.ENTITIES:
            assert config in java_config(bootstrap, "--describe", "--entity-type", kind, "--entity-name", name)
        wanted = ConsumerGroupTopicPartitions("readers", [TopicPartition("plain", 0)])
        (group,) = admin.list_consumer_group_offsets([wanted]).values()
        assert [(each.topic, each.offset) for each in group.result(timeout=60).topic_partitions] == [("plain", 17)]

    @staticmethod
    def _commit(bootstrap: str) -> None:
        from confluent_kafka import TopicPartition

        from tests.support.confluent import Consumer

        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "readers"})
        consumer.commit(offsets=[TopicPartition("plain", 0, 17)], asynchronous=False)
        consumer.close()

    @staticmethod
    def _transactions(bootstrap: str) -> None:
        from tests.support.confluent import Producer

        producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "t"})
        producer.init_transactions(30)
        for number in range(6):
            producer.begin_transaction()
            producer.produce("transactions", b"%d" % number)
            if number % 3:
                producer.commit_transaction(30)
            else:
                producer.flush(60)
                producer.abort_transaction(30)


@pytest.mark.timeout(600)
def test_a_directory_that_kafka_began(tmp_path: Path) -> None:
    """Two log.dirs, eligible leader replicas, voters in the log, internal topics, and what no record of ours would make."""
    log_dirs = [tmp_path / "data", tmp_path / "more"]
    authorizer = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer", "super.users": "User:ANONYMOUS"}
    settings = {"log.dirs": ",".join(map(str, log_dirs)), **authorizer, **SNAPSHOTS, "offsets.topic.num.partitions": "4"}
    writer, estate = CLIENTS["confluent-kafka"], Estate()
    rows = [Sent(b"k%d" % i, b"v%d" % i) for i in range(100)]
    committed = [b"1", b"2", b"4", b"5"]
    with KafkaProcess(tmp_path, settings=settings) as kafka:
        estate.make(kafka.bootstrap)
        for partition in range(4):
            writer.write(kafka.bootstrap, "plain", rows, partition=partition, compression="snappy")
        topics = described(kafka.bootstrap, ["plain", "transactions"])
        kafka.stop()
        assert all(list(folder.glob("plain-*")) for folder in log_dirs)

        ours = [word for name, value in SNAPSHOTS.items() for word in ("--set", f"{name}={value}")]
        with BrokerProcess(tmp_path, *ours, log_dirs=log_dirs) as broker:
            assert "WARNING" not in broker.output, broker.output
            assert described(broker.bootstrap, ["plain", "transactions"]) == topics
            for partition in range(4):
                assert writer.write(broker.bootstrap, "plain", rows, partition=partition) == list(range(100, 200))
            assert [row.value for row in read_all(broker.bootstrap, "transactions").values()] == committed
            with Client(broker.bootstrap) as client:
                internal = {topic.name: len(topic.partitions) for topic in client.metadata(None).topics if topic.is_internal}
            assert internal["__consumer_offsets"] == 4
            create_and_delete(broker.bootstrap)
            assert broker.stop() == 0
        for folder in log_dirs:
            check_files(folder)

        kafka.start()
        estate.check(kafka.bootstrap)
        assert described(kafka.bootstrap, ["plain", "transactions"]) == topics
        for partition in range(4):
            found = CLIENTS["aiokafka"].read(kafka.bootstrap, "plain", count=200, partition=partition)
            assert [read.record for read in found] == rows * 2
            assert writer.write(kafka.bootstrap, "plain", rows[:1], partition=partition) == [200]
        assert [row.value for row in read_all(kafka.bootstrap, "transactions").values()] == committed
        kafka.kill()

        with BrokerProcess(tmp_path, *ours, log_dirs=log_dirs) as broker:
            assert described(broker.bootstrap, ["plain", "transactions"]) == topics
            assert len(CLIENTS["aiokafka"].read(broker.bootstrap, "plain", count=201, partition=3)) == 201
            broker.kill()
        kafka.start()
        assert described(kafka.bootstrap, ["plain", "transactions"]) == topics
        assert len(CLIENTS["aiokafka"].read(kafka.bootstrap, "plain", count=201, partition=3)) == 201
        estate.check(kafka.bootstrap)


def create_and_delete(bootstrap: str) -> None:
    """Enough for a snapshot or two."""
    from confluent_kafka.admin import NewTopic

    from tests.support.confluent import AdminClient

    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.delete_topics(["deleted"])["deleted"].result(timeout=60)
    for number in range(5):
        admin.create_topics([NewTopic(f"more-{number}", 5, 1)])[f"more-{number}"].result(timeout=60)


@pytest.mark.timeout(600)
def test_kafka_starts_with_a_directory_formatted_by_minibroker(tmp_path: Path) -> None:
    """And with the properties that `storage info` prints, but for the ports."""
    data_dir = tmp_path / "data"
    CliRunner().invoke(
        main, ["storage", "format", str(data_dir), "-f", "transaction.version=2", "-f", "group.version=1"], catch_exceptions=False
    )
    printed = CliRunner().invoke(main, ["storage", "info", str(data_dir), "--server-properties"], catch_exceptions=False).stdout
    properties = dict(line.split("=", 1) for line in printed.splitlines() if line and not line.startswith("#"))
    own = {name: value for name, value in properties.items() if "listeners" not in name and not name.startswith("controller.quorum")}
    (tmp_path / "kafka").mkdir()
    with KafkaProcess(tmp_path / "kafka", data_dir, settings=own) as kafka:
        Story().create(kafka.bootstrap)
        before = described(kafka.bootstrap, list(TOPICS))
        kafka.stop()
    with BrokerProcess(tmp_path) as broker:
        assert described(broker.bootstrap, list(TOPICS)) == before
        assert broker.stop() == 0
    report = json.loads(CliRunner().invoke(main, ["storage", "info", str(data_dir), "-o", "json"]).stdout)
    assert report["features"] == {
        "metadata.version": 30,
        "eligible.leader.replicas.version": 1,
        "group.version": 1,
        "share.version": 1,
        "streams.version": 1,
        "transaction.version": 2,
    }
    assert report["problems"] == []
