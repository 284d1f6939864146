"""`minibroker produce`: write records from stdin or files to a topic, like kcat -P."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click
from click.core import ParameterSource

from minibroker.cli.completions import topic_names
from minibroker.cli.input import Progress, messages
from minibroker.cli.options import client_command, output_option
from minibroker.cli.output import emit
from minibroker.cli.records import from_json, json_of, unescape
from minibroker.cli.registry import serdes_options
from minibroker.client.client import Client
from minibroker.client.errors import ClientError
from minibroker.client.offsets import epoch_ms
from minibroker.client.own_transaction import OwnTransaction
from minibroker.client.producer import BatchAcknowledgement, Producer
from minibroker.errors import InvalidProducerEpoch, KafkaError, ProducerFenced
from minibroker.records.compression import Compression
from minibroker.records.record import Headers, Record

if TYPE_CHECKING:
    from minibroker.cli.serdes import Encoders, Serdes

ACKS = {"0": 0, "1": 1, "all": -1, "-1": -1}
INT32_MAX = 2**31 - 1
OFFSET_COLUMNS = ("topic", "partition", "records", "first_offset", "last_offset")


class Timestamp(click.ParamType[int]):
    """A timestamp: epoch ms or a date."""

    name = "timestamp"

    def convert(self, value: str | int, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return epoch ms."""
        if isinstance(value, int):
            return value
        try:
            return epoch_ms(value)
        except ValueError:
            self.fail(f"{value!r} is neither milliseconds since 1970 nor a date like 2013-01-31T10:00Z", param, ctx)


class Reading(NamedTuple):
    """Options for parsing the input."""

    input_form: str
    key: bytes | None
    key_delimiter: bytes | None
    headers: Headers
    timestamp: int | None
    empty_is_null: bool
    encoders: Encoders | None


