"""Rows of a table, differences that are planted in them, and what a plain comparison in Python says of two lists of rows."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from minibroker.spark.audit.result import CHANGED, DUPLICATE_LEFT, DUPLICATE_RIGHT, MISSING_LEFT, MISSING_RIGHT
from minibroker.spark.sources.ranges import SCHEMA

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


class Row(NamedTuple):
    """As the sources' columns."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] | None
    topic: str
    partition: int
    offset: int
    timestamp: datetime
    timestampType: int  # noqa: N815  Spark's name

    @property
    def content(self) -> tuple[Any, ...]:
        return (self.key, self.value, self.headers or (), self.timestamp)


def frame(spark: Any, rows: Iterable[tuple[Any, ...]]) -> Any:
    """Kept by Spark: rows that come from Python go through workers each time they are read."""
    return spark.createDataFrame([tuple(row) for row in rows], SCHEMA).repartition(3).persist()


def rows_of(rng: random.Random, topic: str, partition: int, count: int) -> list[Row]:
    """With gaps between offsets, as markers and compaction leave them; contents come again."""
    rows, offset = [], rng.randrange(50)
    for number in range(count):
        key = rng.choice([None, b"", b"k%d" % rng.randrange(5)])
        value = rng.choice([None, b"", b"v%d" % rng.randrange(1000), bytes(rng.randrange(200))])
        headers = rng.choice([None, (), (("h", None),), (("h", b""), ("h", b"%d" % number))])
        rows.append(Row(key, value, headers, topic, partition, offset, EPOCH + timedelta(milliseconds=number), 0))
        offset += rng.choice([1, 1, 1, 2, 7])
    return rows


def changed(row: Row, rng: random.Random) -> Row:
    """One column is another."""
    name = rng.choice(["key", "value", "headers", "timestamp"])
    if name == "timestamp":
        return row._replace(timestamp=row.timestamp + timedelta(milliseconds=1))
    if name == "headers":
        return row._replace(headers=(*(row.headers or ()), ("", None)))
    now = row.key if name == "key" else row.value
    other = rng.choice([other for other in (None, b"", b"other") if other != now])
    return row._replace(key=other) if name == "key" else row._replace(value=other)


class Planted(NamedTuple):
    """Two sides of one partition."""

    left: list[Row]
    right: list[Row]


def planted(rng: random.Random, rows: list[Row]) -> Planted:
    """Up to three accidents, on any side."""
    sides = [list(rows), list(rows)]
    for _ in range(rng.choice([0, 1, 1, 1, 2, 3])):
        side = sides[rng.randrange(2)]
        if not side:
            continue
        at = rng.randrange(len(side))
        match rng.choice(["lose", "lose several", "lose the tail", "again", "change"]):
            case "lose":
                del side[at]
            case "lose several":
                del side[at : at + rng.randint(2, 9)]
            case "lose the tail":
                del side[at:]
            case "again":
                side.insert(at, side[at])
            case _:
                side[at] = changed(side[at], rng)
    return Planted(*sides)


class Expected(NamedTuple):
    """The first difference by offset."""

    kind: str
    position: int
    columns: tuple[str, ...]


def first_by_offset(left: list[Row], right: list[Row]) -> Expected | None:
    """Of two sides, offset by offset; without Spark and without digests."""
    ones, others = _by_offset(left), _by_offset(right)
    for offset in sorted(ones.keys() | others.keys()):
        one, other = ones.get(offset, []), others.get(offset, [])
        if Counter(row.content for row in one) == Counter(row.content for row in other):
            continue
        if len(one) > len(other):
            return Expected(DUPLICATE_LEFT if other else MISSING_RIGHT, offset, ())
        if len(one) < len(other):
            return Expected(DUPLICATE_RIGHT if one else MISSING_LEFT, offset, ())
        return Expected(CHANGED, offset, _columns(one, other))
    return None


def first_by_order(left: list[Row], right: list[Row]) -> int | None:
    """The number of the first record that is not the same."""
    ones, others = ([row.content for row in sorted(side, key=lambda row: row.offset)] for side in (left, right))
    if ones == others:
        return None
    pairs = zip(ones, others, strict=False)
    return next((number for number, (one, other) in enumerate(pairs) if one != other), min(len(ones), len(others)))


def _by_offset(rows: list[Row]) -> dict[int, list[Row]]:
    found: dict[int, list[Row]] = {}
    for row in rows:
        found.setdefault(row.offset, []).append(row)
    return found


def _columns(ones: list[Row], others: list[Row]) -> tuple[str, ...]:
    parts: dict[str, Callable[[Row], Any]] = {
        "key": lambda row: row.key,
        "value": lambda row: row.value,
        "headers": lambda row: row.headers or (),
        "timestamp": lambda row: row.timestamp,
    }
    return tuple(name for name, part in parts.items() if {part(row) for row in ones} != {part(row) for row in others})
