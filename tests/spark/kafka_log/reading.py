"""Reading a directory as executors do, without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from minibroker.spark.kafka_log.columns import TableBuilder
from minibroker.spark.kafka_log.options import LogRange, ReadOptions, parse_options
from minibroker.spark.kafka_log.plan import plan
from minibroker.spark.kafka_log.reader import RangeReader
from minibroker.storage.files import Files, RealFiles

COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")


def options_of(path: Path, **options: Any) -> ReadOptions:
    return parse_options({"path": str(path), **{name: str(value) for name, value in options.items()}})


def ranges_of(path: Path, **options: Any) -> list[LogRange]:
    return plan(RealFiles(), options_of(path, **options))


def rows_of(path: Path, *, files: Files | None = None, **options: Any) -> list[dict[str, Any]]:
    """All rows, task after task."""
    parsed = options_of(path, **options)
    names = COLUMNS + ((parsed.corrupt_column,) if parsed.corrupt_column else ())
    rows = []
    for planned in plan(files or RealFiles(), parsed):
        builder = TableBuilder(planned.topic, planned.partition, names, parsed.corrupt_column)
        for batch in RangeReader(files or RealFiles(), planned, builder, is_permissive=parsed.is_permissive).record_batches():
            rows += batch.to_pylist()
    return rows


def values_of(path: Path, **options: Any) -> dict[int, bytes | None]:
    """Values by offset of a directory with one partition; no offset twice, none behind a later one."""
    rows = rows_of(path, **options)
    offsets = [row["offset"] for row in rows]
    assert offsets == sorted(set(offsets))
    return {row["offset"]: row["value"] for row in rows}
