"""`minibroker transactions`, and what Kafka's TransactionsCommand says of the same broker."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from minibroker.client.client import Client
from minibroker.client.errors import check, refusal
from minibroker.records.builder import build_batch
from minibroker.records.record import Record
from minibroker.schemas import k00_produce, k22_init_producer_id, k44_incremental_alter_configs
from tests.cli.conftest import Cluster, Commands, wait_until_complete
from tests.support import java

OpenTransaction = Callable[..., Any]
BROKER = 4  #: ConfigResource.Type
TRANSACTIONS_COMMAND = "org.apache.kafka.tools.TransactionsCommand"

_numbers = itertools.count(1)


@pytest.fixture
def begin(cluster: Cluster) -> Iterator[OpenTransaction]:
    """Begin a transaction with a record in each partition: `begin("orders", 0, 1)` is librdkafka's producer, `.name` its id."""
    from tests.support.confluent import Producer

    producers: list[Any] = []

    class Writer(Producer):
        name: str

        def write(self, topic: str, *partitions: int) -> None:
            for partition in partitions:
                self.produce(topic, b"value", partition=partition)
            assert self.flush(60) == 0

    def make(topic: str, *partitions: int, timeout_ms: int = 60_000) -> Any:
        name = f"writer-{os.getpid()}-{next(_numbers)}"
        settings = {"bootstrap.servers": cluster.bootstrap, "transactional.id": name, "transaction.timeout.ms": timeout_ms}
        producer = Writer(settings, logger=_Silent())
        producer.name = name
        producer.init_transactions(60)
        producer.begin_transaction()
        producer.write(topic, *partitions)
        producers.append(producer)
        return producer

    yield make
    for producer in producers:
        producer.purge()


class _Silent:
    def log(self, *_: object) -> None:
        """Drop what librdkafka tells of being fenced."""


def items(cli: Commands, *arguments: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in cli("transactions", *arguments, "-o", "jsonl").lines]


def complete(cli: Commands, producer: Any) -> dict[str, Any]:
    return wait_until_complete(cli, producer.name)


def test_list(cli: Commands, fresh: Callable[..., str], begin: OpenTransaction) -> None:
    topic = fresh()
    committed, aborted = begin(topic, 0), begin(topic, 0)
    committed.commit_transaction(30)
    aborted.abort_transaction(30)
    still_open = begin(topic, 0)
    names = {each.name: each for each in (committed, aborted, still_open)}
    complete(cli, committed)
    complete(cli, aborted)
    found = {item["transactional_id"]: item for item in items(cli, "list") if item["transactional_id"] in names}
    assert list(found) == sorted(names)
    assert [found[name]["state"] for name in names] == ["CompleteCommit", "CompleteAbort", "Ongoing"]
    assert list(found[still_open.name]) == ["transactional_id", "coordinator", "producer_id", "state"]
    open_ones = cli("transactions", "list", "--state", "ongoing", "-o", "name").lines
    assert [name for name in open_ones if name in names] == [still_open.name]
    assert cli("transactions", "list", "--producer-id", str(found[aborted.name]["producer_id"]), "-o", "name").lines == [aborted.name]
    pattern = f"{committed.name}|{aborted.name}"
    assert cli("transactions", "list", "--transactional-id-pattern", pattern, "-o", "name").lines == sorted((committed.name, aborted.name))
    assert still_open.name in cli("transactions", "list", "--state", "Ongoing", "--duration-filter", "1", "-o", "name").lines
    assert cli("transactions", "list", "--state", "Ongoing", "--duration-filter", "3600000", "-o", "name").out == ""
    assert cli("transactions", "list").lines[0].split("  ")[0] == "TRANSACTIONAL ID"
    error = cli("transactions", "list", "--transactional-id-pattern", "(", code=1).err
    assert " that match '(': " in error
    assert "INVALID_REGULAR_EXPRESSION" in error
    still_open.abort_transaction(30)


