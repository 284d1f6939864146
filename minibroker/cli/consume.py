"""`minibroker consume`: read a topic, starting at given offsets, like kcat -C."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from minibroker.cli.completions import topic_names
from minibroker.cli.offsets import Partitions
from minibroker.cli.options import client_command, output_option
from minibroker.cli.output import table, yaml_text
from minibroker.cli.records import FORMAT_HELP, RecordFormat, to_json
from minibroker.cli.registry import serdes_options
from minibroker.client.client import Client
from minibroker.client.consumer import ConsumedRecord, Consumer
from minibroker.client.errors import TimedOut
from minibroker.client.offsets import EARLIEST, ISOLATION_LEVELS, LATEST, FoundOffset, epoch_ms, list_offsets
from minibroker.errors import KafkaError, UnknownTopicOrPartition

if TYPE_CHECKING:
    from minibroker.cli.serdes import RecordDecoder, Serdes

POLL_MS = 500
COLUMNS = ("partition", "offset", "timestamp", "key", "value", "headers")

Start = tuple[str, int]  #: ("time", -2), ("offset", 42), ("tail", 5)


class From(click.ParamType[Start]):
    """The option for the first offset."""

    name = "from"

    def convert(self, value: str | Start, param: click.Parameter | None, ctx: click.Context | None) -> Start:
        """Return the kind of start, and its number."""
        if isinstance(value, tuple):
            return value
        if value in ("earliest", "latest"):
            return "time", EARLIEST if value == "earliest" else LATEST
        if re.fullmatch(r"\d{1,18}", value, re.ASCII):
            return "offset", int(value)
        if re.fullmatch(r"-\d{1,18}", value, re.ASCII):
            return "tail", int(value[1:])
        try:
            return "time", epoch_ms(value.removeprefix("@"))
        except ValueError:
            self.fail(f"{value!r} is not earliest, latest, an offset, -N, @milliseconds or a date like 2013-01-31T10:00Z", param, ctx)


@click.command(
    epilog="""\b
Examples:
  minibroker consume orders -e
  minibroker consume orders -c 10 --from -10 -f '%t %p %o %k %v %h %T\\n'
  minibroker consume flights --from 2013-06-01 -p 0,2 -e -o jsonl | jq .value
  minibroker consume orders -e --registry http://localhost:8081
