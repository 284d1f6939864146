"""`minibroker transactions`: the equivalent of Kafka's TransactionsCommand. hanging_transactions.py has the commands for partitions."""

from __future__ import annotations

import time
from typing import Any

import click

from minibroker.cli.hanging_transactions import abort, describe_producers, find_hanging
from minibroker.cli.options import client_command, fail_with, output_option
from minibroker.cli.output import FORMATS, emit
from minibroker.client import transactions as admin
from minibroker.client.client import Client
from minibroker.coordinator.transaction.records import TransactionState
from minibroker.errors import KafkaError

LIST_COLUMNS = ("transactional_id", "coordinator", "producer_id", "state")
DESCRIBE_COLUMNS = (*LIST_COLUMNS[:3], "producer_epoch", "state", "timeout_ms", "start_timestamp", "duration_ms", "partitions")


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
    help="Only in this state; may be given several times.",
)
@click.option("--producer-id", "producer_ids", multiple=True, type=click.IntRange(min=0), metavar="ID", help="Only of this producer id.")
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
    emit([each._asdict() for each in found], output, columns=LIST_COLUMNS, name="transactional_id")


@transactions.command()
@click.argument("transactional_ids", nargs=-1, metavar="[TRANSACTIONAL_ID]...")
@click.option("--transactional-id", "more_ids", multiple=True, metavar="ID", help="Another way to name one, as in Kafka's tools.")
@output_option(*FORMATS)
@client_command
def describe(client: Client, *, transactional_ids: tuple[str, ...], more_ids: tuple[str, ...], output: str) -> None:
    """Show the state of transactional ids.

    Shows all without a TRANSACTIONAL_ID. PARTITIONS are those of the open transaction: consumers with read_committed cannot read past
    its first record there.
    """
    ids = [*transactional_ids, *more_ids] or [each.transactional_id for each in admin.list_transactions(client)]
    answers = admin.describe_transactions(client, ids)
    now_ms = time.time_ns() // 1_000_000
    items = [_description(answer, now_ms) for _, answer in sorted(answers.items()) if not isinstance(answer, KafkaError)]
    errors: list[Exception] = [answer for answer in answers.values() if isinstance(answer, KafkaError)]
    if items or output == "json":
        emit(
            [_for_table(item) for item in items] if output == "table" else items, output, columns=DESCRIBE_COLUMNS, name="transactional_id"
        )
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


for command in (describe_producers, abort, find_hanging):
    transactions.add_command(command)
