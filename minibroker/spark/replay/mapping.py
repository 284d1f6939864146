"""Read the offset mapping of all runs of a replay as a DataFrame, from its ledger by Spark's connector."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException
from pyspark.sql import functions as F  # noqa: N812  as PySpark's own documentation calls it

from minibroker.spark.failures import ReplayError
from minibroker.spark.progress import phase
from minibroker.spark.replay.ledger import RANGES, RANGES_SCHEMA, check_name, ledger_of
from minibroker.spark.sources.cluster import ClusterSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS = ("source_topic", "source_partition", "topic", "partition", "old_first", "old_last", "new_first", "new_last", "records", "run")


def read_mapping(spark: SparkSession, *, bootstrap_servers: str, name: str, client_config: Mapping[str, str] | None = None) -> DataFrame:
    """Return the mapping of old to new offsets, in runs of records in which both grow by one.

    Args:
        spark: a session with the connector.
        bootstrap_servers: of the target cluster.
        name: of the replay.
        client_config: how to connect by TLS and SASL: properties of Java's clients or librdkafka.

    Returns:
        COLUMNS; the record old_first + i became new_first + i, for i below `records`. It has what is committed now, in
        no order.

    Raises:
        SourceError: there is no such replay.
    """
    check_name(name)
    source = ClusterSource(bootstrap_servers, client_config=client_config)
    ranges = source.resolve([ledger_of(name)]).ranges
    value = F.from_json(F.col("value").cast("string"), RANGES_SCHEMA).alias("v")
    runs = source.frame(spark, ranges).where(F.col("key") == F.lit(RANGES)).select(value).select("v.*", F.explode("v.ranges").alias("r"))
    old_first, new_first, records = (F.get("r", F.lit(index)) for index in range(3))
    return runs.select(
        "source_topic",
        "source_partition",
        "topic",
        "partition",
        old_first.alias("old_first"),
        (old_first + records - 1).alias("old_last"),
        new_first.alias("new_first"),
        (new_first + records - 1).alias("new_last"),
        records.alias("records"),
        "run",
    )


def check_mapping_path(spark: SparkSession, path: str) -> None:
    """Raise ReplayError if `path` holds something other than a mapping, which would be overwritten."""
    jvm: Any = spark._jvm  # noqa: SLF001  PySpark has no other way to Hadoop's file systems
    folder = jvm.org.apache.hadoop.fs.Path(path)
    files = folder.getFileSystem(spark._jsc.hadoopConfiguration())  # noqa: SLF001  likewise
    if not files.exists(folder):
        return
    try:
        columns = tuple(spark.read.parquet(path).columns)
    except AnalysisException:
        columns = ()
    if columns != COLUMNS:
        raise ReplayError(f"{path} exists and is not an offset mapping: choose another folder")


def write_mapping(mapping: DataFrame, path: str) -> None:
    """Write a mapping as Parquet, in place of an earlier one."""
    with phase("writing the mapping of offsets"):
        mapping.coalesce(1).sortWithinPartitions("topic", "partition", "new_first").write.mode("overwrite").parquet(path)
