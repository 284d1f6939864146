"""Records -> 64 bits, by functions of Spark's that become Java code: no Python touches a record.

The digest of a record is xxhash64 over the compared columns, each behind a flag that says whether it is null: xxhash64 itself passes over
nulls, so a null key before a value would be the same as that value before nothing. Headers go in as JSON, which tells null from empty
and has an order. It finds accidents; against somebody who wants to deceive, compare cryptographic digests of your own.

The digest of many records is their count, the xor of theirs, and the sums of the halves of theirs (of 32 bits each: no sum overflows below
2^31 records). Records that are twice there leave the xor as it was, not the count.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812  as everybody calls it

from minibroker.spark.sources.errors import SourceError

if TYPE_CHECKING:
    from pyspark.sql import Column

#: what can be compared of a record
COLUMNS = ("key", "value", "headers", "timestamp", "timestampType")
DEFAULT_COLUMNS = COLUMNS[:4]

LOW_HALF = 0xFFFFFFFF


def check_columns(columns: Iterable[str]) -> tuple[str, ...]:
    """The columns, each once, in the order of COLUMNS; SourceError for another one, or none."""
    given = set(columns)
    unknown = sorted(given - set(COLUMNS))
    if unknown:
        raise SourceError(f"an audit cannot compare {unknown[0]!r}: it can compare {', '.join(COLUMNS)}")
    if not given:
        raise SourceError(f"no column is given to compare: choose some of {', '.join(COLUMNS)}")
    return tuple(name for name in COLUMNS if name in given)


def digest(columns: Sequence[str]) -> Column:
    """A long for each record."""
    return F.xxhash64(*(part for name in columns for part in _parts(name)))


def _parts(name: str) -> list[Column]:
    column = F.col(name)
    if name != "headers":
        return [column.isNull(), column]
    # No headers are null in some sources and an empty array in others.
    as_json = F.to_json(column, {"ignoreNullFields": "true"})
    return [F.when(F.size(column) > 0, F.xxhash64(as_json)).otherwise(F.lit(0))]


def low_half(value: Column) -> Column:
    """The lower 32 bits, as a number that is not negative."""
    return value.bitwiseAND(F.lit(LOW_HALF))


def high_half(value: Column) -> Column:
    """The upper 32 bits, as a number that is not negative."""
    return F.shiftrightunsigned(value, 32)