def test_describe(cli: Commands, fresh: Callable[..., str], begin: OpenTransaction) -> None:
    topic = fresh(partitions=3)
    producer = begin(topic, 2, 0, timeout_ms=30_000)
    (item,) = items(cli, "describe", producer.name)
    assert list(item) == [
        "transactional_id",
        "coordinator",
        "producer_id",
        "producer_epoch",
        "state",
        "timeout_ms",
        "start_timestamp",
        "duration_ms",
        "partitions",
    ]
    assert (item["transactional_id"], item["state"], item["timeout_ms"]) == (producer.name, "Ongoing", 30_000)
    assert item["start_timestamp"] > 1_700_000_000_000
    assert item["duration_ms"] >= 0
    assert item["partitions"] == [{"topic": topic, "partition": 0}, {"topic": topic, "partition": 2}]
    assert cli("transactions", "describe", "--transactional-id", producer.name).lines[1].split()[-1] == f"{topic}-0,{topic}-2"
    assert producer.name in [item["transactional_id"] for item in items(cli, "describe")]
    producer.commit_transaction(30)
    item = complete(cli, producer)
    assert (item["state"], item["duration_ms"], item["partitions"]) == ("CompleteCommit", None, [])
    result = cli("transactions", "describe", producer.name, "nobody", "-o", "name", code=1)
    assert result.lines == [producer.name]
    assert result.err.startswith("Error: transactional id nobody: ")
    assert "[TRANSACTIONAL_ID_NOT_FOUND]" in result.err


def test_describe_producers(cli: Commands, fresh: Callable[..., str], begin: OpenTransaction) -> None:
    topic = fresh()
    cli("produce", topic, stdin="a\nb\n")
    producer = begin(topic, 0)
    (transaction,) = items(cli, "describe", producer.name)
    (idempotent, transactional) = sorted(
        items(cli, "describe-producers", "--topic", topic, "--partition", "0"), key=lambda item: item["current_txn_start_offset"] or 0
    )
    assert (idempotent["last_sequence"], idempotent["current_txn_start_offset"]) == (1, None)
    assert transactional == {
        "producer_id": transaction["producer_id"],
        "producer_epoch": transaction["producer_epoch"],
        "coordinator_epoch": -1,
        "last_sequence": 0,
        "last_timestamp": transactional["last_timestamp"],
        "current_txn_start_offset": 2,
    }
    node = str(transaction["coordinator"])
    assert len(items(cli, "describe-producers", "--topic", topic, "--partition", "0", "--broker-id", node)) == 2
    assert "[UNKNOWN_TOPIC_OR_PARTITION]" in cli("transactions", "describe-producers", "--topic", topic, "--partition", "9", code=1).err
    error = cli("transactions", "describe-producers", "--topic", topic, "--partition", "0", "--broker-id", "99", code=1).err
    assert error.startswith("Error: broker 99 is not in the cluster's metadata")
    producer.abort_transaction(30)


def latest(cli: Commands, topic: str, isolation: str) -> int:
    return int(cli("offsets", "--topic", topic, "-p", "0", "--isolation", isolation, "-o", "shell").out.rpartition(":")[2])


def test_where_readers_wait(cli: Commands, fresh: Callable[..., str], begin: OpenTransaction) -> None:
    topic = fresh()
    cli("produce", topic, stdin="before\n")
    aborted = begin(topic, 0)
    still_open = begin(topic, 0)
    aborted.abort_transaction(30)
    complete(cli, aborted)
    cli("produce", topic, stdin="after\n")
    (item,) = json.loads(cli("offsets", "--all", "--topic", topic, "-o", "json").out)
    ends = {"log_start_offset": 0, "last_stable_offset": 2, "high_watermark": 5, "log_end_offset": 5}
    assert item == {"topic": topic, "partition": 0, **ends}

    def read(level: str) -> list[str]:
        return cli("consume", topic, "-e", "--isolation-level", level, "-f", "%o %v\n").lines

    assert read("read_committed") == ["0 before"]
    assert read("read_uncommitted") == ["0 before", "1 value", "2 value", "4 after"]
    still_open.commit_transaction(30)
    complete(cli, still_open)
    assert read("read_committed") == ["0 before", "2 value", "4 after"]
    for start, expected in (("1", ["2 value", "4 after"]), ("3", ["4 after"]), ("5", []), ("-3", ["4 after"])):
        assert cli("consume", topic, "-e", "--isolation", "read_committed", "--from", start, "-f", "%o %v\n").lines == expected
    assert cli("consume", topic, "-c", "3", "--isolation", "read_committed", "-f", "%o;").out == "0;2;4;"


def test_abort_by_id_fences_the_producer(cli: Commands, fresh: Callable[..., str], begin: OpenTransaction) -> None:
    from confluent_kafka import KafkaException

    topic = fresh(partitions=2)
    producer = begin(topic, 0, 1)
    found = items(cli, "abort", "--transactional-id", producer.name)
    assert [(item["transactional_id"], item["topic"], item["partition"], item["aborted"]) for item in found] == [
        (producer.name, topic, 0, True),
        (producer.name, topic, 1, True),
    ]
    lines = cli("offsets", "--topic", topic, "--isolation", "read_committed", "-o", "shell").lines
    assert lines == [f"{topic}:0:2", f"{topic}:1:2"]
    assert cli("consume", topic, "-e", "--isolation", "read_committed").out == ""
    with pytest.raises(KafkaException) as raised:
        producer.commit_transaction(30)
    assert raised.value.args[0].fatal()
    assert "has no transaction to abort: its state is " in cli("transactions", "abort", "--transactional-id", producer.name, code=1).err
    assert "[TRANSACTIONAL_ID_NOT_FOUND]" in cli("transactions", "abort", "--transactional-id", "nobody", code=1).err


