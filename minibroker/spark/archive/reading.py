"""Read archives as tables: exactly the committed records, even while a job writes or after one has died."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812  as PySpark's own documentation calls it

from minibroker.spark.archive.files import LocalTableFiles, local_path, open_folder
from minibroker.spark.archive.manifest import DELTA, ArchivedTopic, Manifest, Run, current
from minibroker.spark.archive.store import ArchiveStore
from minibroker.spark.failures import SourceError
from minibroker.spark.sources.ranges import COLUMNS, SCHEMA

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FILE_SCHEMA = (
    "key binary, value binary, headers array<struct<key: string, value: binary>>, partition int, offset long, timestamp timestamp, "
    "timestampType int, topic string, date date"
)


def is_archive(spark: SparkSession, path: str) -> bool:
    """Return whether there is an archive at `path`."""
    return ArchiveStore(*open_folder(spark, path)).is_there()


def read_manifest(spark: SparkSession | None, path: str) -> Manifest:
    """Return the manifest of an archive: its identity and its runs.

    Args:
        spark: a session. None if the archive is in a local folder.
        path: of the archive.

    Raises:
        SourceError: there is no archive, or its manifest is damaged.
    """
    store = ArchiveStore(*(open_folder(spark, path) if spark else (LocalTableFiles(), local_path(path))))
    return Manifest(store.path, store.identity(), tuple(store.runs()))


def archived_topic_ids(spark: SparkSession, path: str) -> dict[str, str]:
    """Return the ids of the topics of `read_archive`, "" if unknown; empty if there is no archive at `path`."""
    store = ArchiveStore(*open_folder(spark, path))
    latest = store.latest() if store.is_there() else None
    return {name: each.topic_id for name, each in current(latest.topics).items()} if latest else {}


def read_archive(spark: SparkSession, path: str, topics: Sequence[str] = (), *, topic_id: str | None = None) -> DataFrame:
    """Return the records of an archive with the columns of Spark's Kafka source, headers and `date`.

    Args:
        spark: a session; for an archive in Delta, one with Delta Lake.
        path: of the archive.
        topics: only these. Default: all. Of a recreated topic, the newest.
        topic_id: read the topic with this id; give exactly one name in `topics`.

    Raises:
        SourceError: no archive, no such topic, or missing files.
    """
    store = ArchiveStore(*open_folder(spark, path))
    identity = store.identity()
    runs = store.runs()
    chosen = _chosen(store.path, runs[-1].topics if runs else (), topics, topic_id)
    folders = {each.folder: each.topic for each in chosen}
    is_delta = identity.format == DELTA
    return _named(
        spark.read.format("delta").load(store.files.url(store.path)) if is_delta else _files(spark, store, runs, folders), folders
    )


def _chosen(path: str, archived: Sequence[ArchivedTopic], topics: Sequence[str], topic_id: str | None) -> list[ArchivedTopic]:
    newest = current(archived)
    missing = sorted(set(topics) - set(newest))
    if missing:
        raise SourceError(f"the archive at {path} has no topic {missing[0]}; it has {', '.join(sorted(newest)) or 'none'}")
    if topic_id is None:
        return [each for name, each in newest.items() if not topics or name in topics]
    if len(topics) != 1:
        raise SourceError("topic_id needs exactly one topic")
    found = [each for each in archived if each.topic == topics[0] and each.topic_id == topic_id]
    if not found:
        there = ", ".join(each.topic_id or "unknown" for each in archived if each.topic == topics[0])
        raise SourceError(f"the archive at {path} has no topic {topics[0]} with the id {topic_id}; it has {there}")
    return found


def _files(spark: SparkSession, store: ArchiveStore, runs: Sequence[Run], folders: dict[str, str]) -> DataFrame:
    """Read the files of the manifest. Files still in staging need another base path for the columns in their paths."""
    waiting = {run.number for run in store.unpublished()}
    by_base: dict[str, list[str]] = {}
    for run in runs:
        for file in run.files:
            if file.path.partition("/")[0].removeprefix("topic=") not in folders:
                continue
            place = store.locate(run, file) if run.number in waiting else f"{store.path}/{file.path}"
            base = place.removesuffix(file.staged if place.endswith(file.staged) else file.path).rstrip("/")
            by_base.setdefault(base, []).append(place)
    frames = [
        spark.read.schema(FILE_SCHEMA).option("basePath", store.files.url(base)).parquet(*map(store.files.url, places))
        for base, places in sorted(by_base.items())
    ]
    if not frames:
        return spark.createDataFrame([], FILE_SCHEMA)
    return reduce(lambda one, other: one.unionAll(other), frames)


def _named(frame: DataFrame, folders: dict[str, str]) -> DataFrame:
    """Return the records of these folders, with topic names in place of folder names."""
    if not folders:
        return frame.sparkSession.createDataFrame([], f"{SCHEMA}, date date")
    frame = frame.where(F.col("topic").isin(list(folders)))
    moved = {folder: topic for folder, topic in folders.items() if folder != topic}
    if moved:
        names = F.create_map(*[F.lit(each) for pair in moved.items() for each in pair])
        frame = frame.withColumn("topic", F.coalesce(names[F.col("topic")], F.col("topic")))
    return frame.select(*COLUMNS, "date")
