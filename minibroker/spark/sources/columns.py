"""The columns that all sources give, in this order, with the types of Spark's Kafka source."""

from __future__ import annotations

COLUMNS = ("key", "value", "headers", "topic", "partition", "offset", "timestamp", "timestampType")

#: as SparkSession.createDataFrame and DataFrameReader.schema take it
SCHEMA = (
    "key binary, value binary, headers array<struct<key: string, value: binary>>, topic string, partition int, offset long, "
    "timestamp timestamp, timestampType int"
)
