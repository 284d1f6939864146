"""`minibroker spark archive`: archive topics to tables with minibroker.spark.archive."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from minibroker.cli.completions import topic_names
from minibroker.cli.output import emit
from minibroker.cli.spark.options import SparkRun, is_here, range_options, spark_command
from minibroker.spark.sizes import size_text
from minibroker.spark.sources.positions import EARLIEST, Position

if TYPE_CHECKING:
    from minibroker.spark.archive import ArchiveStream, Run
    from minibroker.spark.sources.source import TopicSource

COLUMNS = ("run", "topic", "partition", "start_offset", "end_offset", "record_count")


@click.command(
    epilog="""\b
Examples:
  minibroker spark archive orders --to /archives/orders
  minibroker spark archive --pattern 'flights.*' --to s3a://bucket/flights --format delta
  minibroker spark archive orders --to /archives/orders --ending @2026-11-22
  minibroker spark archive orders --to /archives/orders --follow --every '1 minute'
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
@click.option("--runs", is_flag=True, help="Archive nothing; show what each run has archived.")
@spark_command("table", "json", "jsonl", "yaml")
def archive(run: SparkRun, *, path: str, runs: bool, follow: bool, output: str, **given: Any) -> None:
    """Write topics to a table, each record exactly once.

    Each run continues where the archive ends, up to the ends of the topics. Run it again at any time, also after it was killed. With
    --starting it archives exactly that range. With --follow, --starting is the start of topics that are not archived yet.
    """
    ctx = click.get_current_context()
    is_ranged = ctx.get_parameter_source("starting") is not click.core.ParameterSource.DEFAULT
    if runs:
        _show_runs(run, path, output)
        return
    if not follow:
        for name in ("every", "checkpoint"):
            if ctx.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT:
                raise click.UsageError(f"--{name} needs --follow")
        _archive_now(run, path, output, given, is_ranged=is_ranged)
    else:
        if ctx.get_parameter_source("ending") is not click.core.ParameterSource.DEFAULT:
            raise click.UsageError("--ending and --follow exclude each other")
        _follow(run, path, output, given)


def _archive_now(run: SparkRun, path: str, output: str, given: Mapping[str, Any], *, is_ranged: bool) -> None:
    from minibroker.spark.archive import batch  # noqa: PLC0415  --help needs no PySpark

    starting: Position | None = given["starting"] if is_ranged else None
    _check_folder(path)
    source = _source(run, given)
    source.resolve(
        given["topics"], pattern=given["pattern"], starting=starting or EARLIEST, ending=given["ending"]
    )  # report mistakes before Spark starts
    result = batch.archive(
        _session(run, given["format_"]),
        source,
        path,
        given["topics"],
        starting=starting,
        ending=given["ending"],
        overlap=given["overlap"],
        offsets_per_run=given["max_offsets"] or batch.OFFSETS_PER_RUN,
        **_common(given),
    )
    run.finish()
    _print_recovered(result.recovered)
    for each in result.skipped:
        click.echo(f"Archived already: {each}.", err=True)
    emit(_items(result.runs), output, columns=COLUMNS)
    if output == "table":
        runs = f"{len(result.runs):,} run{'' if len(result.runs) == 1 else 's'}"
        click.echo(f"{result.record_count:,} records, {size_text(result.size)}, in {runs}: {result.path}", err=True)


def _follow(run: SparkRun, path: str, output: str, given: Mapping[str, Any]) -> None:
    from minibroker.spark.archive import streaming  # noqa: PLC0415  --help needs no PySpark

    _check_folder(path)
    source = _source(run, given)
    source.resolve(given["topics"], pattern=given["pattern"], starting=given["starting"])
    stream = streaming.follow(
        _session(run, given["format_"]),
        source,
        path,
        given["topics"],
        starting=given["starting"],
        trigger=given["every"],
        checkpoint=given["checkpoint"],
        max_offsets_per_trigger=given["max_offsets"],
        **_common(given),
    )
    _print_recovered(stream.recovered)
    with stream:
        _print_runs(run, stream, output)


def _print_runs(run: SparkRun, stream: ArchiveStream, output: str) -> None:
    """Print each run when it is committed, until the stream stops or Ctrl-C."""
    run.finish()
    printed = 0

    def print_new_runs() -> None:
        nonlocal printed
        for each in stream.runs[printed:]:
            printed += 1
            if output == "table":
                click.echo(f"run {each.number}: {each.record_count:,} records, {size_text(each.size)}")
            else:
                emit(_items([each]), output, columns=COLUMNS)

    try:
        while not stream.wait(1):
            print_new_runs()
    finally:
        print_new_runs()


def _show_runs(run: SparkRun, path: str, output: str) -> None:
    from minibroker.spark.archive import read_manifest  # noqa: PLC0415  --help needs no PySpark

    manifest = read_manifest(None if is_here(path) else run.session(), path)
    run.finish()
    emit(_items(manifest.runs), output, columns=COLUMNS)
    if output == "table":
        size = sum(each.size for each in manifest.runs)
        click.echo(f"{manifest.record_count:,} records, {size_text(size)}, {manifest.identity.isolation_level}: {manifest.path}", err=True)


def _source(run: SparkRun, given: Mapping[str, Any]) -> TopicSource:
    from minibroker.spark.sources.source import source_of  # noqa: PLC0415  --help needs no numpy

    return source_of(run.bootstrap_server, given["data_dir"], given["isolation_level"])


def _check_folder(path: str) -> None:
    """Raise SourceError before Spark starts if a local folder cannot be an archive."""
    from minibroker.spark.archive import files, store  # noqa: PLC0415  --help needs no PySpark

    if is_here(path):
        store.ArchiveStore(files.LocalTableFiles(), files.local_path(path)).check_folder()


def _session(run: SparkRun, format_: str) -> Any:
    from minibroker.spark.archive import delta  # noqa: PLC0415  --help needs no PySpark

    return run.session(packages=delta.PACKAGES, conf=delta.CONF) if format_ == "delta" else run.session()


def _common(given: Mapping[str, Any]) -> dict[str, Any]:
    names = ("pattern", "allow_gaps", "allow_recreated", "compression")
    return {**{name: given[name] for name in names}, "format": given["format_"]}


def _items(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Return a row for each range and each allowed gap."""
    items: list[dict[str, Any]] = []
    for run in runs:
        items += [{"run": run.number, **each._asdict(), "is_gap": False} for each in run.ranges]
        items += [{"run": run.number, **each._asdict(), "record_count": 0, "is_gap": True} for each in run.gaps]
    return items


def _print_recovered(recovered: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    finished, removed = recovered
    for number in finished:
        click.echo(f"Run {number} had been interrupted after its commit: finished.", err=True)
    for number in removed:
        click.echo(f"Run {number} had been interrupted before its commit: removed, and done again.", err=True)