@click.command(
    epilog="""\b
Examples:
  seq 10 | minibroker produce numbers
  echo 'UA:late' | minibroker produce flights -K : -H origin=EWR -z zstd
  minibroker produce orders orders-1.txt orders-2.txt --timestamp 2013-01-01
  minibroker produce orders orders-1.txt orders-2.txt --transactional-id import
  minibroker consume orders -e -o jsonl | minibroker produce copy --input jsonl
  minibroker produce orders orders.jsonl -r http://localhost:8081 --value-schema order.avsc --register
"""
)
@click.argument("topic", shell_complete=topic_names)
@click.argument("files", nargs=-1, type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path), metavar="[FILE]...")
@click.option(
    "--input",
    "input_form",
    type=click.Choice(["lines", "jsonl", "whole"]),
    default="lines",
    show_default=True,
    help="One record per line (see -D), JSON as printed by consume -o jsonl, or one record per file.",
)
@click.option("-D", "--delimiter", default="\\n", show_default=True, help="The end of a record, with escapes \\n \\t \\0 \\xHH.")
@click.option(
    "-K", "--key-delimiter", metavar="TEXT", help="The key is the part of a record before the first TEXT. A record without TEXT has no key."
)
@click.option("-k", "--key", metavar="KEY", help="The key of all records.")
@click.option(
    "-H", "--header", "headers", multiple=True, metavar="NAME=VALUE", help="A header for all records; NAME alone has a null value."
)
@click.option(
    "-p",
    "--partition",
    type=click.IntRange(min=0),
    metavar="N",
    help="Write all records to this partition, instead of choosing by key as Java clients do.",
)
@click.option(
    "--timestamp",
    type=Timestamp(),
    metavar="TIME",
    help="The timestamp of all records: epoch ms or an ISO date. Retention uses it.  [default: when a record is read]",
)
@click.option("-z", "--compression", type=click.Choice([codec.name.lower() for codec in Compression]), default="none", show_default=True)
@click.option("-Z", "--null", "empty_is_null", is_flag=True, help="Send an empty key or value as null.")
@click.option(
    "--acks",
    type=click.Choice(list(ACKS)),
    default="all",
    show_default=True,
    help="The replicas that must have a record: none, the leader, all.",
)
@click.option(
    "--idempotent/--no-idempotent", default=None, help="Store each record once, even if it is sent again. The default with --acks all."
)
@click.option(
    "--transactional-id",
    metavar="ID",
    help="Write all records in one transaction of this id. With read_committed, consumers see all of them, or none after a failure.",
)
@click.option(
    "--transaction-timeout",
    type=click.FloatRange(0.001, INT32_MAX / 1000),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="The broker aborts the transaction if it takes longer.",
)
@click.option(
    "--transaction-end",
    type=click.Choice(["commit", "abort", "none"]),
    default="commit",
    show_default=True,
    help="How the transaction ends; none leaves it open, to try what consumers see.",
)
@click.option(
    "--batch-bytes",
    type=click.IntRange(1, 100_000_000),
    default=256 * 1024,
    show_default=True,
    help="Maximum size of a batch before compression.",
)
@serdes_options("Encode JSON values with schemas of this registry; see --value-schema.")
@click.option(
    "--value-schema",
    metavar="SCHEMA",
    help="The schema of values: FILE.avsc, FILE.json or FILE.proto, registered as TOPIC-value, SUBJECT[:VERSION], or an id.",
)
@click.option("--key-schema", metavar="SCHEMA", help="The schema of keys, in the same forms. A file is registered as TOPIC-key.")
@click.option("--value-message", metavar="NAME", help="The message type of values with a Protobuf schema.  [default: the first in it]")
@click.option("--register", "registers", is_flag=True, help="Register schemas of files that are not registered yet.")
@output_option("none", "table", "json", "jsonl", "yaml")
@client_command
def produce(
    client: Client,
    *,
    topic: str,
    files: tuple[Path, ...],
    input_form: str,
    delimiter: str,
    key_delimiter: str | None,
    key: str | None,
    headers: tuple[str, ...],
    partition: int | None,
    timestamp: int | None,
    compression: str,
    empty_is_null: bool,
    acks: str,
    idempotent: bool | None,
    transactional_id: str | None,
    transaction_timeout: float,
    transaction_end: str,
    batch_bytes: int,
    serdes: Serdes | None,
    value_schema: str | None,
    key_schema: str | None,
    value_message: str | None,
    registers: bool,
    output: str,
) -> None:
    """Write records from stdin or FILES to TOPIC.

    -o prints the offsets of the records for each partition. After a failure, acknowledged records stay written; with
    --transactional-id they are aborted.
    """
    if not unescape(delimiter) or key_delimiter == "":
        raise click.UsageError("a delimiter must not be empty")
    _check_promises(ACKS[acks], idempotent, transactional_id)
    reading = Reading(
        input_form,
        None if key is None else key.encode("utf-8", "surrogateescape"),
        None if key_delimiter is None else unescape(key_delimiter),
        _headers(headers),
        timestamp,
        empty_is_null,
        _encoders(serdes, topic, key_schema, value_schema, value_message, registers=registers),
    )
    tally = _Tally(topic)
    transaction = None
    if transactional_id is not None:
        transaction = OwnTransaction(client, transactional_id, timeout_ms=int(transaction_timeout * 1000))
    producer = Producer(
        client,
        topic,
        acks=ACKS[acks],
        idempotent=ACKS[acks] == -1 if idempotent is None else idempotent,
        transaction=transaction,
        compression=Compression.from_name(compression),
        batch_bytes=batch_bytes,
        on_acknowledged=tally.add,
    )
    with _ended(transaction, transaction_end), Progress(files) as progress:
        for record, named_partition in _records(files, unescape(delimiter), reading, progress, producer.flush):
            producer.add(record, named_partition if partition is None else partition)
        producer.flush()
    if output != "none":
        emit(tally.items(), output, columns=OFFSET_COLUMNS)


def _encoders(
    serdes: Serdes | None, topic: str, key: str | None, value: str | None, message: str | None, *, registers: bool
) -> Encoders | None:
    """Return what encodes keys and values by the schemas of the command; UsageError if options do not go together."""
    if (serdes is not None) != bool(key or value):
        raise click.UsageError("--value-schema and --key-schema need --registry, and --registry needs one of them")
    if serdes is not None:
        return serdes.encoders(topic, key=key, value=value, registers=registers, message=message)
    if registers or message:
        raise click.UsageError("--register and --value-message need --registry")
    return None


