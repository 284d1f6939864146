"""What names a side."""

from __future__ import annotations

from pathlib import Path

import pytest

from minibroker.spark.audit.reading import name_of, parse_side
from minibroker.spark.failures import SourceError
from minibroker.spark.sources.cluster import ClusterSource
from minibroker.spark.sources.log_directory import LogDirectorySource
from minibroker.spark.sources.table import TableSource


@pytest.mark.parametrize("text", ["localhost:9092", "one:9092,10.0.0.2:9093", "[::1]:9092", "kafka:broker-1.example:9092"])
def test_clusters(text: str) -> None:
    side = parse_side(text, isolation_level="read_uncommitted")
    assert isinstance(side, ClusterSource)
    assert side.bootstrap_servers == text.removeprefix("kafka:")
    assert side.isolation_level == "read_uncommitted"
    assert name_of(side) == f"cluster {side.bootstrap_servers}"


def test_log_directories(tmp_path: Path) -> None:
    assert isinstance(parse_side(f"log:{tmp_path}"), LogDirectorySource)
    assert isinstance(parse_side(str(tmp_path)), TableSource)
    (tmp_path / "meta.properties").touch()
    side = parse_side(str(tmp_path))
    assert isinstance(side, LogDirectorySource)
    assert name_of(side) == f"log directory {tmp_path}"
    assert isinstance(parse_side(f"{tmp_path},{tmp_path}"), LogDirectorySource)


@pytest.mark.parametrize(
    ("text", "path", "form"),
    [
        ("table:x:9092", "x:9092", None),
        ("delta:/data/orders", "/data/orders", "delta"),
        ("s3a://bucket/orders", "s3a://bucket/orders", None),
        ("hdfs://name:8020/orders", "hdfs://name:8020/orders", None),
        ("./archive", "./archive", None),
    ],
)
def test_tables(text: str, path: str, form: str | None) -> None:
    side = parse_side(text)
    assert isinstance(side, TableSource)
    assert (side.table, side.format) == (path, form)
    assert name_of(side) == f"table {path}"


def test_nothing_is_no_side() -> None:
    with pytest.raises(SourceError, match="is empty"):
        parse_side("")
