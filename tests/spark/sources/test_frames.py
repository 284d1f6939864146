"""Frames of exact ranges, from a cluster, its directory and tables: the same rows in the same columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from minibroker.spark.failures import SourceError
from minibroker.spark.sources.cluster import ClusterSource
from minibroker.spark.sources.log_directory import LogDirectorySource
from minibroker.spark.sources.ranges import COLUMNS, PartitionRange
from minibroker.spark.sources.table import TableSource
from tests.clients.adapters import CLIENTS, Sent
from tests.support.broker_process import BrokerProcess

pytestmark = [pytest.mark.timeout(600)]

TOPIC = "orders"
RANGES = [PartitionRange(TOPIC, 0, 0, 3), PartitionRange(TOPIC, 0, 5, 9), PartitionRange(TOPIC, 0, 9, 9)]
OFFSETS = [0, 1, 2, 5, 6, 7, 8]


def rows(frame: Any) -> list[Any]:
    assert frame.columns == list(COLUMNS)
    return sorted(frame.collect(), key=lambda row: (row.topic, row.partition, row.offset))


def test_the_same_rows_from_everywhere(spark: Any, tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, "--set", "log.retention.ms=-1") as broker:
        sent = [Sent(b"k%d" % i, b"v%d" % i, (("h", b"x"),) if i % 2 else (), 1_700_000_000_000 + i) for i in range(10)]
        CLIENTS["confluent-kafka"].write(broker.bootstrap, TOPIC, sent)
        cluster = ClusterSource(broker.bootstrap)
        assert cluster.resolve([TOPIC]).ranges == (PartitionRange(TOPIC, 0, 0, 10),)
        expected = rows(cluster.frame(spark, RANGES))
        assert [row.offset for row in expected] == OFFSETS
        assert [row.headers for row in expected[:2]] == [None, [("h", bytearray(b"x"))]]
        assert rows(cluster.frame(spark, RANGES[2:])) == []
        directory = LogDirectorySource(str(broker.data_dir))
        assert directory.resolve([TOPIC]) == cluster.resolve([TOPIC])
        assert rows(directory.frame(spark, RANGES)) == expected
        assert rows(directory.frame(spark, [])) == []
        cluster.frame(spark, cluster.resolve([TOPIC]).ranges).write.parquet(f"{tmp_path}/table")
    table = TableSource(f"{tmp_path}/table")
    assert rows(table.frame(spark, RANGES)) == expected
    assert table.frame(spark).count() == 10
    assert rows(table.frame(spark, [])) == []
    assert table.covered(spark).ranges == (PartitionRange(TOPIC, 0, 0, 10),)
    frame = spark.read.parquet(f"{tmp_path}/table")
    assert rows(TableSource(frame.drop("topic"), topic=TOPIC).frame(spark, RANGES)) == expected
    assert [row.key for row in rows(TableSource(frame.drop("key", "headers")).frame(spark))] == [None] * 10


def test_ranges_of_many_partitions(spark: Any) -> None:
    """Of a table they are conditions, of which Spark's optimizer must not run out of stack."""
    table = spark.range(20).selectExpr("'t' topic", "int(id) partition", "id offset", "cast(null as binary) value")
    ranges = [PartitionRange("t", partition, 0, 10) for partition in range(500)]
    assert [row.offset for row in rows(TableSource(table).frame(spark, ranges))] == [*range(10)]


def test_tables_that_are_none(spark: Any, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="is not a table that Spark can read"):
        TableSource(f"{tmp_path}/nothing").frame(spark)
    with pytest.raises(SourceError, match="the DataFrame has no column value; it has id"):
        TableSource(spark.range(3)).frame(spark)
    empty = spark.createDataFrame([], "topic string, partition int, offset long, value binary")
    with pytest.raises(SourceError, match="the DataFrame has no record of topic orders"):
        TableSource(empty).covered(spark, [TOPIC])
