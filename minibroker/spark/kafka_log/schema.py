"""The columns as Spark names and types them: those of its Kafka source. `columns` has Arrow's types for the same names."""

from __future__ import annotations

HEADERS = "headers"
CORRUPT_RECORD = "_corrupt_record"  #: what the column is called here; users give it a name of theirs

ALWAYS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")

DDL = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "long",
    "timestamp": "timestamp",
    "timestampType": "int",
    HEADERS: "array<struct<key: string, value: binary>>",
    CORRUPT_RECORD: "string",
}
