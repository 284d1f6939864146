"""The demonstration as a user runs it, on the first flights of the year; and what it does when a figure is wrong."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from minibroker.demo.flights import Flights
from minibroker.spark import session

ROWS = 6_000


@pytest.fixture(scope="module")
def flights() -> Flights:
    return Flights(ROWS)


def test_runs_through_and_finds_every_figure_right(tmp_path: Path) -> None:
    problem = session.missing()
    if problem:
        pytest.skip(problem)
    command = [sys.executable, "-m", "minibroker.demo", "--dir", str(tmp_path), "--rows", str(ROWS), "--master", "local[2]"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "minibroker ready" in done.stdout
    assert f"ok acknowledged by the broker: {ROWS:,}" in done.stdout
    assert done.stdout.count(f"ok rows in the table: {ROWS:,}") == 2
    assert f"ok rows: {ROWS:,}" in done.stdout
    assert f"ok records archived: {ROWS:,}" in done.stdout
    assert f"ok records equal in key, value, headers and timestamp: {ROWS:,}" in done.stdout
    assert f"ok records counted, by day: {ROWS:,}" in done.stdout
    assert (tmp_path / "flights.svg").exists()
    assert "All figures agree with the source" in done.stdout
    assert (tmp_path / "data" / "flights-2" / "partition.metadata").exists()


def test_flights_are_in_order_of_event_time(flights: Flights) -> None:
    records = list(flights.records())
    assert len(records) == len(flights) == ROWS
    times = [record.timestamp_ms for record in records]
    assert times == sorted(times)
    assert times[0] == 1_357_035_300_000  # 05:15 in New York on 1 January 2013, 10:15 UTC
    assert flights.since(times[0]) == ROWS
    assert flights.since(times[-1] + 1) == 0


def test_missing_values_are_null_in_the_record(flights: Flights) -> None:
    values = [record.value for record in flights.records()]
    assert not any(b"NaN" in value for value in values)
    assert any(b'"dep_delay":null' in value for value in values)


def test_delays_count_only_flights_that_left(flights: Flights) -> None:
    flown = sum(count for count, _ in flights.delays().values())
    assert flown == sum(b'"dep_delay":null' not in record.value for record in flights.records())
    assert flown < ROWS
