"""Commands that Kafka's own tools and ours are given in turn, and what of their output must be the same.

`python -m tests.cli.kafka_tools.conversation` has Apache Kafka's tools have it with a new broker, and writes what they said to
tests/golden/kafka_tools.json; test_kafka_tools.py has ours have it.
"""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

GOLDEN = Path(__file__).parents[2] / "golden" / "kafka_tools.json"
GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
CLASSES = {
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-consumer-groups": GROUPS,
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "kafka-cluster": "org.apache.kafka.tools.ClusterTool",
    "kafka-log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "kafka-delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
}


class Command(NamedTuple):
    """A call of a tool, which gets `--bootstrap-server` by itself unless it has one; `_FILE_` in its line is a file with this text."""

    tool: str
    line: str
    stdin: str = ""
    file: str = ""

    def arguments(self, bootstrap: str, folder: Path) -> list[str]:
        path = folder / "given.json"
        path.write_text(self.file)
        words = [word.replace("_TAB_", "\t").replace("_FILE_", str(path)) for word in self.line.split()]
        return words if "--bootstrap-server" in self.line or "--version" in self.line else [*words, "--bootstrap-server", bootstrap]


class Said(NamedTuple):
    """What a tool said."""

    stdout: str
    exit_code: int


#: what kafka-delete-records is given as files
DELETIONS: list[dict[str, Any]] = [
    {"partitions": [{"topic": "kept", "partition": partition, "offset": 1} for partition in (0, 1, 2)], "version": 1},
    {"partitions": [{"topic": "kept", "partition": partition, "offset": -1} for partition in (1, 2)]},
    {"partitions": [{"topic": "kept", "partition": 0, "offset": 99}]},
    {"partitions": []},
    {"partitions": [{"topic": "kept", "partition": 0, "offset": offset} for offset in (1, 2)]},
    {"partitions": [{"topic": "kept", "partition": "0", "offset": 1}]},
    {"partitions": [{"topic": "kept", "partition": 0}]},
    {"partitions": [], "version": 2},
    {"version": 1},
]
PRINT_ALL = " ".join(f"--property print.{part}=true" for part in ("key", "partition", "offset", "headers", "timestamp"))
CONVERSATION = [
    Command("kafka-topics", "--version"),
    Command("kafka-topics", "--create --topic orders --partitions 3 --replication-factor 1 --config retention.ms=1000000"),
    Command("kafka-topics", "--create --topic orders --partitions 3"),
    Command("kafka-topics", "--create --if-not-exists --topic orders --partitions=3"),
    Command("kafka-topics", "--create --topic none --partitions 0"),
    Command("kafka-topics", "--create --topic none --partitions 2 --replication-factor 0"),
    Command("kafka-topics", "--create --topic a_b.c"),
    Command("kafka-topics", "--list"),
    Command("kafka-topics", "--list --topic ord.*"),
    Command("kafka-topics", "--describe"),
    Command("kafka-topics", "--describe --topic orders --under-replicated"),
    Command("kafka-topics", "--describe --topic nope"),
    Command("kafka-topics", "--describe --topics-with-overrides"),
    Command("kafka-topics", "--alter --topic orders --partitions 2"),
    Command("kafka-topics", "--alter --topic orders --partitions 4"),
    Command("kafka-topics", "--delete --topic nope"),
    Command("kafka-topics", "--delete --topic nope --if-exists"),
    Command("kafka-topics", "--delete --topic a_b.c"),
    Command("kafka-topics", "--list --bogus"),
    Command("kafka-topics", "--list --describe"),
    Command("kafka-console-producer", "--topic orders --property parse.key=true --property key.separator=:", "k1:v1\nk2:v2\nk3:v3\n"),
    Command(
        "kafka-console-producer",
        "--topic orders --reader-property parse.key=true --reader-property parse.headers=true",
        "h:x,i:y\tk1\tv4\nbad\n",
    ),
    Command(
        "kafka-console-producer",
        "--topic orders --compression-codec zstd --property parse.key=true --property null.marker=NULL",
        "k2\tNULL\n",
    ),
    Command("kafka-console-consumer", f"--topic orders --from-beginning --max-messages 5 --group g1 {PRINT_ALL}"),
    Command(
        "kafka-console-consumer",
        "--topic orders --partition 1 --offset 1 --max-messages 2 --formatter-property print.key=true --formatter-property key.separator=-",
    ),
    Command(
        "kafka-console-consumer",
        "--topic orders --partition 0 --offset earliest --max-messages 1 --property print.value=false --property print.key=true",
    ),
    Command("kafka-console-consumer", "--topic orders --partition 3 --offset earliest --timeout-ms 500"),
    Command("kafka-consumer-groups", "--describe --group g1"),
    Command("kafka-consumer-groups", "--describe --group g1 --members"),
    Command("kafka-consumer-groups", "--describe --group nope"),
    Command("kafka-consumer-groups", "--reset-offsets --group g1 --topic orders:0,1 --to-earliest --dry-run"),
    Command("kafka-consumer-groups", "--reset-offsets --group g1 --all-topics --to-offset 1 --execute"),
    Command("kafka-consumer-groups", "--reset-offsets --group g1 --topic orders --shift-by -1 --export --dry-run"),
    Command("kafka-consumer-groups", "--delete-offsets --group g1 --topic orders"),
    Command("kafka-consumer-groups", "--delete --group g1"),
    Command("kafka-consumer-groups", "--delete --group nope"),
    Command("kafka-configs", "--entity-type topics --entity-name orders --describe"),
    Command("kafka-configs", "--topic orders --alter --add-config retention.ms=5,cleanup.policy=[compact,delete]"),
    Command("kafka-configs", "--entity-type topics --entity-name orders --describe"),
    Command("kafka-configs", "--entity-type topics --entity-name orders --alter --delete-config retention.ms"),
    Command("kafka-configs", "--entity-type topics --entity-name orders --describe --all"),
    Command("kafka-configs", "--entity-type brokers --entity-default --describe"),
    Command("kafka-configs", "--entity-type brokers --entity-default --alter --add-config log.retention.ms=888"),
    Command("kafka-configs", "--broker-defaults --describe"),
    Command("kafka-configs", "--broker 1 --alter --add-config log.retention.ms=777"),
    Command("kafka-configs", "--broker 1 --describe"),
    Command("kafka-get-offsets", "--topic orders"),
    Command("kafka-get-offsets", "--topic orders --time -2 --partitions 0,2"),
    Command("kafka-get-offsets", "--topic-partitions orders:0-2"),
    Command("kafka-broker-api-versions", ""),
    Command("kafka-cluster", "cluster-id"),
    Command("kafka-topics", "--create --topic kept --partitions 3 --config retention.ms=-1"),
    Command("kafka-console-producer", "--topic kept --property parse.key=true --property key.separator=:", "k1:v1\nk2:v2\nk3:v3\nk1:v4\n"),
    Command("kafka-topics", "--list --topic *"),
    Command("kafka-configs", "--topic kept --alter --add-config-file _FILE_", file="segment.bytes=1048576\n"),
    Command("kafka-configs", "--topic kept --describe"),
    Command("kafka-console-consumer", f"--include ke.*|none --from-beginning --max-messages 4 {PRINT_ALL}"),
    Command("kafka-log-dirs", "--describe --topic-list kept,none"),
    Command("kafka-log-dirs", "--describe --broker-list 1 --topic-list none"),
    Command("kafka-log-dirs", "--describe --broker-list 1,2"),
    Command("kafka-log-dirs", "--topic-list kept"),
    *(Command("kafka-delete-records", "--offset-json-file _FILE_", file=json.dumps(given)) for given in DELETIONS),
    Command("kafka-delete-records", "--offset-json-file _FILE_", file="{"),
    Command("kafka-get-offsets", "--topic kept --time earliest"),
    Command("kafka-configs", "--entity-type users --entity-name alice --alter --add-config SCRAM-SHA-256=[iterations=8192,password=x=y]"),
    Command("kafka-configs", "--user alice --alter --add-config SCRAM-SHA-512=[password=z],producer_byte_rate=1024"),
    Command("kafka-configs", "--user alice --alter --add-config producer_byte_rate=1024,consumer_byte_rate=2048.5"),
    Command("kafka-configs", "--user alice --alter --add-config SCRAM-SHA-512=[password=z]"),
    Command("kafka-configs", "--user alice --describe"),
    Command("kafka-configs", "--user bob --describe"),
    Command("kafka-configs", "--user-defaults --alter --add-config request_percentage=200"),
    Command("kafka-configs", "--user-defaults --describe"),
    Command("kafka-configs", "--entity-type users --describe"),
    Command("kafka-configs", "--entity-type clients --entity-name loader --alter --add-config producer_byte_rate=512"),
    Command("kafka-configs", "--client loader --describe"),
    Command("kafka-configs", "--entity-type clients --entity-default --alter --add-config controller_mutation_rate=3"),
    Command("kafka-configs", "--client-defaults --describe"),
    Command("kafka-configs", "--entity-type clients --describe"),
    Command("kafka-configs", "--user alice --client loader --alter --add-config consumer_byte_rate=7"),
    Command("kafka-configs", "--user alice --client-defaults --alter --add-config consumer_byte_rate=8"),
    Command("kafka-configs", "--entity-type users --entity-name alice --entity-type clients --entity-name loader --describe"),
    Command("kafka-configs", "--entity-type users --entity-type clients --describe"),
    Command("kafka-configs", "--user alice --entity-type clients --describe"),
    Command("kafka-configs", "--entity-type users --entity-default --entity-type clients --entity-default --describe"),
    Command("kafka-configs", "--entity-type ips --entity-name 127.0.0.9 --alter --add-config connection_creation_rate=11"),
    Command("kafka-configs", "--ip-defaults --alter --add-config connection_creation_rate=12"),
    Command("kafka-configs", "--ip 127.0.0.9 --describe"),
    Command("kafka-configs", "--entity-type ips --describe"),
    Command("kafka-configs", "--user alice --client loader --alter --delete-config consumer_byte_rate"),
    Command("kafka-configs", "--user alice --alter --delete-config SCRAM-SHA-256,consumer_byte_rate"),
    Command("kafka-configs", "--user alice --alter --delete-config SCRAM-SHA-256"),
    Command("kafka-configs", "--user alice --alter --delete-config consumer_byte_rate"),
    Command("kafka-configs", "--entity-type users --describe"),
    Command("kafka-configs", "--user nobody --alter --delete-config SCRAM-SHA-256"),
    Command("kafka-configs", "--user alice --alter --add-config nonsense=1"),
    Command("kafka-configs", "--user alice --alter --add-config producer_byte_rate=much"),
    Command("kafka-configs", "--user alice --alter --add-config producer_byte_rate=-1"),
    Command("kafka-configs", "--user alice --alter --add-config SCRAM-SHA-256=[iterations=1,password=x]"),
    Command("kafka-configs", "--user alice --alter --add-config SCRAM-SHA-256=[iterations=8192]"),
    Command("kafka-configs", "--user-defaults --alter --add-config SCRAM-SHA-256=[password=x]"),
    Command("kafka-configs", "--user alice --ip 127.0.0.9 --describe"),
    Command("kafka-configs", "--ip nowhere.invalid --alter --add-config connection_creation_rate=1"),
    Command("kafka-configs", "--ip 127.0.0.9 --alter --add-config producer_byte_rate=1"),
    Command("kafka-configs", "--entity-type users --alter --add-config producer_byte_rate=1"),
]

