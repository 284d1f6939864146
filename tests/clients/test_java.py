"""Apache Kafka's own Java tools, as their users run them. Each call starts a JVM, so a test makes few of them."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.clients.adapters import CLIENTS, Read, Sent
from tests.support import java


@pytest.fixture(autouse=True, scope="module")
def jars() -> Path:
    return java.kafka_jars()


def topics(bootstrap: str, *arguments: str, check: bool = True) -> str:
    return java.run_tool(java.TOPIC_COMMAND, "--bootstrap-server", bootstrap, *arguments, check=check)


def console_consumer(bootstrap: str, topic: str, *arguments: str, count: int) -> list[str]:
    at = ("--bootstrap-server", bootstrap, "--topic", topic, "--partition", "0", "--max-messages", str(count), "--timeout-ms", "60000")
    return java.run_tool(java.CONSOLE_CONSUMER, *at, *arguments).splitlines()


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_console_producer(codec: str, bootstrap: str, topic: str) -> None:
    lines = "h1:a,h2:b\tkey\tvalue\nh1:a\tNULL\tno key\nNULL\tk\tNULL\n"
    properties = ("parse.headers=true", "parse.key=true", "null.marker=NULL")
    arguments = [word for pair in properties for word in ("--reader-property", pair)]
    at = ("--bootstrap-server", bootstrap, "--topic", topic, "--compression-codec", codec)
    java.run_tool(java.CONSOLE_PRODUCER, *at, *arguments, stdin=lines)

    found = CLIENTS["kafka-python"].read(bootstrap, topic, count=3)
    assert [(r.offset, r.record.key, r.record.value, r.record.headers) for r in found] == [
        (0, b"key", b"value", (("h1", b"a"), ("h2", b"b"))),
        (1, None, b"no key", (("h1", b"a"),)),
        (2, b"k", None, ()),
    ]


@pytest.mark.smoke
def test_console_consumer(bootstrap: str, topic: str) -> None:
    records = [Sent(b"k%d" % i, b"v%d" % i, (("h", b"x"),), 1_700_000_000_000 + i) for i in range(3)]
    CLIENTS["aiokafka"].write(bootstrap, topic, [*records, Sent(b"", None, (), 7), Sent(None, b"", (), 8)])
    shown = ("print.timestamp", "print.key", "print.offset", "print.partition", "print.headers")
    properties = [word for name in shown for word in ("--formatter-property", f"{name}=true")]

    assert console_consumer(bootstrap, topic, "--offset", "earliest", *properties, count=5) == [
        "CreateTime:1700000000000\tPartition:0\tOffset:0\th:x\tk0\tv0",
        "CreateTime:1700000000001\tPartition:0\tOffset:1\th:x\tk1\tv1",
        "CreateTime:1700000000002\tPartition:0\tOffset:2\th:x\tk2\tv2",
        "CreateTime:7\tPartition:0\tOffset:3\tNO_HEADERS\t\tnull",
        "CreateTime:8\tPartition:0\tOffset:4\tNO_HEADERS\tnull\t",
    ]


def test_console_consumer_from_an_offset_read_committed(bootstrap: str, topic: str) -> None:
    CLIENTS["confluent-kafka"].write(bootstrap, topic, [Sent(None, b"%d" % i) for i in range(10)], compression="zstd")
    assert console_consumer(bootstrap, topic, "--offset", "7", "--isolation-level", "read_committed", count=3) == ["7", "8", "9"]


def test_topic_command(bootstrap: str) -> None:
    name = f"by-topic-command-{os.getpid()}"
    created = topics(
        bootstrap, "--create", "--topic", name, "--partitions", "2", "--config", "retention.ms=-1", "--config", "segment.bytes=1048576"
    )
    assert created.strip() == f"Created topic {name}."
    assert name in topics(bootstrap, "--list").splitlines()

    first, *rest = topics(bootstrap, "--describe", "--topic", name).splitlines()
    head = re.fullmatch(rf"Topic: {name}\tTopicId: [\w-]{{22}}\tPartitionCount: 2\tReplicationFactor: 1\tConfigs: (\S+)", first.strip())
    assert head is not None
    assert {"retention.ms=-1", "segment.bytes=1048576"} <= set(head[1].split(","))
    shape = rf"\tTopic: {name}\tPartition: %d\tLeader: (\d+)\tReplicas: \1\tIsr: \1\tElr: \t?\s*LastKnownElr:\s*"
    assert all(re.fullmatch(shape % i, line) for i, line in enumerate(rest)), rest

    topics(bootstrap, "--alter", "--topic", name, "--partitions", "4")
    assert topics(bootstrap, "--describe", "--topic", name).count("Leader:") == 4
    topics(bootstrap, "--delete", "--topic", name)
    assert name not in topics(bootstrap, "--list").splitlines()


def test_topic_command_prints_errors(bootstrap: str, topic: str) -> None:
    assert f"Topic '{topic}' already exists" in topics(bootstrap, "--create", "--topic", topic, check=False)
    refused = topics(bootstrap, "--create", "--topic", "three-replicas", "--replication-factor", "3", check=False)
    assert "Unable to replicate the partition 3 time(s)" in refused


def test_get_offset_shell(bootstrap: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic(partitions=2, **{"retention.ms": "-1"})
    CLIENTS["aiokafka"].write(bootstrap, topic, [Sent(None, b"x", (), t) for t in (1000, 3000, 2000)])

    def offsets(at: str) -> list[str]:
        return java.run_tool(java.GET_OFFSET_SHELL, "--bootstrap-server", bootstrap, "--topic", topic, "--time", at).splitlines()

    assert offsets("-1") == offsets("latest") == [f"{topic}:0:3", f"{topic}:1:0"]
    assert offsets("-2") == [f"{topic}:0:0", f"{topic}:1:0"]
    assert offsets("-3")[0] == f"{topic}:0:1"
    assert offsets("-4") == [f"{topic}:0:0", f"{topic}:1:0"]
    assert offsets("1500")[0] == f"{topic}:0:1"


def test_config_command(bootstrap: str, topic: str) -> None:
    def configs(*arguments: str) -> str:
        entity = ("--entity-type", "topics", "--entity-name", topic)
        return java.run_tool(java.CONFIG_COMMAND, "--bootstrap-server", bootstrap, *entity, *arguments)

    assert f"Completed updating config for topic {topic}." in configs(
        "--alter", "--add-config", "max.message.bytes=4000,cleanup.policy=[compact,delete]"
    )
    shown = configs("--describe")
    synonyms = "DYNAMIC_TOPIC_CONFIG:max.message.bytes=4000, DEFAULT_CONFIG:message.max.bytes=1048588"
    assert f"max.message.bytes=4000 sensitive=false synonyms={{{synonyms}}}" in shown
    assert "cleanup.policy=compact,delete sensitive=false" in shown
    configs("--alter", "--delete-config", "max.message.bytes")
    assert "max.message.bytes=1048588 sensitive=false synonyms={DEFAULT_CONFIG:message.max.bytes=1048588}" in configs("--describe", "--all")


def test_log_dirs_command(bootstrap: str, topic: str) -> None:
    CLIENTS["aiokafka"].write(bootstrap, topic, [Sent(None, b"x" * 1000)])
    output = java.run_tool(java.LOG_DIRS_COMMAND, "--bootstrap-server", bootstrap, "--describe", "--topic-list", topic)
    (described,) = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    (log_dir,) = described["brokers"][0]["logDirs"]
    assert log_dir["error"] is None
    (partition,) = log_dir["partitions"]
    assert partition["partition"] == f"{topic}-0"
    assert 1000 < partition["size"] < 1200
    assert (partition["offsetLag"], partition["isFuture"]) == (0, False)


def test_delete_records_command(bootstrap: str, topic: str, tmp_path: Path) -> None:
    CLIENTS["aiokafka"].write(bootstrap, topic, [Sent(None, b"%d" % i) for i in range(5)])
    wanted = tmp_path / "wanted.json"
    wanted.write_text(json.dumps({"partitions": [{"topic": topic, "partition": 0, "offset": 2}], "version": 1}))
    output = java.run_tool(java.DELETE_RECORDS_COMMAND, "--bootstrap-server", bootstrap, "--offset-json-file", str(wanted))
    assert f"partition: {topic}-0\tlow_watermark: 2" in output
    assert [r.offset for r in CLIENTS["kafka-python"].read(bootstrap, topic, start=2, count=3)] == [2, 3, 4]


def test_broker_api_versions(bootstrap: str) -> None:
    output = java.run_tool(java.BROKER_API_VERSIONS_COMMAND, "--bootstrap-server", bootstrap)
    shown = dict(re.findall(r"^\t(\w+)\(\d+\): (.+?),?$", output, re.MULTILINE))
    assert re.match(r"\d to 13 \[usable: 13\]", shown["Produce"])
    assert re.match(r"\d to 18 \[usable: 18\]", shown["Fetch"])
    assert re.match(r"0 to 4 \[usable: 4\]", shown["ApiVersions"])


def test_producer_performance(bootstrap: str, topic: str) -> None:
    at = ("--topic", topic, "--num-records", "20000", "--record-size", "100", "--throughput", "-1")
    output = java.run_tool(java.PRODUCER_PERFORMANCE, *at, "--bootstrap-server", bootstrap)
    assert "20000 records sent" in output
    found = CLIENTS["confluent-kafka"].read(bootstrap, topic, start=19_990, count=10)
    assert [(r.offset, len(r.record.value or b"")) for r in found] == [(19_990 + i, 100) for i in range(10)]


def test_900_kilobyte_messages_to_java(bootstrap: str, topic: str) -> None:
    sent = [Sent(b"k", bytes([97 + i]) * 900_000) for i in range(2)]
    CLIENTS["aiokafka"].write(bootstrap, topic, sent)
    assert CLIENTS["aiokafka"].read(bootstrap, topic, count=2) == [Read(i, record) for i, record in enumerate(sent)]
    assert console_consumer(bootstrap, topic, "--offset", "earliest", count=2) == ["a" * 900_000, "b" * 900_000]