def test_abort_by_offset(cli: Commands, fresh: Callable[..., str], begin: OpenTransaction) -> None:
    topic = fresh()
    cli("produce", topic, stdin="a\nb\n")
    producer = begin(topic, 0)
    where = ("--topic", topic, "--partition", "0")
    error = cli("transactions", "abort", *where, "--start-offset", "1", code=1).err
    assert error == f"Error: no open transaction starts at offset 1 of {topic}-0 [INVALID_TXN_STATE]\n"
    assert latest(cli, topic, "read_committed") == 2
    refused = cli("transactions", "abort", *where, "--start-offset", "2", code=1).err
    assert f"the transaction does not hang: transactional id {producer.name} has it open in {topic}-0" in refused
    assert latest(cli, topic, "read_committed") == 2
    (item,) = items(cli, "abort", *where, "--start-offset", "2", "--force")
    (transaction,) = items(cli, "describe", producer.name)
    assert item == {
        "transactional_id": None,
        "topic": topic,
        "partition": 0,
        "producer_id": transaction["producer_id"],
        "producer_epoch": transaction["producer_epoch"],
        "aborted": True,
    }
    assert latest(cli, topic, "read_committed") == 4
    assert cli("consume", topic, "-e", "--isolation", "read_committed").lines == ["a", "b"]
    producer.abort_transaction(30)


def test_abort_by_producer(cli: Commands, fresh: Callable[..., str], begin: OpenTransaction) -> None:
    topic = fresh()
    producer = begin(topic, 0)
    (open_one,) = items(cli, "describe-producers", "--topic", topic, "--partition", "0")
    who = ("--topic", topic, "--partition", "0", "--producer-id", str(open_one["producer_id"]), "--producer-epoch")
    epoch = open_one["producer_epoch"]
    if epoch:
        stale = cli("transactions", "abort", *who, str(epoch - 1), "--coordinator-epoch", "-1", code=1).err
        assert "[INVALID_PRODUCER_EPOCH]" in stale
    cli("transactions", "abort", *who, str(epoch), "--coordinator-epoch", "-1")
    assert latest(cli, topic, "read_committed") == 2
    producer.abort_transaction(30)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], "give --transactional-id, or --topic and --partition"),
        (["--topic", "t"], "give --transactional-id, or --topic and --partition"),
        (["--topic", "t", "--partition", "0"], "give --start-offset, or --producer-id, --producer-epoch and --coordinator-epoch"),
        (["--topic", "t", "--partition", "0", "--producer-id", "1"], "give --start-offset, or --producer-id"),
        (["--topic", "t", "--partition", "0", "--producer-id", "1", "--start-offset", "3"], "leave out the options of the producer"),
        (["--transactional-id", "a", "--topic", "t"], "--transactional-id excludes"),
        (["--transactional-id", ""], "--transactional-id must not be empty"),
    ],
)
def test_abort_needs_a_transaction(offline: Commands, options: list[str], words: str) -> None:
    assert words in offline("transactions", "abort", *options, code=2).err


def test_transaction_known_to_its_coordinator_is_not_hanging(cli: Commands, fresh: Callable[..., str], begin: OpenTransaction) -> None:
    topic = fresh(partitions=2)
    producer = begin(topic, 0)
    for scope in (["--topic", topic], ["--topic", topic, "--partition", "0"], []):
        assert items(cli, "find-hanging", *scope, "--max-transaction-timeout", "0") == []
    producer.abort_transaction(30)
    assert "topic no-such-topic does not exist" in cli("transactions", "find-hanging", "--topic", "no-such-topic", code=1).err
    assert f"topic {topic} has no partition 2" in cli("transactions", "find-hanging", "--topic", topic, "--partition", "2", code=1).err
    assert "on broker 99" in cli("transactions", "find-hanging", "--topic", topic, "--broker-id", "99", code=1).err
    assert "--partition needs --topic" in cli("transactions", "find-hanging", "--partition", "2", code=2).err