#: what differs from one time to the other, or is Java's own
_CHANGING = (
    (re.compile(r"(CreateTime:)\d+"), r"\1TIME"),
    (re.compile(r"(TopicId: |Cluster ID: )[\w-]{22}"), r"\1ID"),
    (re.compile(r"(localhost|127\.0\.0\.1):\d+"), "BROKER"),
    (re.compile(r"^.*--property is deprecated.*\n", re.MULTILINE), ""),
    (re.compile(r"^\t\w+\(\d+\): UNSUPPORTED,?\n", re.MULTILINE), ""),  # APIs that Kafka's client knows and the broker does not
    (re.compile(r"\[usable: \w+\],?"), "[usable]"),
    (re.compile(r" +$", re.MULTILINE), ""),
)

#: what kafka-log-dirs prints; of objects in it Java keeps no order
_JSON = re.compile(r"^\{.*\}$", re.MULTILINE)
#: what kafka-delete-records prints of a partition, in no order
_DELETED = re.compile(r"(?:^partition: .*\n)+", re.MULTILINE)

#: what kafka-configs prints of quotas, in no order
_QUOTAS = re.compile(r"(?:^Quota configs .*\n)+", re.MULTILINE)

#: of a record that kafka-console-consumer prints with its partition
_PARTITION = re.compile(r"\tPartition:(\d+)\t")


