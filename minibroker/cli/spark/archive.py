"""`minibroker spark archive`: archive topics to tables with minibroker.spark.archive."""

from __future__ import annotations

from typing import Any

import click

from minibroker.cli.completions import topic_names
from minibroker.cli.registry import login_options
from minibroker.cli.spark.options import SparkRun, range_options, spark_command


@click.command(
    epilog="""\b
Examples:
  minibroker spark archive orders --to /archives/orders
  minibroker spark archive --pattern 'flights.*' --to s3a://bucket/flights --format delta
  minibroker spark archive orders --to /archives/orders --ending @2026-11-22
  minibroker spark archive orders --to /archives/orders --follow --every '1 minute'
  minibroker spark archive orders --to /archives/orders --registry http://localhost:8081
  minibroker spark archive --to /archives/orders --runs
"""
)
@click.argument("topics", nargs=-1, metavar="[TOPIC]...", shell_complete=topic_names)
@click.option(
    "--to", "path", required=True, metavar="DIR", help="The archive: a folder on any file system that Spark supports; created if needed."
)
@click.option("--pattern", metavar="REGEX", help="Archive topics whose whole name matches.")
@click.option("--data-dir", metavar="DIR,...", help="Read a broker's log directories instead of a cluster.")
@range_options
@click.option(
    "--overlap",
    type=click.Choice(["error", "skip"]),
    default="error",
    show_default=True,
    help="With --starting: what to do with offsets that are archived already.",
)
@click.option("--allow-gaps", is_flag=True, help="Continue if offsets were deleted before they were archived; the manifest lists them.")
@click.option("--allow-recreated", is_flag=True, help="Archive a topic that was deleted and recreated beside the old one.")
@click.option(
    "--format", "format_", type=click.Choice(["parquet", "delta"]), default="parquet", show_default=True, help="Format of a new archive."
)
@click.option(
    "--compression",
    type=click.Choice(["zstd", "snappy", "lz4", "gzip", "none"]),
    default="zstd",
    show_default=True,
    help="Compression of the files.",
)
@click.option("--follow", is_flag=True, help="Continue as the topics grow, until Ctrl-C.")
@click.option("--every", default="10 seconds", show_default=True, metavar="TIME", help="With --follow: the time between runs.")
@click.option("--checkpoint", metavar="DIR", help="With --follow: folder for the state of the query.  [default: in the archive]")
@click.option("--max-offsets", type=click.IntRange(min=1), metavar="N", help="The most offsets in a run.  [default: 50,000,000]")
@click.option(
    "-r",
    "--registry",
    "registry_url",
    metavar="URL",
    help="Also archive the values as this schema registry decodes them, in a column `decoded`.",
)
@login_options
@click.option("--value-subject", metavar="SUBJECT", help="With --registry: the subject of the values.  [default: TOPIC-value]")
@click.option(
    "--undecodable",
    type=click.Choice(["fail", "null"]),
    default="fail",
    show_default=True,
    help="With --registry: what to do with values that cannot be decoded.",
)
@click.option("--runs", is_flag=True, help="Archive nothing; show what each run has archived.")
@spark_command("table", "json", "jsonl", "yaml")
def archive(run: SparkRun, *, path: str, runs: bool, follow: bool, output: str, **options: Any) -> None:
    """Write topics to a table, each record exactly once.

    Each run continues where the archive ends, up to the ends of the topics. Run it again at any time, also after it was killed. With
    --starting it archives exactly that range. With --follow, --starting is the start of topics that are not archived yet.
    """

    def is_given(option: str) -> bool:
        return click.get_current_context().get_parameter_source(option) is not click.core.ParameterSource.DEFAULT

    if not runs:
        if follow and is_given("ending"):
            raise click.UsageError("--ending and --follow exclude each other")
        for name in ("every", "checkpoint"):
            if not follow and is_given(name):
                raise click.UsageError(f"--{name} needs --follow")
        for name in ("value-subject", "undecodable", "registry-user", "registry-password-file", "registry-ca"):
            if options["registry_url"] is None and is_given(name.replace("-", "_")):
                raise click.UsageError(f"--{name} needs --registry")
    from minibroker.cli.spark import archiving  # noqa: PLC0415  --help needs no PySpark

    if runs:
        archiving.show_runs(run, path, output)
    elif follow:
        archiving.follow(run, path, output, options)
    else:
        archiving.archive_now(run, path, output, options, is_ranged=is_given("starting"))
