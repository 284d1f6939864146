"""Run `minibroker spark archive`. Its options are in archive.py, so that its help needs no PySpark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from minibroker.cli.output import emit
from minibroker.cli.serdes import make_client
from minibroker.cli.spark.options import SparkRun, is_here
from minibroker.spark.archive import ArchiveStream, Run, batch, delta, files, read_manifest, store, streaming
from minibroker.spark.decoding.column import FAILFAST, PERMISSIVE, from_registry, packages_of
from minibroker.spark.decoding.schemas import SchemaRegistry
from minibroker.spark.progress import size_text
from minibroker.spark.sources.positions import EARLIEST, Position
from minibroker.spark.sources.source import TopicSource, source_of

if TYPE_CHECKING:
    from pyspark.sql import Column

    from minibroker.registry.client import RegistryClient

COLUMNS = ("run", "topic", "partition", "start_offset", "end_offset", "record_count")


def archive_now(run: SparkRun, path: str, output: str, options: Mapping[str, Any], *, is_ranged: bool) -> None:
    """Archive up to the ends of the topics, and print the runs."""
    starting: Position | None = options["starting"] if is_ranged else None
    _check_folder(path)
    decoding = _decoding(run, options)
    source = _source(run, options)
    source.resolve(
        options["topics"], pattern=options["pattern"], starting=starting or EARLIEST, ending=options["ending"]
    )  # report mistakes before Spark starts
    result = batch.archive(
        _session(run, options["format_"], decoding),
        source,
        path,
        options["topics"],
        starting=starting,
        ending=options["ending"],
        overlap=options["overlap"],
        offsets_per_run=options["max_offsets"] or batch.OFFSETS_PER_RUN,
        **_common(options, decoding),
    )
    run.finish()
    _print_recovered(result.recovered)
    for each in result.skipped:
        click.echo(f"Archived already: {each}.", err=True)
    emit(_items(result.runs), output, columns=COLUMNS)
    if output == "table":
        runs = f"{len(result.runs):,} run{'' if len(result.runs) == 1 else 's'}"
        click.echo(f"{result.record_count:,} records, {size_text(result.size)}, in {runs}: {result.path}", err=True)


def follow(run: SparkRun, path: str, output: str, options: Mapping[str, Any]) -> None:
    """Archive until Ctrl-C, and print each run."""
    _check_folder(path)
    decoding = _decoding(run, options)
    source = _source(run, options)
    source.resolve(options["topics"], pattern=options["pattern"], starting=options["starting"])
    stream = streaming.follow(
        _session(run, options["format_"], decoding),
        source,
        path,
        options["topics"],
        starting=options["starting"],
        trigger=options["every"],
        checkpoint=options["checkpoint"],
        max_offsets_per_trigger=options["max_offsets"],
        **_common(options, decoding),
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


def show_runs(run: SparkRun, path: str, output: str) -> None:
    """Print the runs of an archive."""
    manifest = read_manifest(None if is_here(path) else run.session(), path)
    run.finish()
    emit(_items(manifest.runs), output, columns=COLUMNS)
    if output == "table":
        size = sum(each.size for each in manifest.runs)
        click.echo(f"{manifest.record_count:,} records, {size_text(size)}, {manifest.identity.isolation_level}: {manifest.path}", err=True)


def _source(run: SparkRun, options: Mapping[str, Any]) -> TopicSource:
    return source_of(run.bootstrap_server, options["data_dir"], options["isolation_level"], run.client_config)


def _check_folder(path: str) -> None:
    """Raise SourceError before Spark starts if a local folder cannot be an archive."""
    if is_here(path):
        store.ArchiveStore(files.LocalTableFiles(), files.local_path(path)).check_folder()


def _session(run: SparkRun, format_: str, decoding: Decoding | None) -> Any:
    packages = decoding.packages if decoding else ()
    if format_ == "delta":
        return run.session(packages=[*delta.PACKAGES, *packages], conf=delta.CONF)
    return run.session(packages=packages)


def _common(options: Mapping[str, Any], decoding: Decoding | None) -> dict[str, Any]:
    names = ("pattern", "allow_gaps", "allow_recreated", "compression")
    columns = decoding.columns if decoding else None
    return {**{name: options[name] for name in names}, "format": options["format_"], "columns": columns}


class Decoding:
    """How `--registry` decodes values: asked before Spark starts, to report mistakes early."""

    def __init__(self, registry: RegistryClient, subject: str, *, is_permissive: bool) -> None:
        self._registry = SchemaRegistry(registry)
        self._subject = subject
        self._mode = PERMISSIVE if is_permissive else FAILFAST
        self.packages = packages_of(self._registry.get_version(subject).schema_type)

    def columns(self) -> Mapping[str, Column]:
        """Return the column that each run adds."""
        return {"decoded": from_registry("value", self._registry, self._subject, mode=self._mode, headers="headers")}


def _decoding(run: SparkRun, options: Mapping[str, Any]) -> Decoding | None:
    url, subject, topics = options["registry_url"], options["value_subject"], options["topics"]
    if url is None:
        return None
    if subject is None and (len(topics) != 1 or options["pattern"]):
        raise click.UsageError("--registry needs --value-subject, unless exactly one TOPIC is given")
    registry = make_client(url, run.client_config, options["login"])
    return Decoding(registry, subject or f"{topics[0]}-value", is_permissive=options["undecodable"] == "null")


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