def comparable(command: Command, result: Said) -> Said:
    """Without what changes."""
    text = result.stdout
    for pattern, replacement in _CHANGING:
        text = pattern.sub(replacement, text)
    if command.tool == "kafka-console-consumer":
        text = by_partition(text)
    text = _JSON.sub(lambda found: json.dumps(in_order(json.loads(found[0]))), text)
    text = _DELETED.sub(lambda found: "".join(sorted(found[0].splitlines(keepends=True))), text)
    text = _QUOTAS.sub(lambda found: "".join(sorted(found[0].splitlines(keepends=True))), text)
    return Said(text, result.exit_code)


def in_order(value: Any) -> Any:
    """JSON with members by name, and objects in lists by their text; a folder's name and how many bytes the records take change."""
    if isinstance(value, dict):
        changed = {name: "FOLDER" if name == "logDir" else each > 0 if name == "size" else each for name, each in value.items()}
        return {name: in_order(changed[name]) for name in sorted(changed)}
    return sorted(map(in_order, value), key=json.dumps) if isinstance(value, list) else value


def by_partition(text: str) -> str:
    """Records in a row, partition by partition, each in its own order: which partition's are fetched first is up to chance."""

    def partition_of(line: str) -> int:
        found = _PARTITION.search(line)
        return -1 if found is None else int(found[1])

    rows = groupby(text.splitlines(keepends=True), key=lambda line: partition_of(line) >= 0)
    return "".join(line for is_of_records, lines in rows for line in (sorted(lines, key=partition_of) if is_of_records else lines))


