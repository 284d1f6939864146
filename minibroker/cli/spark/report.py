"""`minibroker spark report`: report what topics hold with minibroker.spark.report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from minibroker.cli.completions import topic_names
from minibroker.cli.spark.options import range_options, spark_command
from minibroker.client.offsets import epoch_ms

if TYPE_CHECKING:
    from minibroker.cli.spark.options import SparkRun
    from minibroker.spark.sources.positions import Position

DEFAULT_GAPS = 10


class Moment(click.ParamType[int]):
    """Epoch ms, or a date."""

    name = "time"

    def convert(self, value: str | int, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return epoch ms."""
        if isinstance(value, int):
            return value
        try:
            return epoch_ms(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


@click.command(
    short_help="Show what topics hold: offsets, days, gaps, producers, lag.",
    epilog="""\b
Examples:
  minibroker spark report orders
  minibroker spark report orders --no-scan --time 2026-11-22T10:00:00Z
  minibroker spark report --pattern 'flights.*' --picture flights.svg -o json
  minibroker spark report orders --data-dir /var/lib/kafka/data --by hour
""",
)
@click.argument("topics", nargs=-1, metavar="[TOPIC]...", shell_complete=topic_names)
@click.option(
    "--pattern", metavar="REGEX", help="Report topics whose whole name matches.  [default, without TOPIC: all that are not internal]"
)
@click.option("--data-dir", metavar="DIR,...", help="Read a broker's log directories instead of asking a cluster.")
@range_options
@click.option(
    "--time",
    "times",
    multiple=True,
    type=Moment(),
    metavar="TIME",
    help="Show the first offset at or after this time; may be given several times.",
)
@click.option("--no-scan", is_flag=True, help="Count no records: show only what brokers know, quickly and without Spark.")
@click.option(
    "--by", "bucket", type=click.Choice(["day", "hour"]), default="day", show_default=True, help="Count records by day or hour, in UTC."
)
@click.option(
    "--gaps",
    type=click.IntRange(min=0),
    default=DEFAULT_GAPS,
    show_default=True,
    metavar="N",
    help="Number of gaps to list for each partition.",
)
@click.option(
    "--picture",
    "pictures",
    multiple=True,
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Also draw the report as .png or .svg; may be given several times.",
)
@click.option(
    "--theme", type=click.Choice(["light", "dark"]), help="Colours of the picture.  [default: light; an SVG follows its reader's page]"
)
@spark_command("table", "json")
def report(
    run: SparkRun,
    *,
    topics: tuple[str, ...],
    pattern: str | None,
    data_dir: str | None,
    starting: Position,
    ending: Position,
    times: tuple[int, ...],
    isolation_level: str,
    no_scan: bool,
    bucket: str,
    gaps: int,
    pictures: tuple[Path, ...],
    theme: str | None,
    output: str,
) -> None:
    """Show what topics hold, and how far groups have read them.

    For each partition: start and end, records and bytes by day, gaps and their reasons, producers and their open transactions, and the
    lag of groups. --starting and --ending limit what is counted; the rest is complete. docs/report.md explains the JSON.
    """
    from minibroker.spark.report import picture, pipeline  # noqa: PLC0415  --help needs no numpy

    for path in pictures:
        picture.check(path, theme)
    found = pipeline.report(
        run.session,
        bootstrap_servers=None if data_dir else run.bootstrap_server,
        data_dir=data_dir,
        topics=topics,
        pattern=pattern,
        starting=starting,
        ending=ending,
        times=times,
        isolation_level=isolation_level,
        scan=not no_scan,
        bucket=bucket,
        gaps=gaps,
        client_config=run.client_config,
    )
    run.finish()
    for path in pictures:
        found.draw(path, theme=theme)
    click.echo(found.to_json() if output == "json" else found.to_text())