def verify_partitions(client: Client, value: str) -> None:
    config = k44_incremental_alter_configs.Config(name="transaction.partition.verification.enable", config_operation=0, value=value)
    resource = k44_incremental_alter_configs.Resource(resource_type=BROKER, resource_name="1", configs=[config])
    answer = client.ask(k44_incremental_alter_configs, k44_incremental_alter_configs.Request(resources=[resource], validate_only=False))
    check(answer.responses[0].error_code, "transaction.partition.verification.enable", answer.responses[0].error_message)


def leave_open(client: Client, topic: str) -> int:
    """A record of a transaction that no coordinator ever hears of; its producer id."""
    answer = client.ask(k22_init_producer_id, k22_init_producer_id.Request(transactional_id=None, transaction_timeout_ms=1000))
    ids = {"producer_id": answer.producer_id, "producer_epoch": answer.producer_epoch, "base_sequence": 0}
    data = build_batch([Record(0, 1_700_000_000_000, None, b"lost")], is_transactional=True, **ids)
    partition = k00_produce.Partition(index=0, records=data)
    found = client.topic(topic)
    request = k00_produce.Request(
        transactional_id="lost",
        acks=-1,
        timeout_ms=1000,
        topic_data=[k00_produce.Topic(name=topic, topic_id=found.topic_id, partition_data=[partition])],
    )
    deadline = client.deadline()
    while True:  # until the broker has heard of the change
        response = client.to_any(deadline).ask(k00_produce, request, deadline, most=11)
        error = refusal(response.responses[0].partition_responses[0].error_code, "produce")
        if error is None:
            return int(answer.producer_id)
        deadline.pause(error)


def test_a_transaction_that_hangs_is_found_and_ended(
    cli: Commands, cluster: Cluster, fresh: Callable[..., str], begin: OpenTransaction
) -> None:
    if cluster.kind == "minibroker":
        pytest.skip("no client can have a transaction hang here: test_hanging_transactions.py")
    topic = fresh(partitions=2, **{"message.timestamp.before.max.ms": str(2**62)})
    known = begin(topic, 0)
    with Client(cluster.bootstrap) as client:
        verify_partitions(client, "false")
        producer_id = leave_open(client, topic)
        verify_partitions(client, "true")
    known.commit_transaction(30)
    complete(cli, known)
    assert latest(cli, topic, "read_committed") == 1
    (item,) = items(cli, "find-hanging")
    assert item["duration_min"] > 1000
    assert {**item, "duration_min": 0} == {
        "topic": topic,
        "partition": 0,
        "producer_id": producer_id,
        "producer_epoch": 0,
        "coordinator_epoch": -1,
        "start_offset": 1,
        "last_timestamp": 1_700_000_000_000,
        "duration_min": 0,
    }
    output = java.run_tool(TRANSACTIONS_COMMAND, "--bootstrap-server", cluster.bootstrap, "find-hanging", "--topic", topic)
    assert output.splitlines()[1].split()[:6] == [topic, "0", str(producer_id), "0", "-1", "1"]
    assert cli("transactions", "find-hanging", "-o", "name").lines == [f"{topic}:0:1"]
    assert items(cli, "find-hanging", "--max-transaction-timeout", "100000000") == []
    cli("transactions", "abort", "--topic", topic, "--partition", "0", "--start-offset", "1")
    assert items(cli, "find-hanging") == []
    assert latest(cli, topic, "read_committed") == latest(cli, topic, "read_uncommitted") == 4
    assert cli("consume", topic, "-e", "--isolation", "read_committed").lines == ["value"]


def test_output_matches_transactions_command(cli: Commands, cluster: Cluster, fresh: Callable[..., str], begin: OpenTransaction) -> None:
    topic = fresh(partitions=2)
    producer = begin(topic, 0, 1)

    def rows(*arguments: str) -> list[list[str]]:
        output = java.run_tool(TRANSACTIONS_COMMAND, "--bootstrap-server", cluster.bootstrap, *arguments)
        return [line.split() for line in output.splitlines()[1:]]

    def ours(*arguments: str) -> list[list[str]]:
        return [[str(value) for value in item.values()] for item in items(cli, *arguments)]

    assert sorted(rows("list")) == ours("list")
    ((coordinator, name, *facts, _, partitions),) = rows("describe", "--transactional-id", producer.name)
    ((our_name, our_coordinator, *our_facts, _, _),) = ours("describe", producer.name)
    assert (coordinator, name, facts) == (our_coordinator, our_name, our_facts)
    assert sorted(partitions.split(",")) == [f"{topic}-0", f"{topic}-1"]
    arguments = ("describe-producers", "--topic", topic, "--partition", "1")
    assert rows(*arguments) == ours(*arguments)
    producer.abort_transaction(30)
