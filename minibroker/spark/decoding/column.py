"""`from_registry`: what `from_avro`, `from_protobuf` and `from_json` decode, with schemas of a registry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F  # noqa: N812  as PySpark's own documentation calls it
from pyspark.sql.avro import functions as avro
from pyspark.sql.protobuf import functions as protobuf

from minibroker.spark.decoding.framing import FramedColumn, encoded_indexes, prefixes
from minibroker.spark.decoding.json_types import json_type
from minibroker.spark.decoding.protobuf import compile_file
from minibroker.spark.decoding.schemas import AVRO, JSON, PROTOBUF, RegisteredSchema, SchemaRegistry
from minibroker.spark.failures import SourceError
from minibroker.spark.session import spark_package

FAILFAST: Final = "FAILFAST"
PERMISSIVE: Final = "PERMISSIVE"
#: of a subject, the newest; each has a part in the plan of the query
VERSIONS_MAX: Final = 200
#: package of Spark -> a class in it; the functions are in Spark itself
_PACKAGES: Final = {
    AVRO: ("spark-avro", "org.apache.spark.sql.avro.AvroDataToCatalyst"),
    PROTOBUF: ("spark-protobuf", "org.apache.spark.sql.protobuf.ProtobufDataToCatalyst"),
}


class _Writers(NamedTuple):
    """Schemas of records that the same expression decodes."""

    starts: list[bytes]  #: what their values start with
    decode: Any  #: a function from the payload to the value


def packages_of(schema_type: str) -> tuple[str, ...]:
    """Return the Maven packages that a session needs to decode this type of schemas."""
    return (spark_package(_PACKAGES[schema_type][0]),) if schema_type in _PACKAGES else ()


def from_registry(
    column: str | Column,
    registry: SchemaRegistry,
    subject: str | None = None,
    *,
    version: int | str = "latest",
    schema_id: int | None = None,
    message: str | None = None,
    mode: str = FAILFAST,
    headers: str | Column | None = None,
    options: Mapping[str, str] | None = None,
) -> Column:
    """Return the decoded values of a column of keys or values; null stays null.

    All values get the type of one version of the subject. Values of other versions are read by the schema that they
    were written with, and turned into that type as Avro, Protobuf and JSON do. Versions that are registered later are
    unknown to the query until it is created again.

    Args:
        column: of bytes that start with a schema's id.
        registry: is asked now, by the driver.
        subject: such as `orders-value`.
        version: of the subject, whose type the values get.
        schema_id: in place of a subject: all values must have this id.
        message: of Protobuf: the full name of a message. Default: the first one.
        mode: FAILFAST, or PERMISSIVE: values that cannot be decoded become null, or structs of nulls.
        headers: the column of headers, for clients that write the schema's GUID there. It is that of a key if `column` is "key".
        options: more options of `from_avro`, `from_protobuf` or `from_json`.

    Raises:
        ClientError: the registry does not answer, or has no such schema.
        SourceError: the schema cannot be used, or the session lacks a package.
    """
    if (subject is None) == (schema_id is None):
        raise SourceError("from_registry needs a subject, or a schema_id")
    if mode not in (FAILFAST, PERMISSIVE):
        raise SourceError(f"mode must be {FAILFAST} or {PERMISSIVE}, got {mode}")
    part = "key" if isinstance(column, str) and column == "key" else "value"
    framed = FramedColumn(_column(column), None if headers is None else _column(headers), part)
    if subject is None:
        reader = registry.get_schema(int(schema_id or 0))
        schemas = [reader]
    else:
        reader = registry.get_version(subject, version)
        schemas = [registry.get_version(subject, each) for each in registry.versions(subject)[-VERSIONS_MAX:]]
    _check(reader, schemas)
    settings = {"mode": mode, **(options or {})}
    return _decoded(framed, _column(column), _writers(registry, reader, schemas, message, settings), reader, mode)


def _check(reader: RegisteredSchema, schemas: Sequence[RegisteredSchema]) -> None:
    """Raise SourceError unless all schemas have the reader's type, and Spark can decode it."""
    other = next((each for each in schemas if each.schema_type != reader.schema_type), None)
    if other is not None:
        raise SourceError(f"{reader} is {reader.schema_type}, but version {other.version} is {other.schema_type}: give a schema_id")
    if reader.schema_type in _PACKAGES:
        _require(*_PACKAGES[reader.schema_type])
    elif reader.schema_type != JSON:
        raise SourceError(f"{reader} has the type {reader.schema_type}, which Spark cannot decode")


