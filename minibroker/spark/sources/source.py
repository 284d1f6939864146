"""The interface of sources, for pipelines that work with any of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from minibroker.spark.sources.cluster import ClusterSource
from minibroker.spark.sources.log_directory import LogDirectorySource
from minibroker.spark.sources.positions import EARLIEST, LATEST, Position
from minibroker.spark.sources.ranges import PartitionRange, ResolvedTopics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class RecordSource(Protocol):
    """Topics that can be read by ranges of offsets; `str()` is their place."""

    isolation_level: str

    def resolve(
        self, topics: Sequence[str] = (), *, pattern: str | None = None, starting: Position = EARLIEST, ending: Position = LATEST
    ) -> ResolvedTopics:
        """Return the ranges that exist now."""

    def topic_ids(self, topics: Sequence[str]) -> dict[str, str]:
        """Return the ids that topics have now; "" if unknown."""

    def frame(self, spark: SparkSession, ranges: Sequence[PartitionRange], *, min_partitions: int = 0) -> DataFrame:
        """Return the records of these ranges, read by at least `min_partitions` tasks if there is enough to read."""

    def stream(self, spark: SparkSession, ranges: Sequence[PartitionRange], *, max_offsets_per_trigger: int | None = None) -> DataFrame:
        """Return a streaming frame of the topics of these ranges, from their start offsets on, without an end."""


TopicSource = ClusterSource | LogDirectorySource  #: a broker's topics, whether the broker runs or not


def source_of(
    bootstrap_servers: str, data_dir: str | None, isolation_level: str, client_config: Mapping[str, str] | None = None
) -> TopicSource:
    """Return the log directories if given, else the cluster; SourceError as raised by their classes."""
    if data_dir is not None:
        return LogDirectorySource(data_dir, isolation_level=isolation_level)
    return ClusterSource(bootstrap_servers, isolation_level=isolation_level, client_config=client_config)
