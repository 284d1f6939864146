"""`minibroker transactions`: the equivalent of Kafka's TransactionsCommand.

A hanging transaction is open in a partition but unknown to its coordinator, and never ends by itself.
"""

from __future__ import annotations

import time
from typing import Any

import click

from minibroker.cli.completions import topic_names
from minibroker.cli.options import client_command, fail_with, output_option
from minibroker.cli.output import FORMATS, emit
from minibroker.client import transactions as admin
from minibroker.client.client import Client
from minibroker.client.errors import check
from minibroker.client.routing import TopicPartition
from minibroker.coordinator.transaction.records import TransactionState
from minibroker.errors import InvalidTxnState, KafkaError, UnknownTopicOrPartition
from minibroker.schemas.k61_describe_producers import ProducerState

NO_IDS = "No transactional ids."
LIST_COLUMNS = ("transactional_id", "coordinator", "producer_id", "state")
DESCRIBE_COLUMNS = (*LIST_COLUMNS[:3], "producer_epoch", "state", "timeout_ms", "start_timestamp", "duration_ms", "partitions")
PRODUCER_COLUMNS = ("producer_id", "producer_epoch", "coordinator_epoch", "last_sequence", "last_timestamp", "current_txn_start_offset")
HANGING_COLUMNS = (
    "topic",
    "partition",
    "producer_id",
    "producer_epoch",
    "coordinator_epoch",
    "start_offset",
    "last_timestamp",
    "duration_min",
)
ABORTED_COLUMNS = ("transactional_id", "topic", "partition", "producer_id", "producer_epoch", "aborted")
MINUTE_MS = 60_000
INT16_MAX = 2**15 - 1


@click.group(
    epilog="""\b
Examples:
  minibroker transactions list --state Ongoing --duration-filter 60000
  minibroker transactions describe orders-writer
  minibroker transactions abort --transactional-id orders-writer
  minibroker transactions find-hanging --topic orders
  minibroker transactions abort --topic orders --partition 0 --start-offset 42
"""
)
def transactions() -> None:
    """Show transactions, and abort hanging ones."""


@transactions.command("list", short_help="List transactional ids with their states.")
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice([state.kafka_name for state in TransactionState], case_sensitive=False),
    help="Only ids in this state; may be given several times.",
)
@click.option(
    "--producer-id", "producer_ids", multiple=True, type=click.IntRange(min=0), metavar="ID", help="Only the id with this producer id."
)
@click.option(
    "--duration-filter",
    type=click.INT,
    default=-1,
    metavar="MS",
    help="Only ids whose last transaction started longer ago than this; see --state.",
)
@click.option("--transactional-id-pattern", metavar="REGEX", help="Only transactional ids that match; the broker evaluates the expression.")
@output_option(*FORMATS)
@client_command
def list_transactions(
    client: Client,
    *,
    states: tuple[str, ...],
    producer_ids: tuple[int, ...],
    duration_filter: int,
    transactional_id_pattern: str | None,
    output: str,
) -> None:
    """List transactional ids with the state of their last transaction."""
    found = admin.list_transactions(
        client, states=states, producer_ids=producer_ids, duration_ms=duration_filter, pattern=transactional_id_pattern
    )
    emit([each._asdict() for each in found], output, columns=LIST_COLUMNS, name="transactional_id", empty=NO_IDS)


@transactions.command()
@click.argument("transactional_ids", nargs=-1, metavar="[TRANSACTIONAL_ID]...")
@click.option("--transactional-id", "more_ids", multiple=True, metavar="ID", help="Another way to name an id, as in Kafka.")
@output_option(*FORMATS)
@client_command
def describe(client: Client, *, transactional_ids: tuple[str, ...], more_ids: tuple[str, ...], output: str) -> None:
    """Show the state of transactional ids.

    Without a TRANSACTIONAL_ID, shows all. PARTITIONS are those of the open transaction: consumers with read_committed
    cannot read past its first record there.
    """
    ids = [*transactional_ids, *more_ids] or [each.transactional_id for each in admin.list_transactions(client)]
    answers = admin.describe_transactions(client, ids)
    now_ms = time.time_ns() // 1_000_000
    items = [_description(answer, now_ms) for _, answer in sorted(answers.items()) if not isinstance(answer, KafkaError)]
    errors: list[Exception] = [answer for answer in answers.values() if isinstance(answer, KafkaError)]
    if items or output == "json" or not errors:
        rows = [_for_table(item) for item in items] if output == "table" else items
        emit(rows, output, columns=DESCRIBE_COLUMNS, name="transactional_id", empty=NO_IDS)
    fail_with(errors)


