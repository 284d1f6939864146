"""`minibroker consume`: read topics, starting at given offsets or as a member of a group, like kcat -C and -G."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import click

from minibroker.cli.completions import group_ids, topic_names
from minibroker.cli.offsets import Partitions
from minibroker.cli.options import client_command, output_option
from minibroker.cli.record_printers import printer_of
from minibroker.cli.records import FORMAT_HELP
from minibroker.cli.registry import serdes_options
from minibroker.client.client import Client
from minibroker.client.consumer import ConsumedRecord
from minibroker.client.errors import TimedOut
from minibroker.client.offsets import EARLIEST, ISOLATION_LEVELS, LATEST, FoundOffset, epoch_ms, list_offsets
from minibroker.client.reading import GroupReader, Reader, TopicsReader
from minibroker.client.routing import TopicPartition
from minibroker.errors import KafkaError, UnknownTopicOrPartition

if TYPE_CHECKING:
    from minibroker.cli.serdes import Serdes

POLL_MS = 500
COMMIT_INTERVAL_MS = 5_000  #: Kafka's default of auto.commit.interval.ms

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
  minibroker consume orders payments -c 10 --from -10 -f '%t %p %o %k %v %h %T\\n'
  minibroker consume orders --group billing
  minibroker consume flights --from 2013-06-01 -p 0,2 -e -o jsonl | jq .value
  minibroker consume orders -e --registry http://localhost:8081
""",
    help="Read records of TOPICS to stdout.\n\n\b\nFORMAT of -f, as in kcat:\n" + FORMAT_HELP.strip(),
)
@click.argument("topics", nargs=-1, metavar="[TOPICS]...", shell_complete=topic_names)
@click.option("--topic-pattern", metavar="REGEX", help="Read the topics whose whole name matches when the command starts.")
@click.option(
    "-g",
    "--group",
    metavar="GROUP",
    shell_complete=group_ids,
    help="Read as a member of this consumer group, and commit the offsets of printed records. "
    "--from applies only to partitions without a committed offset.",
)
@click.option("-f", "--format", "record_form", metavar="FORMAT", help="How to print a record.  [default: %v\\n]")
@click.option("-c", "--count", type=click.IntRange(min=0), metavar="N", help="Stop after N records.")
@click.option("-e", "--exit", "exit_at_end", is_flag=True, help="Stop at the offsets that are the latest when the command starts.")
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
    topics: tuple[str, ...],
    topic_pattern: str | None,
    group: str | None,
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
    """Read records of topics to stdout."""
    if bool(topics) == (topic_pattern is not None):
        raise click.UsageError("give either TOPICS or --topic-pattern")
    if record_form is not None and output != "format":
        raise click.UsageError("-f needs -o format")
    if output == "table" and count is None and not exit_at_end:
        raise click.UsageError("-o table needs an end: -e or -c")
    if group is not None and partitions is not None:
        raise click.UsageError("--group assigns partitions: leave out -p")
    decoder = None if serdes is None else serdes.decoder()
    form = "%v\\n" if record_form is None else record_form
    printer = printer_of(output, form, null=null, decoder=decoder, has_topics=len(topics) != 1)
    names = list(dict.fromkeys(topics)) if topic_pattern is None else _matching(client, topic_pattern)
    existing = _partitions(client, names, partitions)
    bounds = _Bounds(client, start, ISOLATION_LEVELS[isolation])
    reader: Reader
    if group is None:
        reader = TopicsReader(client, bounds.starts(existing), isolation=bounds.isolation)
    else:
        reader = GroupReader(client, group, names, bounds.starts, isolation=bounds.isolation, commit_interval_ms=COMMIT_INTERVAL_MS)
    if exit_at_end:
        bounds.find_ends(existing)
    printer.begin()
    try:
        for consumed in _until(reader, count, bounds if exit_at_end else None, idle_timeout, printer.flush):
            printer.show(consumed)
            reader.consumed(consumed)
        printer.end()
    finally:
        reader.close()


