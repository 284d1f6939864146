"""`minibroker spark sql`: query topics, log directories and archives with SQL."""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click
from tabulate import tabulate

from minibroker.cli.spark.options import SparkRun, range_options, require_folder, spark_command
from minibroker.spark.progress import phase
from minibroker.spark.sources.positions import Position

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TABLE_ROWS = 100
#: a table of files within a query: parquet.`/path`
FILES = re.compile(r"\b\w+\.`")


@click.command(
    epilog="""\b
Examples:
  minibroker spark sql 'SELECT partition, count(*) FROM orders GROUP BY partition'
  minibroker spark sql --text 'SELECT value FROM `my.topic` WHERE offset < 5'
  minibroker spark sql --data-dir ./data -o csv 'SELECT * FROM orders' > orders.csv
  minibroker spark sql --archive ./archive 'SELECT min(timestamp) FROM orders'
"""
)
@click.argument("query", metavar="QUERY")
@click.option("--data-dir", metavar="DIR,...", help="Query a broker's log directories instead of the broker.")
@click.option("--archive", metavar="DIR", help="Query an archive, or another table of records.")
@range_options
@click.option("--text", is_flag=True, help="Show key and value as strings instead of bytes.")
@click.option("--limit", type=click.IntRange(min=1), metavar="ROWS", help=f"The most rows to print.  [default: {TABLE_ROWS} in a table]")
@spark_command("table", "json", "jsonl", "csv")
def sql(
    run: SparkRun,
    query: str,
    *,
    data_dir: str | None,
    archive: str | None,
    starting: Position,
    ending: Position,
    isolation_level: str,
    text: bool,
    limit: int | None,
    output: str,
) -> None:
    """Query topics, log directories and archives with SQL.

    Each topic is a view with the columns of Spark's Kafka source: key, value, headers, topic, partition, offset, timestamp, timestampType.
    Put names with dots or dashes in backticks. Give - as QUERY to read it from standard input.
    """
    if data_dir is not None and archive is not None:
        raise click.UsageError("--data-dir and --archive exclude each other")
    if query == "-":
        query = sys.stdin.read()
    with phase("running the query"):
        found = _query(run, query, data_dir, archive, (starting, ending, isolation_level), text=text)
        _print(run, found, output, limit)


def _query(
    run: SparkRun, query: str, data_dir: str | None, archive: str | None, bounds: tuple[Position, Position, str], *, text: bool
) -> DataFrame:
    """Return a data frame of the query's rows, which is not computed yet."""
    from minibroker.spark import sql as of_spark  # noqa: PLC0415  --help needs no numpy
    from minibroker.spark.sources.source import source_of  # noqa: PLC0415

    starting, ending, isolation_level = bounds
    if archive is not None:
        require_folder(archive)
        spark = run.session()
        of_spark.view_table(spark, archive, query, text=text)
        return spark.sql(query)
    source = source_of(run.bootstrap_server, data_dir, isolation_level, run.client_config)
    topics = of_spark.topics_of(source)
    resolved = None
    if of_spark.topics_named(query, topics) or not FILES.search(query):
        resolved = of_spark.resolve_named(query, source, topics, starting=starting, ending=ending)
    spark = run.session()
    if resolved is not None:
        of_spark.view_topics(spark, source, resolved, text=text)
    return spark.sql(query)


def _print(run: SparkRun, found: DataFrame, output: str, limit: int | None) -> None:
    names = found.columns
    if output in {"json", "jsonl"}:
        duplicate = next((name for name in names if names.count(name) > 1), None)
        if duplicate is not None:
            raise click.ClickException(f"two columns are named {duplicate}: rename one (AS), or use -o table or csv")
        _print_json(run, found.limit(limit) if limit else found, output)
    elif output == "csv":
        _print_csv(run, found.limit(limit) if limit else found)
    else:
        _print_table(run, found, limit or TABLE_ROWS)


def _print_table(run: SparkRun, found: DataFrame, limit: int) -> None:
    rows = [["" if cell is None else cell for cell in row] for row in _strings(found).limit(limit + 1).collect()]
    run.finish()
    numeric = {"tinyint", "smallint", "int", "bigint", "float", "double"}
    alignment = ["right" if kind in numeric or kind.startswith("decimal") else "left" for _, kind in found.dtypes]
    text = tabulate(rows[:limit], found.columns, tablefmt="plain", disable_numparse=True, colalign=alignment if rows else None)
    click.echo("\n".join(line.rstrip() for line in text.splitlines()))
    if len(rows) > limit:
        click.echo(f"Only the first {limit:,} rows are shown: --limit shows more, -o csv or -o jsonl all.", err=True)


def _print_csv(run: SparkRun, found: DataFrame) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    rows = _rows(run, _strings(found))
    first = next(rows, None)  # errors of the query are raised before anything is printed
    writer.writerow(found.columns)
    if first is not None:
        writer.writerow(first)
        writer.writerows(rows)


def _print_json(run: SparkRun, found: DataFrame, output: str) -> None:
    names = ", ".join(f"`{name.replace('`', '``')}`" for name in found.columns)
    whole = found.selectExpr(f"to_json(struct({names}), map('ignoreNullFields', 'false'))")
    rows = (str(row[0]) for row in _rows(run, whole))
    if output == "jsonl":
        for row in rows:
            click.echo(row)
        return
    text = "[\n"
    for row in rows:
        click.echo(f"{text}  {row}", nl=False)
        text = ",\n"
    click.echo("[]" if text == "[\n" else "\n]")


def _rows(run: SparkRun, found: DataFrame) -> Iterator[Sequence[object]]:
    """Yield rows; the driver holds those of one Spark partition. On a terminal, stop showing progress between rows."""
    if sys.stdout.isatty():
        run.finish()
    yield from found.toLocalIterator()


def _strings(found: DataFrame) -> DataFrame:
    """Return all columns as text; bytes as text if they are UTF-8, else in hexadecimal."""
    kinds = [kind for _, kind in found.dtypes]
    numbered = found.toDF(*(f"c{number}" for number in range(len(kinds))))
    columns = []
    for number, kind in enumerate(kinds):
        name = f"c{number}"
        bytes_text = f"if(is_valid_utf8(cast({name} AS string)), cast({name} AS string), concat('0x', hex({name})))"
        columns.append(f"{bytes_text if kind == 'binary' else f'cast({name} AS string)'} AS {name}")
    return numbered.selectExpr(*columns)