def _description(answer: admin.DescribedTransaction, now_ms: int) -> dict[str, Any]:
    item = answer._asdict()
    del item["partitions"]  # sorted last
    return {
        **item,
        "start_timestamp": None if answer.start_timestamp < 0 else answer.start_timestamp,
        "duration_ms": now_ms - answer.start_timestamp if answer.state in admin.OPEN_STATES else None,
        "partitions": [{"topic": topic, "partition": partition} for topic, partition in answer.partitions],
    }


def _for_table(item: dict[str, Any]) -> dict[str, Any]:
    return {**item, "partitions": [f"{each['topic']}-{each['partition']}" for each in item["partitions"]] or None}


@transactions.command("describe-producers", short_help="Show the producers of a partition.")
@click.option("--topic", required=True, metavar="TOPIC", shell_complete=topic_names, help="A topic.")
@click.option("--partition", required=True, type=click.IntRange(min=0), metavar="N", help="Its partition.")
@click.option("--broker-id", type=int, metavar="ID", help="Ask the replica on this broker instead of the leader.")
@output_option(*FORMATS)
@client_command
def describe_producers(client: Client, *, topic: str, partition: int, broker_id: int | None, output: str) -> None:
    """Show the producers that a partition remembers, and the first offsets of their open transactions."""
    items = [
        {
            "producer_id": producer.producer_id,
            "producer_epoch": producer.producer_epoch,
            "coordinator_epoch": producer.coordinator_epoch,
            "last_sequence": producer.last_sequence,
            "last_timestamp": producer.last_timestamp,
            "current_txn_start_offset": None if producer.current_txn_start_offset < 0 else producer.current_txn_start_offset,
        }
        for producer in _producers(client, (topic, partition), broker_id)
    ]
    emit(items, output, columns=PRODUCER_COLUMNS, name="producer_id", empty="No idempotent producer has written to the partition.")


@transactions.command()
@click.option("--transactional-id", metavar="ID", help="The transactional id whose open transaction to abort, in all its partitions.")
@click.option("--topic", metavar="TOPIC", shell_complete=topic_names, help="Instead of an id: a topic with a hanging transaction.")
@click.option("--partition", type=click.IntRange(min=0), metavar="N", help="Its partition.")
@click.option("--start-offset", type=click.IntRange(min=0), metavar="OFFSET", help="The first offset of the transaction there.")
@click.option(
    "--producer-id", type=click.IntRange(min=0), metavar="ID", help="Instead of the offset, for brokers before Kafka 3.0: its producer id."
)
@click.option("--producer-epoch", type=click.IntRange(0, INT16_MAX), metavar="EPOCH", help="The epoch of that producer.")
@click.option("--coordinator-epoch", type=int, metavar="EPOCH", help="The epoch of its coordinator.")
@click.option(
    "--force",
    is_flag=True,
    help="Abort the transaction at --start-offset even if its coordinator knows it and may commit it in other partitions.",
)
@output_option(*FORMATS)
@client_command
def abort(
    client: Client,
    *,
    transactional_id: str | None,
    topic: str | None,
    partition: int | None,
    start_offset: int | None,
    producer_id: int | None,
    producer_epoch: int | None,
    coordinator_epoch: int | None,
    force: bool,
    output: str,
) -> None:
    """Abort an open transaction.

    With --transactional-id, the coordinator aborts the transaction and fences its producer, whose next request fails. With --topic,
    --partition and --start-offset, from find-hanging, only that partition ends the transaction: this is for hanging transactions.
    """
    if transactional_id is not None:
        if (topic, partition, start_offset, producer_id, producer_epoch, coordinator_epoch) != (None,) * 6:
            raise click.UsageError("--transactional-id excludes the options of a partition")
        if not transactional_id:
            raise click.UsageError("--transactional-id must not be empty")
        items = _abort_by_id(client, transactional_id)
    else:
        if topic is None or partition is None:
            raise click.UsageError("give --transactional-id, or --topic and --partition with --start-offset")
        producer = _producer_to_abort(client, (topic, partition), start_offset, (producer_id, producer_epoch, coordinator_epoch))
        producer_id, producer_epoch, coordinator_epoch = producer
        if start_offset is not None and not force:
            _check_hangs(client, (topic, partition), producer_id)
        admin.abort_in_partition(
            client, (topic, partition), producer_id=producer_id, producer_epoch=producer_epoch, coordinator_epoch=coordinator_epoch
        )
        items = [_aborted(None, (topic, partition), producer_id, producer_epoch)]
    emit(items, output, columns=ABORTED_COLUMNS, name="topic")