def _matching(client: Client, pattern: str) -> list[str]:
    """Return the topics whose names match, without internal ones."""
    try:
        matches = re.compile(pattern).fullmatch
    except re.error as error:
        raise click.BadParameter(f"{pattern!r} is not a regular expression: {error}", param_hint="--topic-pattern") from error
    found = sorted(topic.name for topic in client.metadata(None).topics if topic.name and not topic.is_internal and matches(topic.name))
    if not found:
        raise UnknownTopicOrPartition(f"no topic matches {pattern}")
    return found


def _partitions(client: Client, topics: Sequence[str], only: frozenset[int] | None) -> list[TopicPartition]:
    found: list[TopicPartition] = []
    for topic in topics:
        existing = sorted(partition.partition_index for partition in client.topic(topic).partitions)
        if only is not None and not only <= set(existing):
            raise UnknownTopicOrPartition(f"topic {topic} has no partition {min(only - set(existing))} (it has {len(existing)})")
        found += [(topic, index) for index in existing if only is None or index in only]
    return found


class _Bounds:
    """Where partitions start and end."""

    def __init__(self, client: Client, start: Start, isolation: int) -> None:
        self.isolation = isolation
        self._client = client
        self._start = start
        self._ends: dict[TopicPartition, int] = {}

    def starts(self, keys: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the first offset of each partition."""
        kind, number = self._start
        if kind == "offset":
            return dict.fromkeys(keys, number)
        if kind == "tail":
            self.find_ends(keys)
            earliest = self._offsets_at(keys, EARLIEST)
            return {key: max(earliest[key], self._ends[key] - number) for key in keys}
        return self._offsets_at(keys, number)

    def find_ends(self, keys: Sequence[TopicPartition]) -> None:
        """Look up the latest offsets of partitions that have none yet."""
        missing = [key for key in keys if key not in self._ends]
        self._ends.update(self._offsets_at(missing, LATEST) if missing else {})

    def end(self, key: TopicPartition) -> int:
        """Return the offset where a partition ends. A partition that was created meanwhile ends where it is now."""
        self.find_ends([key])
        return self._ends[key]

    def _offsets_at(self, keys: Sequence[TopicPartition], at: int) -> dict[TopicPartition, int]:
        """Return offsets by special time or timestamp; the latest offset if no record is that late."""
        offsets: dict[TopicPartition, int] = {}
        for key, answer in list_offsets(self._client, dict.fromkeys(keys, at), isolation=self.isolation).items():
            if isinstance(answer, KafkaError):
                raise answer
            offsets[key] = answer.offset
        late = [key for key, offset in offsets.items() if offset < 0]
        if late:
            latest = list_offsets(self._client, dict.fromkeys(late, LATEST), isolation=self.isolation)
            offsets.update({key: answer.offset for key, answer in latest.items() if isinstance(answer, FoundOffset)})
        return offsets


def _until(
    reader: Reader, count: int | None, bounds: _Bounds | None, idle_timeout_s: float | None, flush: Callable[[], None]
) -> Iterator[ConsumedRecord]:
    """Yield records until the count or the ends are reached, or endlessly; TimedOut if none arrives for too long."""
    left = -1 if count is None else count
    last_record_s = time.monotonic()
    while left != 0:
        if bounds is not None:
            for key, position in reader.positions.items():
                if position >= bounds.end(key):
                    reader.stop_reading(key)
        if not reader.positions and not reader.is_waiting:
            return
        wait_ms = POLL_MS if idle_timeout_s is None else max(1, min(POLL_MS, int(idle_timeout_s * 1000)))
        for consumed in reader.poll(wait_ms):
            last_record_s = time.monotonic()
            if bounds is not None and consumed.record.offset >= bounds.end((consumed.topic, consumed.partition)):
                continue
            yield consumed
            left -= 1
            if left == 0:
                return
        flush()
        if idle_timeout_s is not None and time.monotonic() - last_record_s >= idle_timeout_s:
            raise TimedOut(f"no record arrived for {idle_timeout_s:g} s")
