"""What every source of records is, for pipelines that do not care which."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from minibroker.spark.sources.cluster import ClusterSource
from minibroker.spark.sources.log_directory import LogDirectorySource
from minibroker.spark.sources.positions import EARLIEST, LATEST, Position
from minibroker.spark.sources.ranges import PartitionRange, ResolvedTopics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class RecordSource(Protocol):
    """Topics that can be read by ranges of offsets; `str()` says where they are."""

    isolation_level: str

    def resolve(
        self, topics: Sequence[str] = (), *, pattern: str | None = None, starting: Position = EARLIEST, ending: Position = LATEST
    ) -> ResolvedTopics:
        """What there is now, as ranges."""

    def topic_ids(self, topics: Sequence[str]) -> dict[str, str]:
        """The ids that topics have now; "" where unknown."""

    def frame(self, spark: SparkSession, ranges: Sequence[PartitionRange], *, min_partitions: int = 0) -> DataFrame:
        """The records of these ranges, by at least so many tasks where there is enough to read."""

    def stream(self, spark: SparkSession, ranges: Sequence[PartitionRange], *, max_offsets_per_trigger: int | None = None) -> DataFrame:
        """A streaming frame of the topics of these ranges, from their start offsets on, without an end."""


TopicSource = ClusterSource | LogDirectorySource  #: those that are a broker's, running or not


def source_of(bootstrap_servers: str, data_dir: str | None, isolation_level: str) -> TopicSource:
    """The log directories, where they are given, else the cluster; SourceError as of their classes."""
    if data_dir is not None:
        return LogDirectorySource(data_dir, isolation_level=isolation_level)
    return ClusterSource(bootstrap_servers, isolation_level=isolation_level)