@transactions.command("find-hanging", short_help="Find hanging transactions.")
@click.option(
    "--topic", metavar="TOPIC", shell_complete=topic_names, help="Only this topic, instead of all topics and Kafka's internal ones."
)
@click.option("--partition", type=click.IntRange(min=0), metavar="N", help="Only this partition of the topic.")
@click.option("--broker-id", type=int, metavar="ID", help="Ask this broker's replicas instead of the leaders.")
@click.option(
    "--max-transaction-timeout",
    type=click.IntRange(min=0),
    default=15,
    show_default=True,
    metavar="MINUTES",
    help="Skip transactions that wrote more recently than this: transaction.max.timeout.ms of the brokers.",
)
@output_option(*FORMATS)
@client_command
def find_hanging(
    client: Client, *, topic: str | None, partition: int | None, broker_id: int | None, max_transaction_timeout: int, output: str
) -> None:
    """Find transactions that are open in a partition and unknown to their coordinator.

    These transactions never end, and consumers with read_committed cannot read past them. 'transactions abort' with --topic, --partition
    and --start-offset ends one.
    """
    if partition is not None and topic is None:
        raise click.UsageError("--partition needs --topic")
    partitions = _partitions(client, topic, partition, broker_id)
    found, errors = admin.find_hanging(client, partitions, older_than_ms=max_transaction_timeout * MINUTE_MS, node_id=broker_id)
    now_ms = time.time_ns() // 1_000_000
    items = [
        {
            "topic": each.topic,
            "partition": each.partition,
            "producer_id": each.producer.producer_id,
            "producer_epoch": each.producer.producer_epoch,
            "coordinator_epoch": each.producer.coordinator_epoch,
            "start_offset": each.producer.current_txn_start_offset,
            "last_timestamp": each.producer.last_timestamp,
            "duration_min": (now_ms - each.producer.last_timestamp) // MINUTE_MS,
        }
        for each in found
    ]
    if output == "name":
        items = [{"name": f"{item['topic']}:{item['partition']}:{item['start_offset']}"} for item in items]
    emit(items, output, columns=HANGING_COLUMNS, empty="No hanging transactions.")
    fail_with(list(errors))


def _producers(client: Client, key: TopicPartition, broker_id: int | None = None) -> list[ProducerState]:
    (answer,) = admin.describe_producers(client, [key], node_id=broker_id).values()
    if isinstance(answer, KafkaError):
        raise answer
    return answer


def _abort_by_id(client: Client, transactional_id: str) -> list[dict[str, Any]]:
    aborted = admin.abort_open(client, transactional_id)
    return [_aborted(transactional_id, key, aborted.producer_id, aborted.producer_epoch) for key in aborted.partitions]


def _aborted(transactional_id: str | None, key: TopicPartition, producer_id: int, producer_epoch: int) -> dict[str, Any]:
    topic, partition = key
    return {
        "transactional_id": transactional_id,
        "topic": topic,
        "partition": partition,
        "producer_id": producer_id,
        "producer_epoch": producer_epoch,
        "aborted": True,
    }


def _producer_to_abort(
    client: Client, key: TopicPartition, start_offset: int | None, producer_key: tuple[int | None, int | None, int | None]
) -> tuple[int, int, int]:
    """Return the producer id, producer epoch and coordinator epoch to abort."""
    if start_offset is None:
        producer_id, producer_epoch, coordinator_epoch = producer_key
        if producer_id is None or producer_epoch is None or coordinator_epoch is None:
            raise click.UsageError("give --start-offset, or --producer-id, --producer-epoch and --coordinator-epoch")
        return producer_id, producer_epoch, coordinator_epoch
    if producer_key != (None, None, None):
        raise click.UsageError("--start-offset identifies the transaction: leave out the options of the producer")
    for producer in _producers(client, key):
        if producer.current_txn_start_offset == start_offset:
            return producer.producer_id, producer.producer_epoch, producer.coordinator_epoch
    topic, partition = key
    raise InvalidTxnState(f"no open transaction starts at offset {start_offset} of {topic}-{partition}")


def _check_hangs(client: Client, key: TopicPartition, producer_id: int) -> None:
    owner = admin.owner(client, key, producer_id)
    if owner is not None:
        words = f"transactional id {owner} has it open in {key[0]}-{key[1]}, and may still commit it in other partitions"
        raise InvalidTxnState(f"the transaction does not hang: {words}; 'transactions abort --transactional-id {owner}' aborts all of it")


def _partitions(client: Client, topic: str | None, partition: int | None, broker_id: int | None) -> list[TopicPartition]:
    found = []
    for answer in client.metadata(None if topic is None else [topic]).topics:
        check(answer.error_code, f"topic {answer.name}")
        found += [
            (answer.name or "", each.partition_index)
            for each in answer.partitions
            if partition in (None, each.partition_index) and (broker_id is None or broker_id in each.replica_nodes)
        ]
    if topic is not None and not found:
        where = "" if broker_id is None else f" on broker {broker_id}"
        raise UnknownTopicOrPartition(f"topic {topic} has no {'partition' if partition is None else f'partition {partition}'}{where}")
    return found
