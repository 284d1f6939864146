"""Capture golden frames of transactions and committed offsets, and the logs of their two topics.

Starts an Apache Kafka behind a proxy. Several client libraries commit, abort, commit offsets in a transaction, and are fenced; Kafka's
tools describe a transaction that was left open; franz-go sends every version. Between the clients' frames are the broker's own to
itself (WriteTxnMarkers, AddPartitionsToTxn to verify), under the label `broker_4.3.1`. Frames of APIs that have other golden frames lie in
`frames/kNN_name.transactions.jsonl`. Then the segments of `__transaction_state` and `__consumer_offsets` go to
`records/coordinators_kafka_4.3.1.json` with what DumpLogSegments prints for each record. WIRE_LOG gets the conversation, one frame a line.
"""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

from tests.golden import FRAMES
from tests.golden.captures import drive_clients, dumped, kafka_behind_proxy, write_wire_log
from tests.golden.captures.clients import TRANSACTION_KEYS, keep
from tests.support import java
from tests.support.capture_proxy import Captured

HERE = Path(__file__).parents[1]
LOGS = HERE / "records" / "coordinators_kafka_4.3.1.json"
SHARED_KEYS = {0, 1, 22}  #: APIs whose frames in transactions lie beside those that other captures took
BROKER_CLIENTS = re.compile(r"^broker-|TxnMarker|AddPartitions")
TOPICS = ("__transaction_state", "__consumer_offsets")
TRANSACTIONS_COMMAND = "org.apache.kafka.tools.TransactionsCommand"
CONSUMER_GROUP_COMMAND = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
FEATURE_COMMAND = "org.apache.kafka.tools.FeatureCommand"
SETTINGS = {
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "log.retention.ms": "-1",
}


