"""Choose the bars of a picture: the days (or hours) of a report, or weeks, months or years if there are too many."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from minibroker.spark.report.results import civil_date

MOST_BARS = 75
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
HOURS = 24


class Bars(NamedTuple):
    """One bar for each span of time, without a break; `labels` name some of them, by number."""

    unit: str
    records: list[int]
    bytes: list[int]
    labels: dict[int, str]
    without_time: int  #: records that have no timestamp


class Unit(NamedTuple):
    """A span of time: its name, its number from an hour's number since 1970, and its label from its number."""

    name: str
    number_of: Callable[[int], int]
    name_of: Callable[[int], str]


def _day(number: int) -> str:
    _, month, day = civil_date(number)
    return f"{day} {MONTHS[month - 1]}"


def _year_and_month(hour: int) -> int:
    year, month, _ = civil_date(hour // HOURS)
    return year * 12 + month - 1


def _years(count: int) -> Unit:
    return Unit("year" if count == 1 else f"{count:,} years", lambda hour: civil_date(hour // HOURS)[0] // count, lambda n: str(n * count))


UNITS = (
    Unit("hour", lambda hour: hour, lambda number: f"{_day(number // HOURS)}\n{number % HOURS:02}:00"),
    Unit("day", lambda hour: hour // HOURS, lambda number: f"{_day(number)}\n{civil_date(number)[0]}"),
    Unit("week", lambda hour: (hour // HOURS + 3) // 7, lambda number: f"{_day(number * 7 - 3)}\n{civil_date(number * 7 - 3)[0]}"),
    Unit("month", _year_and_month, lambda number: f"{MONTHS[number % 12]}\n{number // 12}"),
    Unit("quarter", lambda hour: _year_and_month(hour) // 3, lambda number: f"Q{number % 4 + 1}\n{number // 4}"),
    *(_years(10**power) for power in range(9)),
)


def bars_of(buckets: Iterable[tuple[str | None, tuple[int, int]]], bucket: str, *, label_count: int = 4) -> Bars | None:
    """Return the bars of (start, (records, bytes)) by day or hour; None if nothing has a time."""
    timed: dict[int, tuple[int, int]] = {}
    without_time = 0
    for start, counts in buckets:
        if start is None:
            without_time += counts[0]
        else:
            timed[_hour(start)] = counts
    if not timed:
        return None
    first, last = min(timed), max(timed)
    units = UNITS if bucket == "hour" else UNITS[1:]
    unit = next((each for each in units if each.number_of(last) - each.number_of(first) < MOST_BARS), UNITS[-1])
    base = unit.number_of(first)
    count = unit.number_of(last) - base + 1
    records, sizes = [0] * count, [0] * count
    for hour, (number, size) in timed.items():
        place = unit.number_of(hour) - base
        records[place] += number
        sizes[place] += size
    step = max(1, -(-count // label_count))
    return Bars(unit.name, records, sizes, {place: unit.name_of(base + place) for place in range(0, count, step)}, without_time)


def _hour(start: str) -> int:
    """Return the number of the hour of 2026-11-22 or 2026-11-22T14; any year."""
    date, _, hour = start.partition("T")
    year, month, day = date.rsplit("-", 2)
    return days_of(int(year), int(month), int(day)) * HOURS + int(hour or 0)


def days_of(year: int, month: int, day: int) -> int:
    """Return days since 1970; the inverse of civil_date."""
    year -= month <= 2
    era, of_era = divmod(year, 400)
    of_year = (153 * (month - 3 if month > 2 else month + 9) + 2) // 5 + day - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468