def _require(package: str, kind: str) -> None:
    """Raise SourceError if the session lacks a package of Spark."""
    spark = SparkSession.getActiveSession()
    if spark is None:
        raise SourceError("from_registry needs a session: call kafka_session() first")
    jvm: Any = spark._jvm  # noqa: SLF001  PySpark has no public way to ask for a class of Java
    loader = jvm.Thread.currentThread().getContextClassLoader()
    try:
        jvm.java.lang.Class.forName(kind, False, loader)
    except Exception as error:
        if "ClassNotFoundException" not in str(error):
            raise
        raise SourceError(
            f"the session lacks the package {package}: create it with kafka_session(packages=[{spark_package(package)!r}])"
        ) from None


def _writers(
    registry: SchemaRegistry,
    reader: RegisteredSchema,
    schemas: Sequence[RegisteredSchema],
    message: str | None,
    options: Mapping[str, str],
) -> list[_Writers]:
    if message is not None and reader.schema_type != PROTOBUF:
        raise SourceError(f"{reader} is {reader.schema_type}: only Protobuf has a message to choose")
    by_id = {each.schema_id: each for each in (*schemas, reader)}
    if reader.schema_type == AVRO:
        return _avro_writers(registry, reader, list(by_id.values()), options)
    if reader.schema_type == PROTOBUF:
        return [_protobuf_writers(registry, reader, list(by_id.values()), message, options)]
    kind = json_type(reader.text, registry.referenced(reader)).json()
    starts = [start for each in by_id.values() for start in prefixes(each)]
    return [_Writers(starts, lambda payload: F.from_json(payload.cast("string"), kind, dict(options)))]


def _avro_writers(
    registry: SchemaRegistry, reader: RegisteredSchema, schemas: Sequence[RegisteredSchema], options: Mapping[str, str]
) -> list[_Writers]:
    wanted = registry.resolved_text(reader)

    def writers(schema: RegisteredSchema) -> _Writers:
        text = registry.resolved_text(schema)
        return _Writers(prefixes(schema), lambda payload: avro.from_avro(payload, text, {"avroSchema": wanted, **options}))

    return [writers(each) for each in schemas]


def _protobuf_writers(
    registry: SchemaRegistry, reader: RegisteredSchema, schemas: Sequence[RegisteredSchema], message: str | None, options: Mapping[str, str]
) -> _Writers:
    """Return all writers as one: the reader's descriptor decodes any version, but the place of the message may differ."""
    compiled = {each.schema_id: compile_file(each.text, registry.referenced(each)) for each in schemas}
    wanted = compiled[reader.schema_id]
    name = message or next(iter(wanted.messages), "")
    if name not in wanted.messages:
        raise SourceError(f"{reader} has no message {name}: it has {', '.join(list(wanted.messages)[:20]) or 'none'}")
    starts: list[bytes] = []
    for each in schemas:
        path = compiled[each.schema_id].messages.get(name)
        if path is not None:
            starts += prefixes(each, encoded_indexes(path))
    settings = {"emit.default.values": "true", **options}
    return _Writers(starts, lambda payload: protobuf.from_protobuf(payload, name, options=settings, binaryDescriptorSet=wanted.descriptors))


def _decoded(framed: FramedColumn, column: Column, writers: Sequence[_Writers], reader: RegisteredSchema, mode: str) -> Column:
    found = F.when(column.isNull(), F.lit(None))
    for each in writers:
        found = found.when(framed.starts_with(each.starts), each.decode(framed.payload(each.starts)))
    if mode == PERMISSIVE:
        return found
    what = (
        f"the subject {reader.subject} had when the query was created: create it again, or check the subject" if reader.subject else reader
    )
    words = F.concat(F.lit("a value has "), framed.description(), F.lit(f", which is not one of those that {what}"))
    return found.otherwise(F.raise_error(words))


def _column(column: str | Column) -> Column:
    return F.col(column) if isinstance(column, str) else column