def converse(say: Callable[[Command], Said]) -> list[tuple[str, Said]]:
    """Every command and what was said, comparable."""
    return [(f"{command.tool} {command.line}".rstrip(), comparable(command, say(command))) for command in CONVERSATION]


def capture() -> None:
    """Write what Kafka's tools say."""
    from tests.support.broker_process import BrokerProcess
    from tests.support.java import KAFKA_VERSION, SHORT_LIVED, kafka_jars

    with tempfile.TemporaryDirectory() as folder:
        broker = BrokerProcess(Path(folder), "--set", "offsets.topic.num.partitions=1")
        jars = ["-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", f"{kafka_jars()}/*"]

        def say(command: Command) -> Said:
            call = ["java", "-Xmx256m", *SHORT_LIVED, *jars, CLASSES[command.tool], *command.arguments(broker.bootstrap, Path(folder))]
            done = subprocess.run(call, input=command.stdin, capture_output=True, text=True, check=False)
            return Said(done.stdout, done.returncode)

        said = converse(say)
        broker.kill()
    provenance = f"Apache Kafka {KAFKA_VERSION}'s own tools, by python -m tests.cli.kafka_tools.conversation"
    answers = [{"command": command, **each._asdict()} for command, each in said]
    GOLDEN.write_text(json.dumps({"provenance": provenance, "said": answers}, indent=1) + "\n")


if __name__ == "__main__":
    capture()