def kafka_java(version: str, scene: str, topic: str) -> Callable[[str], None]:
    """A scene of Transactional.java with the clients of that Kafka."""

    def drive(bootstrap: str) -> None:
        folder = java.cache_folder() / f"kafka-clients-{version}" if version != java.KAFKA_VERSION else java.kafka_jars()
        command = ["java", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", f"{folder}/*"]
        subprocess.run([*command, str(HERE / "Transactional.java"), bootstrap, scene, topic], check=True, timeout=120)

    return drive


def kafka_tools(bootstrap: str) -> None:
    """What an operator does with the transaction that `open` left behind."""
    at = ("--bootstrap-server", bootstrap)
    java.run_tool(TRANSACTIONS_COMMAND, *at, "list")
    java.run_tool(TRANSACTIONS_COMMAND, *at, "list", "--duration-filter", "1", "--transactional-id-pattern", "java-.*")
    java.run_tool(TRANSACTIONS_COMMAND, *at, "describe", "--transactional-id", "java-open")
    result = java.run_tool(TRANSACTIONS_COMMAND, *at, "describe-producers", "--topic", "java-open", "--partition", "0")
    java.run_tool(TRANSACTIONS_COMMAND, *at, "find-hanging", "--broker-id", "1", "--max-transaction-timeout", "0", check=False)
    start_offset = result.splitlines()[-1].split()[-1]
    where = ("--topic", "java-open", "--partition", "0", "--start-offset", start_offset)
    java.run_tool(TRANSACTIONS_COMMAND, *at, "abort", *where)
    java.run_tool(CONSUMER_GROUP_COMMAND, *at, "--describe", "--all-groups", check=False)


def kafka_python(bootstrap: str) -> None:
    import kafka

    partition = kafka.TopicPartition("kafka-python", 0)
    producer = kafka.KafkaProducer(bootstrap_servers=bootstrap, transactional_id="kafka-python", linger_ms=20)
    producer.init_transactions()
    producer.begin_transaction()
    for i in range(2):
        producer.send("kafka-python", b"committed", partition=i)
    producer.commit_transaction()
    producer.begin_transaction()
    producer.send("kafka-python", b"aborted", partition=0)
    producer.flush()
    producer.abort_transaction()
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=bootstrap, group_id="kafka-python", isolation_level="read_committed", enable_auto_commit=False
    )
    consumer.assign([partition])
    consumer.seek(partition, 0)
    consumer.poll(timeout_ms=2000)
    consumer.commit()
    consumer.committed(partition)
    producer.begin_transaction()
    producer.send("kafka-python", b"with offsets", partition=0)
    offsets = {partition: kafka.OffsetAndMetadata(2, "note", -1)}
    producer.send_offsets_to_transaction(offsets, consumer.group_metadata() if hasattr(consumer, "group_metadata") else "kafka-python")
    producer.commit_transaction()
    consumer.close()
    producer.begin_transaction()
    producer.send("kafka-python", b"of a zombie", partition=0).get(10)
    successor = kafka.KafkaProducer(bootstrap_servers=bootstrap, transactional_id="kafka-python")
    successor.init_transactions()
    try:
        producer.commit_transaction()
    except kafka.errors.KafkaError as error:
        print(f"kafka-python: {error!r}")
    successor.close()


def aiokafka(bootstrap: str) -> None:
    asyncio.run(_aiokafka(bootstrap))


async def _aiokafka(bootstrap: str) -> None:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
    from aiokafka.errors import KafkaError

    partition = TopicPartition("aiokafka", 0)
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id="aiokafka")
    await producer.start()
    async with producer.transaction():
        await producer.send_and_wait("aiokafka", b"committed", partition=0)
        await producer.send_and_wait("aiokafka", b"committed", partition=1)
    await producer.begin_transaction()
    await producer.send_and_wait("aiokafka", b"aborted", partition=0)
    await producer.abort_transaction()
    async with producer.transaction():
        await producer.send_and_wait("aiokafka", b"with offsets", partition=0)
        await producer.send_offsets_to_transaction({partition: 2}, "aiokafka")
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap, group_id="aiokafka", isolation_level="read_committed", enable_auto_commit=False
    )
    await consumer.start()
    consumer.assign([partition])
    await consumer.seek_to_beginning(partition)
    await consumer.getone()
    await consumer.commit({partition: 1})
    await consumer.committed(partition)
    await consumer.stop()
    await producer.begin_transaction()
    await producer.send_and_wait("aiokafka", b"of a zombie", partition=0)
    successor = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id="aiokafka")
    await successor.start()
    try:
        await producer.commit_transaction()
    except KafkaError as error:
        print(f"aiokafka: {error!r}")
    await successor.stop()


def librdkafka(bootstrap: str) -> None:
    from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

    settings = {"bootstrap.servers": bootstrap, "transactional.id": "librdkafka", "linger.ms": 20}
    producer = Producer(settings)
    producer.init_transactions(30)
    producer.begin_transaction()
    for i in range(2):
        producer.produce("librdkafka", b"committed", partition=i)
    producer.commit_transaction(30)
    producer.begin_transaction()
    producer.produce("librdkafka", b"aborted", partition=0)
    producer.flush()
    producer.abort_transaction(30)
    reader = {"bootstrap.servers": bootstrap, "group.id": "librdkafka", "isolation.level": "read_committed", "enable.auto.commit": False}
    consumer = Consumer(reader)
    consumer.assign([TopicPartition("librdkafka", 0, 0)])
    consumer.consume(1, timeout=10)
    producer.begin_transaction()
    producer.produce("librdkafka", b"with offsets", partition=0)
    producer.send_offsets_to_transaction([TopicPartition("librdkafka", 0, 2)], consumer.consumer_group_metadata(), 30)
    producer.commit_transaction(30)
    consumer.commit(offsets=[TopicPartition("librdkafka", 0, 3)], asynchronous=False)
    consumer.committed([TopicPartition("librdkafka", 0)], timeout=10)
    consumer.close()
    producer.begin_transaction()
    producer.produce("librdkafka", b"of a zombie", partition=0)
    producer.flush()
    successor = Producer(settings)
    successor.init_transactions(30)
    try:
        producer.commit_transaction(30)
    except KafkaException as error:
        print(f"librdkafka: {error!r}")


def librdkafka_groups(bootstrap: str) -> None:
    """Members of groups of both kinds, so that `__consumer_offsets` has all their records."""
    from confluent_kafka import Consumer

    for number, extra in enumerate(({}, {"group.instance.id": "static"}, {"group.protocol": "consumer"}, {"group.protocol": "consumer"})):
        group = {"group.id": f"group-{number}", "auto.offset.reset": "earliest", "enable.auto.commit": False}
        consumer = Consumer({"bootstrap.servers": bootstrap, **group, **extra})
        consumer.subscribe(["^librd.*"] if number == 3 else ["librdkafka"])
        message = None
        while message is None:
            message = consumer.poll(1)
        consumer.commit(message, asynchronous=False)
        consumer.close()


def franz_go(bootstrap: str) -> None:
    subprocess.run(["go", "run", ".", bootstrap, "transactions"], cwd=HERE / "franz_go", check=True)


def clients() -> dict[str, tuple[Callable[[str], None], str, str]]:
    """As in capture.clients: label -> driver, client, command."""
    newest, program = java.KAFKA_VERSION, "Transactional.java"
    named = {
        f"java_{version}_{scene}": (
            kafka_java(version, scene, f"java-{scene}"),
            f"Apache Kafka's Java client {version}",
            f"{program} {scene}",
        )
        for version, scene in (
            (newest, "transactional"),
            (newest, "fenced"),
            ("3.9.1", "transactional"),
            ("3.9.1", "fenced"),
            (newest, "open"),
        )
    }
    return named | {
        f"java_{newest}_tools": (kafka_tools, f"Apache Kafka's Java tools {newest}", "captures.transactions.kafka_tools"),
        "librdkafka_2.16.1_transactional": (librdkafka, "confluent-kafka 2.16.1 (librdkafka)", "captures.transactions.librdkafka"),
        "librdkafka_2.16.1_groups": (librdkafka_groups, "confluent-kafka 2.16.1 (librdkafka)", "captures.transactions.librdkafka_groups"),
        "kafka_python_3.0.12_transactional": (kafka_python, "kafka-python 3.0.12", "captures.transactions.kafka_python"),
        "aiokafka_0.14.0_transactional": (aiokafka, "aiokafka 0.14.0", "captures.transactions.aiokafka"),
        "franz_go_1.22.2_transactional": (franz_go, "franz-go 1.22.2", "tests/golden/franz_go, each version pinned"),
    }


def prepare(bootstrap: str) -> None:
    """The topics, two partitions each; and one transaction, so that the coordinators are there."""
    from confluent_kafka.admin import AdminClient, NewTopic

    names = [
        "java-transactional",
        "java-fenced",
        "java-open",
        "librdkafka",
        "kafka-python",
        "aiokafka",
        "golden-committed",
        "golden-markers",
    ]
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for made in admin.create_topics([NewTopic(name, 2, 1) for name in names]).values():
        made.result()
    kafka_java(java.KAFKA_VERSION, "transactional", "java-fenced")(bootstrap)


def named_after_broker(frame: Captured) -> Captured:
    """A frame with the label of who sent it: brokers speak to themselves through the proxy too."""
    return frame._replace(label="broker_4.3.1") if BROKER_CLIENTS.search(frame.client_id) else frame


def capture(wire_log: str = "") -> None:
    catalogue = clients()
    with kafka_behind_proxy(SETTINGS) as (kafka, proxy):
        bootstrap = f"127.0.0.1:{proxy.port}"
        prepare(bootstrap)
        proxy.frames.clear()
        drive_clients(proxy, catalogue)
        frames = list(map(named_after_broker, proxy.frames))
        for level in ("0", "1"):  # and how transaction.version 0 and 1 are stored
            proxy.label = f"java_{java.KAFKA_VERSION}_at_transaction_version_{level}"
            java.run_tool(
                FEATURE_COMMAND,
                "--bootstrap-server",
                bootstrap,
                "downgrade" if level == "0" else "upgrade",
                "--feature",
                f"transaction.version={level}",
            )
            kafka_java(java.KAFKA_VERSION, "transactional", f"java-{'fenced' if level == '0' else 'open'}")(bootstrap)
        everything = list(map(named_after_broker, proxy.frames))
        if wire_log:
            write_wire_log(wire_log, everything, TRANSACTION_KEYS | SHARED_KEYS)
        kafka.stop()
        logs = dumped(kafka.data_dir, "__transaction_state", "--transaction-log-decoder") | dumped(kafka.data_dir)
    catalogue["broker_4.3.1"] = (franz_go, "Apache Kafka 4.3.1, the broker itself", "with the clients of captures/transactions.py")
    for stem, entries in keep(frames, catalogue, TRANSACTION_KEYS | SHARED_KEYS).items():
        name = f"{stem}.transactions.jsonl" if int(stem[1:3]) in SHARED_KEYS else f"{stem}.jsonl"
        (FRAMES / name).write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    head = {"broker": "Apache Kafka 4.3.1", "command": "python -m tests.golden capture transactions", "decoded by": "DumpLogSegments"}
    LOGS.write_text(json.dumps(head | {"segments": logs}, indent=1) + "\n")
