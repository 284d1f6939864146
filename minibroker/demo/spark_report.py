"""Read the flights back with Spark's connector (`spark-sql-kafka-0-10`): as a batch, from a timestamp on, and as a stream."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from minibroker.demo.flights import Delays

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

VALUE_SCHEMA = "carrier string, month int, dep_delay double, arr_delay double, origin string, dest string"
#: small enough for several micro-batches
OFFSETS_PER_TRIGGER = 120_000


@dataclass(frozen=True, slots=True)
class BatchRead:
    """Figures of the whole topic, read from earliest to latest."""

    rows: int
    distinct_offsets: int
    without_headers: int
    delays: Delays


class FlightsReader:
    """Reads the topic of flights with one Spark session."""

    def __init__(self, spark: SparkSession, bootstrap_servers: str, topic: str) -> None:
        self._spark = spark
        self._options = {"kafka.bootstrap.servers": bootstrap_servers, "subscribe": topic, "includeHeaders": "true"}

    def everything(self) -> BatchRead:
        """Read all records, and sum the delays by carrier and month."""
        frame = self._batch(startingOffsets="earliest", endingOffsets="latest").cache()
        counts = frame.selectExpr(
            "count(*) AS total", "count(DISTINCT partition, offset) AS places", "count_if(size(headers) != 2 OR key IS NULL) AS bare"
        ).first()
        flown = _values(frame).where("dep_delay IS NOT NULL")
        rows = flown.groupBy("carrier", "month").agg({"dep_delay": "sum", "*": "count"}).collect()
        frame.unpersist()
        delays = {(row["carrier"], row["month"]): (row["count(1)"], row["sum(dep_delay)"]) for row in rows}
        if counts is None:
            raise RuntimeError("Spark gave no row for an aggregate")
        return BatchRead(rows=counts["total"], distinct_offsets=counts["places"], without_headers=counts["bare"], delays=delays)

    def since(self, timestamp_ms: int) -> int:
        """Count the records from the offsets that the broker returns for a timestamp."""
        options = {"startingTimestamp": str(timestamp_ms), "startingOffsetsByTimestampStrategy": "latest", "endingOffsets": "latest"}
        return int(self._batch(**options).count())

    def stream(self, target: Path, checkpoint: Path) -> tuple[int, int]:
        """Append new records to Parquet; return the micro-batches with data, and the rows of the table."""
        query = (
            self._spark.readStream.format("kafka")
            .options(**self._options, startingOffsets="earliest", maxOffsetsPerTrigger=str(OFFSETS_PER_TRIGGER))
            .load()
            .selectExpr("CAST(key AS STRING) AS carrier", "partition", "offset", "timestamp")
            .writeStream.format("parquet")
            .option("checkpointLocation", str(checkpoint))
            .trigger(availableNow=True)
            .start(str(target))
        )
        query.awaitTermination()
        batches = sum(1 for progress in query.recentProgress if progress["numInputRows"] > 0)
        return batches, self._spark.read.parquet(str(target)).select("partition", "offset").distinct().count()

    def _batch(self, **options: str) -> DataFrame:
        return self._spark.read.format("kafka").options(**self._options, **options).load()


def _values(frame: DataFrame) -> DataFrame:
    return frame.selectExpr(f"from_json(CAST(value AS STRING), '{VALUE_SCHEMA}') AS flight").select("flight.*")
