"""The report as callers get it: as a dict, JSON, text, a picture or DataFrames."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from minibroker.spark.report.picture import draw
from minibroker.spark.report.results import ReportValues, time_text
from minibroker.spark.report.tables import report_text

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

SCHEMA_VERSION = 1
_BOUNDS = ("log_start_offset", "last_stable_offset", "high_watermark", "log_end_offset", "size")
_COUNTS = ("records", "bytes", "batches", "batch_bytes", "control", "aborted", "compacted", "missing", "gap_count")


@dataclass(frozen=True)
class OffsetReport(ReportValues):
    """What topics hold, and how to show it."""

    def as_dict(self) -> dict[str, Any]:
        """Return the report for JSON; `schema_version` increases when a field is removed or changes its meaning."""
        return {"schema_version": SCHEMA_VERSION, **asdict(self), "taken_at": time_text(self.taken_at)}

    def to_json(self, *, indent: int | None = 2) -> str:
        """Return the report as one JSON object."""
        return json.dumps(self.as_dict(), indent=indent, ensure_ascii=False)

    def to_text(self) -> str:
        """Return the report as text tables."""
        return report_text(self)

    def draw(self, path: str | Path, *, theme: str | None = None) -> None:
        """Write the report as a picture, PNG or SVG by the file's suffix.

        Args:
            path: of the file.
            theme: light or dark. Default: a PNG is light, an SVG follows its reader's page.

        Raises:
            SourceError: an unknown suffix or theme, no matplotlib, or a file that cannot be written.
        """
        draw(self, path, theme=theme)

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """One flat row per partition: bounds and counts."""
        found = []
        for topic in self.topics:
            for each in topic.partitions:
                row: dict[str, Any] = {"topic": topic.topic, "partition": each.partition}
                row |= {name: getattr(each, name) for name in _BOUNDS}
                row |= {name: getattr(each.contents, name, None) for name in _COUNTS}
                found.append(row)
        return found

    def frame(self, spark: SparkSession) -> DataFrame:
        """Return `rows` as a DataFrame."""
        columns = ["topic string", "partition int", *(f"{name} long" for name in (*_BOUNDS, *_COUNTS))]
        return spark.createDataFrame([tuple(row.values()) for row in self.rows], ", ".join(columns))

    def bucket_frame(self, spark: SparkSession) -> DataFrame:
        """Return records and bytes by topic, partition and day (or hour), as a DataFrame."""
        rows = [
            (topic.topic, each.partition, bucket.start, bucket.records, bucket.bytes)
            for topic in self.topics
            for each in topic.partitions
            if each.contents
            for bucket in each.contents.buckets
        ]
        return spark.createDataFrame(rows, f"topic string, partition int, {self.bucket} string, records long, bytes long")
