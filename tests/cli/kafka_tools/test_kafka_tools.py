"""Our tools say what Kafka's own said to the same commands, on stdout and by their exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from minibroker.cli.kafka_tools import configs
from minibroker.cli.kafka_tools.arguments import java_name
from minibroker.cli.kafka_tools.main import run_tool
from minibroker.client.client import Client
from minibroker.client.group_offsets import CommittedOffset, committed_offsets
from minibroker.client.groups import DescribedGroup, describe_groups
from minibroker.client.producer import Producer
from minibroker.errors import BY_CODE, KafkaError
from minibroker.records.record import Record
from minibroker.testing import BrokerThread
from tests.cli.kafka_tools.conversation import CONVERSATION, GOLDEN, Command, Said, by_partition, converse
from tests.support.broker_process import BrokerProcess

ERROR_CLASSES = GOLDEN.with_name("error_classes_kafka_4.3.1.tsv")
TIMEOUT_S = 60.0


def test_they_say_what_kafkas_tools_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    broker = BrokerProcess(tmp_path, "--set", "offsets.topic.num.partitions=1")

    def say(command: Command) -> Said:
        stdin = tmp_path / "stdin"
        stdin.write_text(command.stdin)
        with stdin.open() as stream:
            monkeypatch.setattr(sys, "stdin", stream)
            try:
                code = run_tool(command.tool, command.arguments(broker.bootstrap, tmp_path))
            except SystemExit as end:
                code = int(end.code or 0)
        sys.stdout.flush()
        return Said(capfd.readouterr().out, code)

    try:
        ours = converse(say)
    finally:
        broker.kill()
    golden = json.loads(GOLDEN.read_text())["said"]
    assert len(golden) == len(CONVERSATION)
    different = [
        f"$ {command}\nKafka's: {theirs['stdout']}[{theirs['exit_code']}]\nours: {said.stdout}[{said.exit_code}]"
        for (command, said), theirs in zip(ours, golden, strict=True)
        if (command, *said) != (theirs["command"], theirs["stdout"], theirs["exit_code"])
    ]
    assert different == [], "\n\n".join(different)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (512, "512.0"),
        (0.5, "0.5"),
        (9_999_999, "9999999.0"),
        (1e7, "1.0E7"),
        (10 * 1024 * 1024, "1.048576E7"),
        (2**53 * 1.0, "9.007199254740992E15"),
    ],
)
def test_numbers_are_shown_as_java_shows_them(value: float, text: str) -> None:
    """Checked with Java 17's Double.toString."""
    assert configs._java_double(value) == text


REFUSED = {
    "kafka-configs --user alice --alter --add-config SCRAM-SHA-256=[password=x],producer_byte_rate=1": (
        "Cannot alter both quota and SCRAM credential configs simultaneously for 'users' using --bootstrap-server."
    ),
    "kafka-configs --user alice --entity-type clients --describe": (
        "--entity-{type,name,default} should not be used in conjunction with specific entity flags"
    ),
    "kafka-configs --user alice --alter --add-config SCRAM-SHA-256=[iterations=1,password=x]": (
        "Iterations 1 is less than the minimum 4096 required for SCRAM-SHA-256"
    ),
    "kafka-configs --ip 127.0.0.9 --alter --add-config producer_byte_rate=1": (
        "Only connection quota configs can be added for 'ips' using --bootstrap-server. Unexpected config names: producer_byte_rate"
    ),
    "kafka-configs --user alice --alter --delete-config consumer_byte_rate": "Invalid config(s): consumer_byte_rate",
    "kafka-consumer-groups --describe --group g --verbose": "verbose is not a recognized option\nSee kafka-consumer-groups --help",
    "kafka-console-consumer --include *": "* is an invalid regex.",
    "kafka-console-consumer --topic a --property value.deserializer=my.Deserializer": (
        "my.Deserializer is not supported: give Kafka's deserializer for String, ByteArray, Long, Integer or Short"
    ),
    "kafka-log-dirs --describe --broker-list x": "--broker-list: x is not a list of broker ids such as 1,2",
    "kafka-topics --list --command-config FILE": (
        "Error: sasl.mechanism is missing: give one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER"
    ),
    "kafka-delete-records --offset-json-file FILE.none": "Unable to read file FILE.none",
}


