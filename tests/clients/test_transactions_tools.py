"""Apache Kafka's own tools at transactions: TransactionsCommand, ProducerPerformance and the console consumer. Each call starts a JVM."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from tests.clients.adapters import CLIENTS, Sent
from tests.clients.makes import IN_PROCESS, unique
from tests.clients.transactional import READ_COMMITTED, READ_UNCOMMITTED, Fenced, Place, Row
from tests.support import java

TRANSACTIONS_COMMAND = "org.apache.kafka.tools.TransactionsCommand"


def rows_of(said: str) -> list[dict[str, str]]:
    """A table of a tool: its first line names the columns."""
    head, *lines = [line.rstrip().split("\t") for line in said.splitlines() if "\t" in line]
    return [dict(zip([name.strip() for name in head], [word.strip() for word in line], strict=False)) for line in lines]


def test_transactions_command(bootstrap: str, new_topic: Callable[..., str]) -> None:
    topic, transactional_id = new_topic(partitions=2), unique("to-be-looked-at")
    place = Place(topic, 0)

    def command(*arguments: str) -> list[dict[str, str]]:
        return rows_of(java.run_tool(TRANSACTIONS_COMMAND, "--bootstrap-server", bootstrap, *arguments))

    CLIENTS["aiokafka"].write(bootstrap, topic, [Sent(None, b"before")])
    producer = IN_PROCESS["kafka-python"].open(bootstrap, transactional_id, timeout_ms=600_000)  # tools take their time
    producer.begin()
    producer.send(place, b"open")
    producer.send(Place(topic, 1), b"open")
    producer.flush()

    (listed,) = [row for row in command("list") if row["TransactionalId"] == transactional_id]
    assert listed["TransactionState"] == "Ongoing"
    (described,) = command("describe", "--transactional-id", transactional_id)
    assert described["ProducerId"] == listed["ProducerId"]
    assert (described["ProducerEpoch"], described["TransactionState"], described["TransactionTimeoutMs"]) == ("0", "Ongoing", "600000")
    assert set(described["TopicPartitions"].split(",")) == {f"{topic}-0", f"{topic}-1"}
    (active,) = [row for row in command("describe-producers", "--topic", topic, "--partition", "0") if row["ProducerId"] != "-1"]
    assert (active["ProducerId"], active["ProducerEpoch"], active["LastSequence"]) == (listed["ProducerId"], "0", "0")
    assert active["CurrentTransactionStartOffset"] == "1"

    where = ("--topic", topic, "--partition", "0", "--start-offset", "1")
    java.run_tool(TRANSACTIONS_COMMAND, "--bootstrap-server", bootstrap, "abort", *where)
    CLIENTS["aiokafka"].write(bootstrap, topic, [Sent(None, b"behind")])
    found = IN_PROCESS["aiokafka"].read(bootstrap, READ_COMMITTED, {place: 2})
    assert found[place] == [Row(0, b"before"), Row(3, b"behind")]
    producer.abort()
    producer.close()
    (described,) = command("describe", "--transactional-id", transactional_id)
    assert described["TransactionState"] == "CompleteAbort"


def test_fencing_by_hand(bootstrap: str, topic: str) -> None:
    """TransactionsCommand forceTerminateTransaction takes the transactional id over, as a producer would."""
    place, transactional_id = Place(topic, 0), unique("to-be-fenced")
    producer = IN_PROCESS["confluent-kafka"].open(bootstrap, transactional_id, timeout_ms=600_000)
    producer.begin()
    producer.send(place, b"open")
    producer.flush()
    at = ("--bootstrap-server", bootstrap)
    java.run_tool(TRANSACTIONS_COMMAND, *at, "forceTerminateTransaction", "--transactionalId", transactional_id)
    CLIENTS["aiokafka"].write(bootstrap, topic, [Sent(None, b"behind")])
    assert IN_PROCESS["aiokafka"].read(bootstrap, READ_COMMITTED, {place: 1})[place] == [Row(2, b"behind")]
    with pytest.raises(Fenced):
        producer.commit()
    producer.close()


def test_producer_performance(bootstrap: str, new_topic: Callable[..., str]) -> None:
    topic, count = new_topic(partitions=2), 20_000
    at = ("--bootstrap-server", bootstrap, "--topic", topic, "--transactional-id", unique("performance"))
    load = ("--num-records", str(count), "--record-size", "100", "--throughput", "20000", "--transaction-duration-ms", "50")
    assert f"{count} records sent" in java.run_tool(java.PRODUCER_PERFORMANCE, *at, *load)
    places = dict.fromkeys([Place(topic, 0), Place(topic, 1)], 0)
    committed = IN_PROCESS["confluent-kafka"].read(bootstrap, READ_COMMITTED, places)
    assert sum(map(len, committed.values())) == count
    assert committed == IN_PROCESS["confluent-kafka"].read(bootstrap, READ_UNCOMMITTED, places)
    ends = java.run_tool(java.GET_OFFSET_SHELL, "--bootstrap-server", bootstrap, "--topic", topic, "--time", "latest")
    written = sum(int(offset) for offset in re.findall(rf"^{topic}:\d:(\d+)$", ends, re.MULTILINE))
    assert written > count + 2, "many transactions, each with its markers"


def test_console_consumer(bootstrap: str, topic: str) -> None:
    place = Place(topic, 0)
    producer = IN_PROCESS["aiokafka"].open(bootstrap, unique("console"))
    for values, is_committed in (([b"c0", b"c1"], True), ([b"a0"], False), ([b"c2"], True)):
        producer.begin()
        producer.send(place, *values)
        producer.flush()
        (producer.commit if is_committed else producer.abort)()
    producer.close()
    at = ("--bootstrap-server", bootstrap, "--topic", topic, "--partition", "0", "--offset", "earliest", "--timeout-ms", "60000")
    committed = java.run_tool(java.CONSOLE_CONSUMER, *at, "--isolation-level", "read_committed", "--max-messages", "3")
    assert committed.split() == ["c0", "c1", "c2"]
    everything = java.run_tool(java.CONSOLE_CONSUMER, *at, "--isolation-level", "read_uncommitted", "--max-messages", "4")
    assert everything.split() == ["c0", "c1", "a0", "c2"]