""",
    help="Read records of TOPIC to stdout.\n\n\b\nFORMAT of -f, as in kcat:\n" + FORMAT_HELP.strip(),
)
@click.argument("topic", shell_complete=topic_names)
@click.option("-f", "--format", "record_form", metavar="FORMAT", help="How to print a record.  [default: %v\\n]")
@click.option("-c", "--count", type=click.IntRange(min=0), metavar="N", help="Stop after N records.")
@click.option("-e", "--exit", "exit_at_end", is_flag=True, help="Stop at the latest offsets, as they are at the start.")
@click.option(
    "--from",
    "start",
    type=From(),
    default="earliest",
    show_default=True,
    metavar="START",
    help="earliest, latest, an offset, -N for the last N of each partition, @ms or an ISO date for the first record at or after it.",
)
@click.option("-p", "--partitions", type=Partitions(), metavar="LIST", help="Only these partitions, such as 0,2,5-7.")
@click.option(
    "--isolation",
    "--isolation-level",
    "isolation",
    type=click.Choice(list(ISOLATION_LEVELS)),
    default="read_uncommitted",
    show_default=True,
    help="read_committed leaves out records of open and aborted transactions.",
)
@click.option("-Z", "--null", is_flag=True, help="Print NULL for a null key, value or header instead of nothing.")
@click.option(
    "--idle-timeout", type=click.FloatRange(min=0), metavar="SECONDS", help="Fail with exit code 124 if no record arrives for this time."
)
@serdes_options("Decode keys and values by the schema ids in them, with the schemas of this registry.")
@output_option("format", "json", "jsonl", "yaml", "table")
@client_command
def consume(
    client: Client,
    *,
    topic: str,
    record_form: str | None,
    count: int | None,
    exit_at_end: bool,
    start: Start,
    partitions: frozenset[int] | None,
    isolation: str,
    null: bool,
    idle_timeout: float | None,
    serdes: Serdes | None,
    output: str,
) -> None:
    """Read records of a topic to stdout."""
    if record_form is not None and output != "format":
        raise click.UsageError("-f needs -o format")
    if output == "table" and count is None and not exit_at_end:
        raise click.UsageError("-o table needs an end: -e or -c")
    decoder = None if serdes is None else serdes.decoder(topic)
    printer = _printer(output, topic, "%v\\n" if record_form is None else record_form, null=null, decoder=decoder)
    level = ISOLATION_LEVELS[isolation]
    existing = [partition.partition_index for partition in client.topic(topic).partitions]
    if partitions is not None and not partitions <= set(existing):
        raise UnknownTopicOrPartition(f"topic {topic} has no partition {min(partitions - set(existing))}: it has {len(existing)}")
    chosen = sorted(partitions or existing)
    ends = _offsets_at(client, topic, chosen, LATEST, level) if exit_at_end or start[0] == "tail" else {}
    positions = _start_offsets(client, topic, chosen, start, ends=ends, isolation=level)
    consumer = Consumer(client, topic, positions, isolation=level)
    printer.begin()
    for consumed in _until(consumer, count, ends if exit_at_end else None, idle_timeout, printer.flush):
        printer.show(consumed)
    printer.end()


def _until(
    consumer: Consumer, count: int | None, ends: dict[int, int] | None, idle_timeout_s: float | None, flush: Callable[[], None]
) -> Iterator[ConsumedRecord]:
    """Yield records until the count or the ends are reached, or endlessly; TimedOut if none arrives for too long."""
    left = -1 if count is None else count
    last_record_s = time.monotonic()
    while left != 0:
        if ends is not None:
            for partition in [partition for partition, position in consumer.positions.items() if position >= ends[partition]]:
                consumer.stop_reading(partition)
        if not consumer.positions:
            return
        wait_ms = POLL_MS if idle_timeout_s is None else max(1, min(POLL_MS, int(idle_timeout_s * 1000)))
        for consumed in consumer.poll(wait_ms):
            last_record_s = time.monotonic()
            if ends is not None and consumed.record.offset >= ends[consumed.partition]:
                continue
            yield consumed
            left -= 1
            if left == 0:
                return
        flush()
        if idle_timeout_s is not None and time.monotonic() - last_record_s >= idle_timeout_s:
            raise TimedOut(f"no record arrived for {idle_timeout_s:g} s")


def _start_offsets(
    client: Client, topic: str, partitions: list[int], start: Start, *, ends: dict[int, int], isolation: int
) -> dict[int, int]:
    """Return the first offset of each partition."""
    kind, number = start
    if kind == "offset":
        return dict.fromkeys(partitions, number)
    if kind == "tail":
        earliest = _offsets_at(client, topic, partitions, EARLIEST, isolation)
        return {partition: max(earliest[partition], ends[partition] - number) for partition in partitions}
    return _offsets_at(client, topic, partitions, number, isolation)


def _offsets_at(client: Client, topic: str, partitions: list[int], at: int, isolation: int) -> dict[int, int]:
    """Return offsets by special time or timestamp; the latest offset if no record is that late."""
    found = list_offsets(client, {(topic, partition): at for partition in partitions}, isolation=isolation)
    offsets: dict[int, int] = {}
    for (_, partition), answer in found.items():
        if isinstance(answer, KafkaError):
            raise answer
        offsets[partition] = answer.offset
    late = [partition for partition, offset in offsets.items() if offset < 0]
    if late:
        latest = list_offsets(client, {(topic, partition): LATEST for partition in late}, isolation=isolation)
        offsets.update({partition: answer.offset for (_, partition), answer in latest.items() if isinstance(answer, FoundOffset)})
    return offsets


class _Printer:
    """Prints records as they arrive."""

    def __init__(self, topic: str, one: Callable[[ConsumedRecord], bytes]) -> None:
        self.out: BinaryIO = sys.stdout.buffer
        self.topic = topic
        self.one = one

    def begin(self) -> None:
        """Print what precedes the first record."""

    def show(self, consumed: ConsumedRecord) -> None:
        """Format one record."""
        self.out.write(self.one(consumed))

    def flush(self) -> None:
        """Flush stdout."""
        self.out.flush()

    def end(self) -> None:
        """Print what follows the last record."""
        self.out.flush()


class _JsonPrinter(_Printer):
    """Prints one JSON array, with an object per line."""

    separator = b"\n"

    def begin(self) -> None:
        self.out.write(b"[")

    def show(self, consumed: ConsumedRecord) -> None:
        self.out.write(self.separator + self.one(consumed).rstrip(b"\n"))
        self.separator = b",\n"

    def end(self) -> None:
        self.out.write(b"\n]\n")
        self.out.flush()


class _TablePrinter(_Printer):
    """Collects records, and prints a table at the end."""

    def __init__(self, topic: str, item: Callable[[ConsumedRecord], dict[str, Any]]) -> None:
        super().__init__(topic, lambda _: b"")
        self._item = item

    def begin(self) -> None:
        self.items: list[dict[str, Any]] = []

    def show(self, consumed: ConsumedRecord) -> None:
        item = self._item(consumed)
        item["headers"] = [f"{header['key']}={header['value']}" for header in item["headers"]]
        for part in ("key", "value"):
            if f"{part}_schema_id" in item:
                item[part] = json.dumps(item[part], ensure_ascii=False)
        self.items.append(item)

    def end(self) -> None:
        click.echo(table(self.items, COLUMNS))


def _printer(output: str, topic: str, form: str, *, null: bool, decoder: RecordDecoder | None) -> _Printer:
    def item(consumed: ConsumedRecord) -> dict[str, Any]:
        found = to_json(topic, consumed)
        return found if decoder is None else found | decoder.fields(consumed)

    def as_json(consumed: ConsumedRecord) -> bytes:
        return json.dumps(item(consumed), ensure_ascii=False).encode("utf-8", "replace") + b"\n"

    def as_yaml(consumed: ConsumedRecord) -> bytes:
        return yaml_text([item(consumed)]).encode()

    if output == "format":
        try:
            pieces = RecordFormat(form, topic, null=b"NULL" if null else b"")
        except ValueError as error:
            raise click.BadParameter(str(error), param_hint="-f") from error
        return _Printer(topic, pieces if decoder is None else lambda consumed: pieces(decoder.as_text(consumed)))
    if output == "json":
        return _JsonPrinter(topic, as_json)
    if output == "table":
        return _TablePrinter(topic, item)
    return _Printer(topic, as_yaml if output == "yaml" else as_json)
