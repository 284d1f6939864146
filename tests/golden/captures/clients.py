"""Capture the golden frames of real clients, through a proxy that keeps every frame, from a running Apache Kafka.

The broker must advertise the proxy's port. Needs kcat, Java with Maven, Go, and the dev extra; takes some minutes.
Each (client, API, version, direction) keeps its smallest and its largest frame below 4 kB.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.golden import SCHEMAS, stem_of
from tests.golden.captures import drive_clients, write_frames
from tests.support import java
from tests.support.capture_proxy import Captured, CaptureProxy

#: APIs of transactions and committed offsets: captures/transactions.py takes their frames.
TRANSACTION_KEYS = {8, 9, 10, 24, 25, 26, 27, 28, 61, 65, 66}
#: APIs of groups with members, and of administration beside topics and configs: captures/groups.py takes their frames.
GROUP_KEYS = {11, 12, 13, 14, 15, 16, 42, 43, 45, 46, 47, 48, 49, 50, 51, 55, 57, 68, 69, 74, 76, 77, 78, 79, 90, 91, 92}
#: APIs of access control entries: captures/acls.py takes their frames.
ACL_KEYS = {29, 30, 31}
#: APIs of delegation tokens: captures/delegation_tokens.py takes their frames.
TOKEN_KEYS = {38, 39, 40, 41}
#: Moving replicas between log directories: captures/log_dirs.py takes its frames.
LOG_DIR_KEYS = {34}
#: APIs of streams groups: captures/streams.py takes their frames.
STREAMS_KEYS = {88, 89}
#: APIs of client telemetry: captures/telemetry.py takes their frames.
TELEMETRY_KEYS = {71, 72}
#: APIs of share groups' state, which brokers alone use.
BROKER_KEYS = {83, 84, 85, 86, 87}
#: Frames of APIs for which there is no schema are not kept.
KEYS = (
    {int(file.stem[1:3]) for file in SCHEMAS.glob("k[0-9][0-9]_*.py")}
    - TRANSACTION_KEYS
    - GROUP_KEYS
    - STREAMS_KEYS
    - ACL_KEYS
    - TOKEN_KEYS
    - LOG_DIR_KEYS
    - TELEMETRY_KEYS
    - BROKER_KEYS
)
BROKER = "Apache Kafka 4.3.1"
LARGEST = 4096
HERE = Path(__file__).parents[1]


def kafka_python(bootstrap: str) -> None:
    import kafka
    from kafka.admin import ConfigResource, ConfigResourceType

    admin = kafka.KafkaAdminClient(bootstrap_servers=bootstrap)
    admin.create_topics({"kafka-python": {"num_partitions": 2, "replication_factor": 1, "configs": {"retention.ms": "-1"}}})
    producer = kafka.KafkaProducer(bootstrap_servers=bootstrap, compression_type="gzip", linger_ms=50)
    for i in range(10):
        producer.send("kafka-python", key=b"k", value=b"v%d" % i, headers=[("h", b"x")], partition=0)
    producer.flush()
    producer.close()
    partition = kafka.TopicPartition("kafka-python", 0)
    consumer = kafka.KafkaConsumer(bootstrap_servers=bootstrap, isolation_level="read_committed")
    consumer.assign([partition])
    consumer.seek_to_beginning(partition)
    for _ in range(4):
        consumer.poll(timeout_ms=600)
    consumer.end_offsets([partition])
    consumer.offsets_for_times({partition: 1})
    consumer.close()
    admin.create_partitions({"kafka-python": 3})
    admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, "kafka-python", {"retention.ms": None})])
    admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, "kafka-python", {"retention.ms": "-1"})])
    admin.describe_log_dirs()
    admin.describe_cluster()
    admin.delete_records({partition: 3})
    admin.delete_topics(["kafka-python"])
    admin.close()


def aiokafka(bootstrap: str) -> None:
    asyncio.run(_aiokafka(bootstrap))


async def _aiokafka(bootstrap: str) -> None:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
    from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
    from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    await admin.create_topics([NewTopic("aiokafka", 1, 1)])
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True) as producer:
        await producer.send_and_wait("aiokafka", b"value", key=b"key", headers=[("h", b"x")])
    partition = TopicPartition("aiokafka", 0)
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, isolation_level="read_committed")
    await consumer.start()
    consumer.assign([partition])
    await consumer.seek_to_beginning(partition)
    await consumer.getone()
    await consumer.offsets_for_times({partition: 1})
    await consumer.stop()
    await admin.create_partitions({"aiokafka": NewPartitions(2)})
    await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, "aiokafka", {"retention.ms": ""})])
    await admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, "aiokafka", {"retention.ms": "1000"})])
    await admin.delete_records({partition: RecordsToDelete(before_offset=1)})
    await admin.delete_topics(["aiokafka"])
    await admin.close()


def librdkafka(bootstrap: str) -> None:
    from confluent_kafka import Consumer, IsolationLevel, Producer, TopicPartition
    from confluent_kafka.admin import (
        AdminClient,
        AlterConfigOpType,
        ConfigEntry,
        ConfigResource,
        NewPartitions,
        NewTopic,
        OffsetSpec,
    )

    admin = AdminClient({"bootstrap.servers": bootstrap})
    name = "librdkafka"
    admin.create_topics([NewTopic(name, 1, 1, config={"retention.ms": "-1"})])[name].result()
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "compression.type": "lz4"})
    for i in range(10):
        producer.produce(name, key=b"k", value=b"v%d" % i, headers=[("h", b"x"), ("n", None)])
    producer.flush()
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "none", "enable.auto.commit": False})
    consumer.assign([TopicPartition(name, 0, 0)])
    consumer.consume(10, timeout=5)
    consumer.get_watermark_offsets(TopicPartition(name, 0))
    consumer.offsets_for_times([TopicPartition(name, 0, 1)])
    consumer.close()
    admin.create_partitions([NewPartitions(name, 2)])[name].result()
    topic = ConfigResource(ConfigResource.Type.TOPIC, name)
    admin.describe_configs([topic])[topic].result()
    change = ConfigEntry("retention.ms", "5000", incremental_operation=AlterConfigOpType.SET)
    changed = ConfigResource(ConfigResource.Type.TOPIC, name, incremental_configs=[change])
    admin.incremental_alter_configs([changed])[changed].result()
    replaced = ConfigResource(ConfigResource.Type.TOPIC, name, set_config={"retention.ms": "6000"})
    admin.alter_configs([replaced])[replaced].result()
    requested_partition = TopicPartition(name, 0)
    admin.list_offsets({requested_partition: OffsetSpec.max_timestamp()}, isolation_level=IsolationLevel.READ_COMMITTED)[
        requested_partition
    ].result()
    admin.describe_cluster().result()
    admin.delete_records([TopicPartition(name, 0, 3)])
    admin.delete_topics([name])[name].result()


def kcat(bootstrap: str) -> None:
    subprocess.run(["kcat", "-b", bootstrap, "-t", "kcat", "-P", "-K", ":", "-z", "snappy"], input=b"k:v\nk2:\n", check=True)
    subprocess.run(["kcat", "-b", bootstrap, "-t", "kcat", "-P", "-X", "enable.idempotence=true"], input=b"idempotent\n", check=True)
    subprocess.run(["kcat", "-b", bootstrap, "-t", "kcat", "-C", "-e", "-o", "beginning"], capture_output=True, check=True)
    subprocess.run(["kcat", "-b", bootstrap, "-L", "-J"], capture_output=True, check=True)
    subprocess.run(["kcat", "-b", bootstrap, "-Q", "-t", "kcat:0:-1"], capture_output=True, check=True)


def java_tools(bootstrap: str) -> None:
    at = ("--bootstrap-server", bootstrap)
    java.run_tool(java.TOPIC_COMMAND, *at, "--create", "--topic", "java", "--partitions", "2", "--config", "retention.ms=-1")
    java.run_tool(java.TOPIC_COMMAND, *at, "--describe", "--topic", "java")
    java.run_tool(java.TOPIC_COMMAND, *at, "--alter", "--topic", "java", "--partitions", "3")
    produce = ("--topic", "java", "--reader-property", "parse.key=true", "--command-property", "compression.type=zstd")
    java.run_tool(java.CONSOLE_PRODUCER, *at, *produce, stdin="".join(f"k{i}\tv{i}\n" for i in range(20)))
    for partition in "012":
        consume = ("--topic", "java", "--partition", partition, "--offset", "earliest", "--timeout-ms", "1500")
        java.run_tool(java.CONSOLE_CONSUMER, *at, *consume, "--isolation-level", "read_committed")
    for selector in ("-1", "-2", "-3", "-4", "-5", "1"):
        java.run_tool(java.GET_OFFSET_SHELL, *at, "--topic", "java", "--time", selector)
    config = ("--entity-type", "topics", "--entity-name", "java")
    java.run_tool(java.CONFIG_COMMAND, *at, *config, "--alter", "--add-config", "max.message.bytes=4000")
    java.run_tool(java.CONFIG_COMMAND, *at, *config, "--describe")
    java.run_tool(java.LOG_DIRS_COMMAND, *at, "--describe", "--topic-list", "java")
    requested = Path(tempfile.gettempdir()) / "minibroker-capture.json"
    requested.write_text(json.dumps({"partitions": [{"topic": "java", "partition": 0, "offset": 1}], "version": 1}))
    java.run_tool(java.DELETE_RECORDS_COMMAND, *at, "--offset-json-file", str(requested))
    java.run_tool(java.BROKER_API_VERSIONS_COMMAND, *at)
    java.run_tool(java.TOPIC_COMMAND, *at, "--delete", "--topic", "java")


def spark(bootstrap: str) -> None:
    from minibroker.spark.session import kafka_session

    session = kafka_session("capture", master="local[2]")
    rows = session.range(20).selectExpr("cast(id as string) key", "cast(id * id as string) value")
    rows.write.format("kafka").option("kafka.bootstrap.servers", bootstrap).option("topic", "spark").save()
    read = {"kafka.bootstrap.servers": bootstrap}
    session.read.format("kafka").options(**read, subscribe="spark").load().count()
    committed = {"kafka.isolation.level": "read_committed", "startingTimestamp": "1", "subscribePattern": "spar."}
    session.read.format("kafka").options(**read, **committed).load().collect()
    session.stop()


def franz_go(bootstrap: str) -> None:
    subprocess.run(["go", "run", ".", bootstrap], cwd=HERE / "franz_go", check=True)


def _version_of(distribution: str) -> str:
    from importlib.metadata import version

    return version(distribution)


def clients() -> dict[str, tuple[Callable[[str], None], str, str]]:
    """Label of a frame -> what drives the client, its name and version for people, the command."""
    librdkafka_version = _version_of("confluent-kafka")
    return {
        f"kafka_python_{_version_of('kafka-python')}": (
            kafka_python,
            f"kafka-python {_version_of('kafka-python')}",
            "capture.kafka_python",
        ),
        f"aiokafka_{_version_of('aiokafka')}": (aiokafka, f"aiokafka {_version_of('aiokafka')}", "capture.aiokafka"),
        f"librdkafka_{librdkafka_version}": (librdkafka, f"confluent-kafka {librdkafka_version} (librdkafka)", "capture.librdkafka"),
        "kcat_1.7.1": (kcat, "kcat 1.7.1 (librdkafka 2.0.2)", "kcat -P, -C, -L, -Q"),
        f"java_{java.KAFKA_VERSION}": (java_tools, f"Apache Kafka's Java tools {java.KAFKA_VERSION}", "capture.java_tools"),
        "spark_4.0.0": (spark, "Spark 4.0.0, spark-sql-kafka-0-10 (kafka-clients 3.9.0)", "capture.spark"),
        "franz_go_1.22.2": (franz_go, "franz-go 1.22.2", "tests/golden/franz_go, each version pinned"),
    }


def keep(
    frames: list[Captured], catalogue: dict[str, tuple[Callable[[str], None], str, str]], keys: set[int]
) -> dict[str, list[dict[str, str]]]:
    """The frames worth keeping of the APIs with these keys, by the stem of their API."""
    groups: dict[tuple[int, int, str, str], list[Captured]] = {}
    for frame in frames:
        if frame.api_key in keys:
            groups.setdefault((frame.api_key, frame.version, frame.direction, frame.label), []).append(frame)
    kept: dict[str, list[dict[str, str]]] = {}
    for (key, version, direction, label), group in sorted(groups.items()):
        ordered = sorted((f for f in group if len(f.data) <= LARGEST), key=lambda f: len(f.data))
        chosen = [ordered[-1], ordered[0]] if ordered and len(ordered[0].data) != len(ordered[-1].data) else ordered[-1:]
        for suffix, frame in zip(("", "_small"), chosen, strict=False):
            _, client, command = catalogue[label]
            entry = {"name": f"{stem_of(key)}_v{version}_{direction}_{label}{suffix}", "client": client, "command": command}
            kept.setdefault(stem_of(key), []).append({**entry, "broker": BROKER, "frame": frame.data.hex()})
    return kept


def capture(broker_port: int, proxy_port: int) -> None:
    proxy = CaptureProxy(proxy_port, ("127.0.0.1", broker_port))
    catalogue = clients()
    drive_clients(proxy, catalogue)
    write_frames(keep(proxy.frames, catalogue, KEYS))
    proxy.close()
