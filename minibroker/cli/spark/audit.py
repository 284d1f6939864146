"""`minibroker spark audit`: compare two sides with minibroker.spark.audit."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from minibroker.cli.completions import topic_names
from minibroker.cli.options import pairs
from minibroker.cli.output import table
from minibroker.cli.spark.options import SparkRun, range_options, require_folder, spark_command
from minibroker.spark.sources.positions import EARLIEST, LATEST, Position

if TYPE_CHECKING:
    from minibroker.spark.audit.reading import Side
    from minibroker.spark.audit.result import AuditResult, Difference, PartitionAudit, SeenRecord

COLUMNS = ("topic", "partition", "left_offsets", "right_offsets", "left_count", "right_count", "ranges", "different_ranges", "equal")
DIFFERENT = 1  #: exit code for a difference


@click.command(
    short_help="Compare topics with an archive or another cluster.",
    epilog="""\b
Examples:
  minibroker spark audit ./archive --topic flights
  minibroker spark audit localhost:9092 other:9092 --pattern 'orders.*'
  minibroker spark audit log:/var/lib/kafka/data localhost:9092 -t flights --whole
  minibroker spark audit ./archive localhost:9092 -t flights --rename flights=again --match order --columns key,value,headers
""",
)
@click.argument("sides", nargs=-1, required=True, metavar="[LEFT] RIGHT")
@click.option(
    "-t",
    "--topic",
    "topics",
    multiple=True,
    metavar="TOPIC",
    shell_complete=topic_names,
    help="Compare this topic; may be given several times.  [default: all topics of a table that is a side]",
)
@click.option("--pattern", metavar="REGEX", help="Compare topics of the left side whose whole name matches.")
@click.option("--rename", multiple=True, metavar="LEFT=RIGHT", help="Name of a topic on the right side; may be given several times.")
@click.option(
    "--match",
    type=click.Choice(["offset", "order"]),
    default="offset",
    show_default=True,
    help="Compare records of the same offset, or the n-th records of a partition, such as after a replay.",
)
@click.option(
    "--columns",
    default="key,value,headers,timestamp",
    show_default=True,
    metavar="NAME,...",
    help="Columns to compare; timestampType is possible as well.",
)
@range_options
@click.option(
    "--whole", is_flag=True, help="Count offsets that only one side has as differences, if no bound is given.  [default: list them]"
)
@click.option(
    "--range-size",
    type=click.IntRange(min=1),
    default=10_000,
    show_default=True,
    metavar="N",
    help="Offsets per digest; a range with a difference is searched.",
)
@click.option(
    "--max-ranges",
    type=click.IntRange(min=0),
    default=100,
    show_default=True,
    metavar="N",
    help="The most ranges with differences to list in JSON.",
)
@spark_command("table", "json")
def audit(
    run: SparkRun,
    *,
    sides: tuple[str, ...],
    topics: tuple[str, ...],
    pattern: str | None,
    rename: tuple[str, ...],
    match: str,
    columns: str,
    starting: Position,
    ending: Position,
    isolation_level: str,
    whole: bool,
    range_size: int,
    max_ranges: int,
    output: str,
) -> None:
    """Compare topics with an archive or another cluster.

    A side is HOST:PORT,... (a cluster), a log directory, or the path of a table. The prefixes `kafka:`, `log:`, `table:` and `delta:`
    choose explicitly. With one side, the left one is the cluster of --bootstrap-server. Exit code 0: equal; 1: different, or failed.
    """
    from minibroker.spark import audit as pipeline  # noqa: PLC0415  --help needs no PySpark

    if len(sides) > 2:
        raise click.UsageError("an audit has two sides: name topics with --topic")
    texts = sides if len(sides) == 2 else (f"kafka:{run.bootstrap_server}", *sides)
    left, right = (pipeline.parse_side(text, isolation_level=isolation_level, client_config=run.client_config) for text in texts)
    names = pairs(rename, "--rename")
    _check_side(left, topics, pattern, starting, ending)
    _check_side(right, [names.get(topic, topic) for topic in topics])
    result = pipeline.audit(
        run.session(),
        left,
        right,
        topics=topics,
        pattern=pattern,
        rename=names,
        match=match,
        columns=[name.strip() for name in columns.split(",") if name.strip()],
        starting=starting,
        ending=ending,
        whole=whole,
        range_size=range_size,
        max_ranges=max_ranges,
    )
    run.finish()
    click.echo(json.dumps(result.as_dict(), ensure_ascii=False, indent=2) if output == "json" else "\n".join(_lines(result)))
    if not result.is_equal:
        raise click.exceptions.Exit(DIFFERENT)


def _check_side(side: Side, topics: Any, pattern: str | None = None, *bounds: Position) -> None:
    """Resolve a side before Spark starts, to report mistakes early."""
    starting, ending = bounds or (EARLIEST, LATEST)
    if not hasattr(side, "resolve"):
        require_folder(str(side.table))
    elif topics or pattern:
        side.resolve(topics, pattern=pattern, starting=starting, ending=ending)


def _lines(result: AuditResult) -> Iterator[str]:
    """Yield the lines of the text output."""
    yield f"left   {result.left}"
    yield f"right  {result.right}"
    yield table([_row(each) for each in result.partitions], COLUMNS)
    for each in result.partitions:
        for unseen in each.not_compared:
            offsets = f"offsets {unseen.start_offset} up to {unseen.end_offset}"
            yield f"{each.topic}-{each.partition}: not compared: {offsets}, which only the {unseen.side} side has"
    for each in result.partitions:
        if each.first_difference is not None:
            yield from _difference_lines(result, each, each.first_difference)
    total = sum(each.different_range_count for each in result.partitions)
    if result.is_equal:
        yield f"Equal: {result.left_count} records, by {', '.join(result.columns)}"
    else:
        yield f"Different: {result.left_count} records left, {result.right_count} right; ranges that differ: {total}"


def _row(each: PartitionAudit) -> dict[str, Any]:
    return {
        "topic": each.topic,
        "partition": each.partition,
        "left_offsets": None if each.left_start_offset is None else f"{each.left_start_offset}..{each.left_end_offset}",
        "right_offsets": None if each.right_start_offset is None else f"{each.right_start_offset}..{each.right_end_offset}",
        "left_count": each.left_count,
        "right_count": each.right_count,
        "ranges": each.range_count,
        "different_ranges": each.different_range_count,
        "equal": each.is_equal,
    }


def _difference_lines(result: AuditResult, each: PartitionAudit, first: Difference) -> Iterator[str]:
    place = "offset" if result.match == "offset" else "record"
    what = f"{first.kind}: {', '.join(first.columns)}" if first.columns else first.kind
    if result.match == "offset":
        start = first.position // result.range_size * result.range_size
        more = f"{first.count} difference{'s' if first.count > 1 else ''} in offsets {start} up to {start + result.range_size}"
    else:
        more = f"{first.count} in a row"
    yield f"{each.topic}-{each.partition}: first difference at {place} {first.position}: {what} ({more})"
    yield f"  left   {_shown(first.left)}"
    yield f"  right  {_shown(first.right)}"


def _shown(record: SeenRecord | None) -> str:
    if record is None:
        return "-"
    parts = [f"offset {record.offset}", f"key {_data(record.key, record.key_size)}", f"value {_data(record.value, record.value_size)}"]
    if record.headers:
        headers = [f"{name}={_data(value, None if value is None else len(value))}" for name, value in record.headers]
        parts.append(f"headers {' '.join(headers)}")
    return ", ".join([*parts, record.timestamp or "no timestamp"])


def _data(data: bytes | None, size: int | None) -> str:
    """Return bytes as text of one line."""
    if data is None:
        return "null"
    text = json.dumps(data.decode(errors="backslashreplace"), ensure_ascii=False)
    return text if size == len(data) else f"{text}... ({size} bytes)"
