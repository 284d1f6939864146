"""`minibroker spark replay`: write the records of a table to topics with minibroker.spark.replay."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from minibroker.cli.options import pairs
from minibroker.cli.output import emit
from minibroker.cli.spark.options import SparkRun, position_options, require_folder, spark_command
from minibroker.records.compression import Compression
from minibroker.spark.sources.positions import Position

if TYPE_CHECKING:
    from minibroker.spark.replay import ReplayResult

COLUMNS = ("source_topic", "topic", "partition", "records", "bytes", "old_first", "old_last", "new_first", "new_last")


@click.command(
    short_help="Write the records of a table to topics.",
    epilog="""\b
Examples:
  minibroker spark replay ./archive --name restore
  minibroker spark replay ./archive --name again --topic orders --to orders-again --timestamps keep
  minibroker spark replay ./archive --name load-test --rename orders=orders-test --rate 5000
  minibroker spark replay ./archive --name repair --where "cast(key AS string) = 'c-17'" --starting @2026-11-01 --mapping ./offsets
""",
)
@click.argument("table", metavar="TABLE")
@click.option("--name", required=True, metavar="NAME", help="Name of the replay; run it again with the same name to resume it.")
@click.option(
    "-t", "--topic", "topics", multiple=True, metavar="TOPIC", help="Replay only records of this topic; may be given several times."
)
@click.option("--to", metavar="TOPIC", help="Target topic of all records.  [default: the topics of the records]")
@click.option("--rename", multiple=True, metavar="OLD=NEW", help="Write records of topic OLD to NEW; may be given several times.")
@position_options
@click.option("--where", metavar="SQL", help="Replay only records for which this SQL condition is true.")
@click.option(
    "--timestamps",
    type=click.Choice(["now", "keep"]),
    default="now",
    show_default=True,
    help="Timestamps of the records in their new topics.",
)
@click.option(
    "-z",
    "--compression",
    type=click.Choice([codec.name.lower() for codec in Compression]),
    default="lz4",
    show_default=True,
    help="Compression of batches.",
)
@click.option("--rate", type=click.FloatRange(min=0, min_open=True), metavar="RECORDS", help="The most records per second in all.")
@click.option("--mapping", metavar="DIR", help="Write the mapping of old to new offsets to this folder, as Parquet.")
@click.option("--create/--no-create", default=True, show_default=True, help="Create missing topics.")
@click.option("--partitions", type=click.IntRange(min=1), metavar="N", help="Partitions of created topics.  [default: as in the table]")
@click.option("--config", "configs", multiple=True, metavar="NAME=VALUE", help="Config of created topics; may be given several times.")
@spark_command("table", "json")
def replay(
    run: SparkRun,
    *,
    table: str,
    name: str,
    topics: tuple[str, ...],
    to: str | None,
    rename: tuple[str, ...],
    starting: Position,
    ending: Position,
    where: str | None,
    timestamps: str,
    compression: str,
    rate: float | None,
    mapping: str | None,
    create: bool,
    partitions: int | None,
    configs: tuple[str, ...],
    output: str,
) -> None:
    """Write the records of a table to topics, each exactly once.

    TABLE is an archive, or a folder of Parquet or Delta with the columns of Spark's Kafka source. Records keep key, value, headers,
    partition and order. Run it again with the same --name to resume an interrupted run, or to write new records of the table.
    """
    from minibroker.spark.replay import job, ledger, targets  # noqa: PLC0415  --help needs no PySpark

    ledger.check_name(name)
    require_folder(table)
    renamed = pairs(rename, "--rename")
    creation = targets.Creation(create, partitions, pairs(configs, "--config"))
    result = job.replay(
        run.session(),
        source=table,
        bootstrap_servers=run.bootstrap_server,
        name=name,
        topic=to,
        rename=renamed,
        topics=topics,
        starting=starting,
        ending=ending,
        where=where,
        timestamps=timestamps,
        compression=compression,
        rate=rate,
        creation=creation,
        mapping=mapping,
        client_config=run.client_config,
    )
    run.finish()
    _print(result, output)


def _print(result: ReplayResult, output: str) -> None:
    found = result.as_dict()
    if output == "json":
        click.echo(json.dumps(found, ensure_ascii=False, indent=2))
        return
    if result.partitions:
        emit(found["partitions"], output, columns=COLUMNS)
    again = f", after those of {result.run - 1} earlier runs" if result.resumed else ""
    click.echo(f"{result.records:,} records replayed in {result.seconds:.1f} s{again}; run {result.run} of {result.name}", err=True)