def _check_promises(acks: int, idempotent: bool | None, transactional_id: str | None) -> None:
    """Check that --acks, --idempotent and the transaction go together; UsageError otherwise."""
    if idempotent and acks != -1:
        raise click.UsageError("--idempotent needs --acks all")
    if transactional_id is not None:
        if not transactional_id:
            raise click.UsageError("--transactional-id must not be empty")
        if acks != -1 or idempotent is False:
            raise click.UsageError("--transactional-id needs --acks all and --idempotent")
        return
    context = click.get_current_context()
    for name in ("transaction_end", "transaction_timeout"):  # records to be aborted must not be written without a transaction
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"--{name.replace('_', '-')} needs --transactional-id")


@contextmanager
def _ended(transaction: OwnTransaction | None, how: str) -> Iterator[None]:
    """End the transaction as requested, and abort it after a failure."""
    if transaction is None:
        yield
        return
    try:
        try:
            yield
        except BaseException:
            with suppress(ClientError, KafkaError):  # the user must see the first failure
                transaction.end(committed=False)
            raise
        if how != "none":
            transaction.end(committed=how == "commit")
    except (InvalidProducerEpoch, ProducerFenced) as error:
        words = "another producer took over the id, or --transaction-timeout has passed: the broker aborted the transaction"
        raise type(error)(f"transactional id {transaction.transactional_id}: {words}") from error


def _records(
    files: tuple[Path, ...], delimiter: bytes, reading: Reading, progress: Progress, idle: Callable[[], None]
) -> Iterator[tuple[Record, int | None]]:
    """Yield the records of all inputs, each with the partition that its JSON names."""
    whole = reading.input_form == "whole"
    for file in files or (Path("-"),):
        for number, message in enumerate(messages(file, None if whole else delimiter, progress, idle), start=1):
            try:
                if reading.input_form != "jsonl":
                    yield _record(message, reading), None
                elif message.strip():
                    yield _record_of_json(message, reading)
            except ValueError as error:
                raise click.ClickException(f"{'stdin' if str(file) == '-' else file}, record {number}: {error}") from error


def _record_of_json(message: bytes, reading: Reading) -> tuple[Record, int | None]:
    item = json_of(message)
    if reading.encoders is not None and isinstance(item, dict):
        item = reading.encoders.encode_item(item)
    return from_json(item, _now_ms() if reading.timestamp is None else reading.timestamp)


def _record(message: bytes, reading: Reading) -> Record:
    key, value = reading.key, message
    if reading.key_delimiter is not None:
        before, found, after = message.partition(reading.key_delimiter)
        if found:
            key, value = before, after
    timestamp = _now_ms() if reading.timestamp is None else reading.timestamp
    content: bytes | None = value
    if reading.empty_is_null:
        key, content = key or None, value or None
    if reading.encoders is not None:
        key, content = reading.encoders.encode_text("key", key), reading.encoders.encode_text("value", content)
    return Record(0, timestamp, key, content, reading.headers)


def _headers(texts: tuple[str, ...]) -> Headers:
    pairs = [text.partition("=") for text in texts]
    return tuple((name, content.encode("utf-8", "surrogateescape") if equals else None) for name, equals, content in pairs)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


class _Tally:
    """Counts records and their offsets by partition."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._by_partition: dict[int, list[int]] = {}  # count, first offset, last offset

    def add(self, done: BatchAcknowledgement) -> None:
        entry = self._by_partition.setdefault(done.partition, [0, done.base_offset, -1])
        entry[0] += done.record_count
        if done.base_offset >= 0:
            entry[2] = done.base_offset + done.record_count - 1

    def items(self) -> list[dict[str, Any]]:
        return [
            {
                "topic": self._topic,
                "partition": partition,
                "records": count,
                "first_offset": None if first < 0 else first,
                "last_offset": None if last < 0 else last,
            }
            for partition, (count, first, last) in sorted(self._by_partition.items())
        ]
