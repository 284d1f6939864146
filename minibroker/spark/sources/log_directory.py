"""A broker's log directories as a source, read by the data source `kafka-log`. The broker may run or be stopped."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING

from minibroker.client.routing import TopicPartition
from minibroker.errors import ConfigurationError
from minibroker.spark.failures import SourceError
from minibroker.spark.kafka_log.directory import open_folders
from minibroker.spark.kafka_log.folder import PartitionFolder
from minibroker.spark.kafka_log.options import INTERNAL_TOPICS, ReadOptions, parse_options
from minibroker.spark.kafka_log.plan import latest_offset
from minibroker.spark.sources.cluster import RESERVED_OPTIONS as CLUSTER_RESERVED_OPTIONS
from minibroker.spark.sources.positions import EARLIEST, LATEST, Bounds, Position, resolve_ranges, topics_matching
from minibroker.spark.sources.ranges import COLUMNS, SCHEMA, PartitionRange, ResolvedTopics, layers, reading_options
from minibroker.storage.directory_files import META_PROPERTIES, PARTITION_METADATA, format_uuid, read_meta_properties, read_topic_id
from minibroker.storage.files import RealFiles

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


#: options of kafka-log that a source sets itself, to read exact ranges
RESERVED_OPTIONS = CLUSTER_RESERVED_OPTIONS | {"isolationlevel", "path"}


class LogDirectorySource:
    """Topics of log directories.

    Args:
        path: a broker's log directory, or several with a comma between; executors need it at the same place.
        isolation_level: as for a cluster; read_committed also stops at the first open transaction.
        options: more options of kafka-log, such as minPartitions or mode.

    Raises:
        SourceError: an option that the source sets itself, or an invalid option.
    """

    def __init__(self, path: str, *, isolation_level: str = "read_committed", options: Mapping[str, str] | None = None) -> None:
        self.path = path
        self.isolation_level = isolation_level
        for name in options or {}:
            if name.lower() in RESERVED_OPTIONS:
                raise SourceError(f"the option {name} is set by the pipeline: it reads exact ranges")
        self.options = {**(options or {}), "isolationLevel": isolation_level, "includeHeaders": "true"}
        self.is_permissive = self._parsed({}).is_permissive  #: whether corrupt batches are skipped

    def resolve(
        self, topics: Sequence[str] = (), *, pattern: str | None = None, starting: Position = EARLIEST, ending: Position = LATEST
    ) -> ResolvedTopics:
        """Return the ranges that exist now; the arguments are those of ClusterSource.resolve.

        Raises:
            SourceError: no such topic, or offsets that do not exist.
            CorruptLogError: files are damaged.
        """
        files = RealFiles()
        names = list(dict.fromkeys(topics))
        if pattern is not None:
            existing = {folder.topic for folder in open_folders(files, self._parsed({}))} - INTERNAL_TOPICS
            names += [name for name in topics_matching(pattern, existing) if name not in names]
        if not names:
            raise SourceError("no topic is given: give a topic, or a pattern")
        options = self._parsed({"subscribe": ",".join(names)})
        folders = {(each.topic, each.partition): each for each in open_folders(files, options)}

        def find(keys: Collection[TopicPartition], time_ms: int) -> dict[TopicPartition, int]:
            found = {key: folders[key].offset_for_timestamp(time_ms, latest_offset(folders[key], options)) for key in keys}
            return {key: offset for key, offset in found.items() if offset is not None}

        bounds = {
            key: Bounds(folder.log_start_offset, max(folder.log_start_offset, latest_offset(folder, options)))
            for key, folder in folders.items()
        }
        ranges = resolve_ranges(bounds, starting, ending, find)
        return ResolvedTopics(_topic_ids(files, folders.values()), ranges, self._cluster_id(files, options))

    def topic_ids(self, topics: Sequence[str]) -> dict[str, str]:
        """Return the ids that topics have now; "" if unknown."""
        files = RealFiles()
        return _topic_ids(files, open_folders(files, self._parsed({"subscribe": ",".join(topics)})))

    def stream(self, spark: SparkSession, ranges: Sequence[PartitionRange], *, max_offsets_per_trigger: int | None = None) -> DataFrame:
        """Return a streaming frame with COLUMNS; see ClusterSource.stream."""
        _register(spark)
        starting = json.loads(reading_options(ranges)["startingOffsets"])
        options = {**self.options, "subscribe": ",".join(sorted(starting)), "startingOffsets": json.dumps(starting)}
        if max_offsets_per_trigger is not None:
            options["maxOffsetsPerTrigger"] = str(max_offsets_per_trigger)
        return spark.readStream.format("kafka-log").options(**options).load(self.path).select(*COLUMNS)

    def __str__(self) -> str:
        return f"log directory {self.path}"

    def frame(self, spark: SparkSession, ranges: Sequence[PartitionRange], *, min_partitions: int = 0) -> DataFrame:
        """Return the records of these ranges, with COLUMNS.

        Args:
            spark: a session.
            ranges: ranges of one partition must not overlap.
            min_partitions: the least number of tasks, if the files can be cut into as many parts. The option minPartitions
                takes precedence.
        """
        _register(spark)
        frames = []
        for layer in layers(ranges):
            least = {"minPartitions": str(min_partitions)} if min_partitions else {}
            options = {**least, **self.options, **reading_options(layer)}
            frames.append(spark.read.format("kafka-log").options(**options).load(self.path).select(*COLUMNS))
        if not frames:
            return spark.createDataFrame([], SCHEMA)
        return reduce(lambda one, other: one.unionAll(other), frames)

    def _parsed(self, more: Mapping[str, str]) -> ReadOptions:
        return parse_options({**self.options, **more, "path": self.path})

    @staticmethod
    def _cluster_id(files: RealFiles, options: ReadOptions) -> str:
        for path in options.paths:
            try:
                found = read_meta_properties(files, f"{path}/{META_PROPERTIES}")
            except ConfigurationError as error:
                raise SourceError(str(error)) from None
            if found is not None and found.cluster_id:
                return found.cluster_id
        return ""


def _register(spark: SparkSession) -> None:
    from minibroker.spark.kafka_log.source import register  # noqa: PLC0415  look-ups need no PySpark

    register(spark)


def _topic_ids(files: RealFiles, folders: Iterable[PartitionFolder]) -> dict[str, str]:
    found: dict[str, str] = {}
    for folder in folders:
        topic_id = read_topic_id(files, f"{folder.directory}/{PARTITION_METADATA}")
        text = format_uuid(topic_id) if topic_id else ""
        if found.setdefault(folder.topic, text) != text:
            raise SourceError(
                f"partitions of {folder.topic} have several topic ids, {found[folder.topic]} and {text}: a topic was re-created"
            )
    return found