def test_what_is_not_served_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "client.properties"
    file.write_text("security.protocol=SASL_SSL\n")
    with BrokerThread() as broker:
        for line, words in REFUSED.items():
            tool, *arguments = [word.replace("FILE", str(file)) for word in line.split()]
            try:
                code = run_tool(tool, ["--bootstrap-server", broker.bootstrap_servers, *arguments])
            except SystemExit as end:
                code = int(end.code or 0)
            assert (code, capsys.readouterr()) == (1, ("", words.replace("FILE", str(file)) + "\n"))


def committed_offset(client: Client) -> int | None:
    found = committed_offsets(client, ["counters"])["counters"]
    assert not isinstance(found, KafkaError)
    committed = found.get(("orders", 0))
    return committed.offset if isinstance(committed, CommittedOffset) else None


def test_who_may_lead_a_partition_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """As Kafka 4.3.1's own tool said of three brokers of which two had left (KIP-966)."""
    with BrokerThread(brokers=3, config={"min.insync.replicas": 2, "default.replication.factor": 3}, topics={"orders": 1}) as broker:
        for node in (3, 2):
            broker.nodes.stop(node)
        first = broker.bootstrap_servers.partition(",")[0]
        assert run_tool("kafka-topics", ["--bootstrap-server", first, "--describe", "--topic", "orders"]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "Leader:" in line]
    assert [each for each in line.split("\t")[3:] if not each.startswith("Replicas")] == ["Leader: 1", "Isr: 1", "Elr: 2", "LastKnownElr: "]


def test_a_console_consumer_that_is_told_to_stop_has_committed() -> None:
    call = [sys.executable, "-c", "import sys; from minibroker.cli.kafka_tools.main import main; main(sys.argv[1:])"]
    options = "--group counters --from-beginning --consumer-property auto.commit.interval.ms=50"
    with BrokerThread(topics=["orders"]) as broker, Client(broker.bootstrap_servers) as client:
        producer = Producer(client, "orders")
        call += ["kafka-console-consumer", "--bootstrap-server", broker.bootstrap_servers, "--topic", "orders", *options.split()]
        with subprocess.Popen(call, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as consumer:
            try:
                for count in (1, 2):
                    producer.add(Record(0, time.time_ns() // 1_000_000, None, b"v%d" % count))
                    producer.flush()
                    deadline_s = time.monotonic() + TIMEOUT_S
                    while committed_offset(client) != count:
                        assert time.monotonic() < deadline_s, committed_offset(client)
                        time.sleep(0.05)
                consumer.terminate()
                assert consumer.communicate(timeout=TIMEOUT_S) == ("v1\nv2\n", "Processed a total of 2 messages\n")
                assert consumer.returncode == 0
            finally:
                consumer.kill()
        (group,) = describe_groups(client, ["counters"]).values()
        assert isinstance(group, DescribedGroup)
        assert list(group.members) == []


def test_errors_have_the_names_of_javas_classes() -> None:
    rows = [line.split("\t") for line in ERROR_CLASSES.read_text().splitlines() if not line.startswith("#")]
    assert {code: java_name(kind()) for code, kind in BY_CODE.items()} == {int(code): name for code, name in rows}


def test_order_counts_within_a_partition_only() -> None:
    a0, a1, b0 = "T\tPartition:0\tOffset:0\n", "T\tPartition:0\tOffset:1\n", "T\tPartition:1\tOffset:0\n"
    assert by_partition(b0 + a0 + a1) == by_partition(a0 + b0 + a1) == a0 + a1 + b0
    assert by_partition(b0 + a1 + a0) != a0 + a1 + b0
    assert by_partition("v2\nv1\n") == "v2\nv1\n"
    assert by_partition(b0 + "words\n" + a0) == b0 + "words\n" + a0
