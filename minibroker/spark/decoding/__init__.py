"""Decode keys and values whose schemas are in a schema registry. See docs/decoding.md.

    column        from_registry(): a column of bytes -> a column of values, in batches and streams
    framing       the schema's id in front of a value, or in a header
    schemas       SchemaRegistry: schemas by subject and version, or by id
    json_types    JSON Schema -> types of Spark
    protobuf      .proto texts -> descriptors, and the places of a message in them

Spark decodes: `from_avro` of spark-avro, `from_protobuf` of spark-protobuf, and `from_json`. The driver asks the
registry when a query is planned; executors need neither the registry nor this package.
"""

from __future__ import annotations

from minibroker.spark.decoding.column import from_registry
from minibroker.spark.decoding.schemas import SchemaRegistry

__all__ = ["SchemaRegistry", "from_registry"]
