"""Audits of small tables against a comparison in plain Python: differences of all kinds, planted at random, many partitions at once.

They are the same ones in each run that is no soak; AUDIT_SEED plants others.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("pyspark")

from pyspark.sql import functions as F  # noqa: N812  as everybody calls it

from minibroker.spark.audit import Difference, NotCompared, audit
from minibroker.spark.audit.comparing import COLUMNS, digest
from minibroker.spark.audit.result import CHANGED, DUPLICATE_LEFT, DUPLICATE_RIGHT, MISSING_LEFT, MISSING_RIGHT
from minibroker.spark.failures import SourceError
from tests.spark.audit.planting import EPOCH, Row, first_by_offset, first_by_order, frame, planted, rows_of
from tests.support.soak import seed as chosen

pytestmark = [pytest.mark.timeout(600)]

PARTITIONS = 15
SIZE = 16


@pytest.fixture(scope="module", autouse=True)
def _forget(spark: Any) -> Iterator[None]:
    """The tables that tests keep."""
    yield
    spark.catalog.clearCache()


@pytest.fixture(scope="module")
def seed() -> int:
    return chosen("AUDIT_SEED")


def sides(seed: int) -> dict[int, tuple[list[Row], list[Row]]]:
    rng = random.Random(seed)
    return {number: planted(rng, rows_of(rng, "t", number, rng.choice([1, 3, 40, 130]))) for number in range(PARTITIONS)}


def frames(spark: Any, given: dict[int, tuple[list[Row], list[Row]]]) -> tuple[Any, Any]:
    left, right = ([row for pair in given.values() for row in pair[side]] for side in range(2))
    return frame(spark, left), frame(spark, right)


def test_by_offset_as_in_plain_python(spark: Any, seed: int) -> None:
    given = sides(seed)
    result = audit(spark, *frames(spark, given), whole=True, range_size=SIZE)
    found = {each.partition: each for each in result.partitions}
    for number, (left, right) in given.items():
        if not left and not right:
            assert number not in found
            continue
        expected, each = first_by_offset(left, right), found[number]
        assert (each.left_count, each.right_count) == (len(left), len(right))
        assert each.is_equal == (expected is None), number
        if expected is not None and each.first_difference is not None:
            first = each.first_difference
            assert (first.kind, first.position, first.columns) == expected, number
            assert (first.left is None, first.right is None) == (first.kind == MISSING_LEFT, first.kind == MISSING_RIGHT)
        assert (each.first_difference is None) == (expected is None)
        buckets = {row.offset // SIZE for row in (*left, *right)}
        assert each.range_count == len(buckets)
        assert each.different_range_count == sum(
            first_by_offset(*([row for row in side if row.offset // SIZE == bucket] for side in (left, right))) is not None
            for bucket in buckets
        )
    assert result.is_equal is False


def test_by_order_as_in_plain_python(spark: Any, seed: int) -> None:
    given = sides(seed + 1)
    rng = random.Random(seed)
    moved = {number: (left, _moved(right, rng)) for number, (left, right) in given.items()}
    for number, (*pair, _) in _each_kind().items():
        left, right = ([row._replace(partition=number, offset=at) for at, row in enumerate(side)] for side in pair)
        moved[number] = left, right
    result = audit(spark, *frames(spark, moved), match="order", range_size=SIZE)
    assert result.left_count == sum(len(left) for left, _ in moved.values())
    found = {each.partition: each for each in result.partitions}
    for number, (left, right) in moved.items():
        if not left and not right:
            continue
        expected, each = first_by_order(left, right), found[number]
        assert (each.left_count, each.right_count) == (len(left), len(right))
        assert each.is_equal == (expected is None), number
        assert (each.first_difference.position if each.first_difference else None) == expected, number
        if each.first_difference is not None:
            assert expected is not None
            for record, side in ((each.first_difference.left, left), (each.first_difference.right, right)):
                rows = sorted(side, key=lambda row: row.offset)
                assert (record.offset if record else None) == (rows[expected].offset if expected < len(rows) else None)
    _check_each_kind({number: each.first_difference for number, each in found.items()})


def _check_each_kind(firsts: dict[int, Difference | None]) -> None:
    for number, (_, _, text) in _each_kind().items():
        first = firsts[number]
        assert (first and (first.kind, first.position, first.count, first.columns)) == text, number
    shown = firsts[105]
    assert shown is not None
    assert shown.as_dict()["right"] == {
        "offset": 20,
        "key": "20",
        "key_size": 2,
        "value": "other",
        "value_size": 5,
        "headers": [["h", "1"]],
        "timestamp": "2026-01-01T00:00:00.000Z",
    }


def _each_kind() -> dict[int, tuple[list[Row], list[Row], tuple[str, int, int, tuple[str, ...]] | None]]:
    """Two sides by partition, and the kind, position, count and columns of what an audit by order finds."""
    rows = [Row(b"%d" % number, b"v", None, "t", 0, number, EPOCH, 0) for number in range(100)]
    other = rows[20]._replace(value=b"other", headers=(("h", b"1"),))
    return {
        100: (rows, rows, None),
        101: (rows, rows[:20] + rows[25:], (MISSING_RIGHT, 20, 5, ())),
        102: (rows[:20] + rows[21:], rows, (MISSING_LEFT, 20, 1, ())),
        103: (rows, rows[:23] + rows[20:], (DUPLICATE_RIGHT, 23, 3, ())),
        104: (rows[:99] + rows[98:], rows, (DUPLICATE_LEFT, 99, 1, ())),
        105: (rows, [*rows[:20], other, *rows[21:]], (CHANGED, 20, 1, ("value", "headers"))),
        106: (rows, rows[:10], (MISSING_RIGHT, 10, 90, ())),
        107: (rows, [], (MISSING_RIGHT, 0, 100, ())),
    }


def _moved(rows: list[Row], rng: random.Random) -> list[Row]:
    """As a replay writes them: other offsets, the same order."""
    offset, found = rng.randrange(1000), []
    for row in sorted(rows, key=lambda row: row.offset):
        offset += rng.choice([1, 1, 5])
        found.append(row._replace(offset=offset))
    return found


def test_digests_tell_apart_what_is_not_the_same(spark: Any) -> None:
    """Nulls, empties, and bytes that lie next to each other in another column."""
    contents: list[tuple[Any, ...]] = [
        (None, b"a", None),
        (b"a", None, None),
        (b"", b"a", None),
        (b"a", b"", None),
        (b"", None, None),
        (None, b"", None),
        (None, None, None),
        (None, None, [("a", None)]),
        (None, None, [("a", b"")]),
        (None, None, [("a", None), ("b", b"x")]),
        (None, None, [("a", b"b"), ("x", None)]),
        (None, None, [("a", b"b"), ("x", b"")]),
        (None, None, [("b", b"x"), ("a", None)]),
        (None, None, [("a", None), ("b", b"x"), ("b", b"x")]),
        (None, b"a", [("a", None)]),
    ]
    rows = [(key, value, headers, "t", 0, 0, None, 0) for key, value, headers in contents]
    digests = [row[0] for row in frame(spark, rows).select(digest(COLUMNS)).collect()]
    assert len(set(digests)) == len(contents)
    same = frame(spark, [(b"k", b"v", None, "t", 0, 0, None, 0), (b"k", b"v", [], "t", 0, 1, None, 0)])
    assert same.select(digest(COLUMNS)).distinct().count() == 1  # no headers are no headers


def test_what_is_compared_is_told(spark: Any) -> None:
    rows = rows_of(random.Random(5), "t", 0, 100)
    start, end = rows[0].offset, rows[-1].offset + 1
    left, right = frame(spark, rows[:90]), frame(spark, rows[10:])
    found = audit(spark, left, right).partitions[0]
    assert found.is_equal
    assert found.left_count == found.right_count == 80
    unseen = (NotCompared("left", start, rows[10].offset), NotCompared("right", rows[89].offset + 1, end))
    assert found.not_compared == unseen
    given = audit(spark, left, right, ending=f'{{"t": {{"0": {rows[95].offset}}}}}').partitions[0]
    assert (given.left_count, given.right_count) == (80, 85)
    assert given.first_difference is not None
    first = given.first_difference
    assert (first.kind, first.position, first.count) == (MISSING_LEFT, rows[90].offset, 5)
    timed = audit(spark, frame(spark, rows), right, starting=f"@{rows[50].timestamp.isoformat()}").partitions[0]
    assert timed.is_equal
    assert (timed.left_start_offset, timed.left_count) == (rows[50].offset, 50)


def test_names_and_columns(spark: Any) -> None:
    rng = random.Random(7)
    rows = rows_of(rng, "orders", 0, 50) + rows_of(rng, "orders", 1, 50) + rows_of(rng, "users", 0, 50)
    renamed = [row._replace(topic="copy" if row.topic == "orders" else row.topic, timestampType=1) for row in rows]
    left, right = frame(spark, rows), frame(spark, renamed).withColumn("timestamp", F.expr("timestamp + interval 1 second"))
    result = audit(spark, left, right, rename={"orders": "copy"})
    assert [(each.topic, each.first_difference and each.first_difference.columns) for each in result.partitions] == [
        ("orders", ("timestamp",)),
        ("orders", ("timestamp",)),
        ("users", ("timestamp",)),
    ]
    assert audit(spark, left, right, topics=["users"], columns=["value"]).left_count == 50
    assert audit(spark, left, right, pattern="use.*", columns=["timestampType"], max_ranges=1).different_ranges[0].topic == "users"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"match": "luck"}, "got 'luck'"),
        ({"range_size": 0}, "range_size must be at least 1"),
        ({"columns": ["offset"]}, "cannot compare 'offset'"),
        ({"columns": []}, "no column to compare"),
        ({"match": "order", "whole": True}, "whole needs match=offset"),
        ({"starting": "yesterday"}, "is not a position"),
        ({"topics": ["nothing"]}, "nothing"),
        ({"rename": {"t": "nothing"}}, "nothing"),
        ({"starting": '{"t": {"1": 5}}'}, "t-0"),
        ({"starting": '{"t": {"0": 9}}', "ending": '{"t": {"0": 5}}'}, "before its start"),
    ],
)
def test_what_is_wrong_is_told(spark: Any, options: dict[str, Any], words: str) -> None:
    table = frame(spark, rows_of(random.Random(1), "t", 0, 3))
    with pytest.raises(SourceError, match=words):
        audit(spark, table, table, **options)


def test_a_table_that_lacks_a_column(spark: Any) -> None:
    table = frame(spark, rows_of(random.Random(1), "t", 0, 3))
    with pytest.raises(SourceError, match="no column offset"):
        audit(spark, table, table.drop("offset"))
