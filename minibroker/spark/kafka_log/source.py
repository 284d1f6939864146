"""The data source `kafka-log` for PySpark: batches and streams over the files of a broker's log directory.

    from minibroker.spark.kafka_log import register

    register(spark)
    spark.read.format("kafka-log").option("subscribe", "flights").load("/var/lib/kafka/data")

Executors read the files themselves, so the directory must be there on each of them. Columns are those of Spark's Kafka source; with a
schema of fewer columns (`.schema("value binary, offset long")`) only these are made, which is faster. options.py lists the options.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from zipimport import zipimporter

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition

from minibroker.errors import CorruptLogError, KafkaError
from minibroker.spark.errors import OptionError
from minibroker.spark.kafka_log.options import ALWAYS, CORRUPT_RECORD, DDL, HEADERS, ReadOptions, parse_options
from minibroker.spark.kafka_log.plan import plan
from minibroker.spark.kafka_log.ranges import LogRange
from minibroker.spark.kafka_log.stream import StreamPlanner
from minibroker.storage.files import RealFiles

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType


NAME = "kafka-log"


def register(spark: SparkSession) -> None:
    """Make the format known to a session."""
    spark.dataSource.register(KafkaLogDataSource)


def plan_reads(path: str, **options: str) -> list[LogRange]:
    """What a batch read with these options would read, a LogRange for each task; needs no Spark. OptionError, CorruptLogError."""
    return plan(RealFiles(), parse_options({"path": path, **options}))


@dataclass
class LogPartition(InputPartition):
    """A LogRange on its way to an executor."""

    value: LogRange


class KafkaLogDataSource(DataSource):
    """The format's entry: Spark makes one for each load."""

    @classmethod
    def name(cls) -> str:
        """What `format` is given."""
        return NAME

    def schema(self) -> str:
        """The columns that the options ask for."""
        settle()
        options = parse_options(self.options)
        columns = [f"`{name}` {DDL[name]}" for name in ALWAYS]
        if options.include_headers:
            columns.append(f"`{HEADERS}` {DDL[HEADERS]}")
        if options.corrupt_column:
            columns.append(f"`{options.corrupt_column}` {DDL[CORRUPT_RECORD]}")
        return ", ".join(columns)

    def reader(self, schema: StructType) -> KafkaLogReader:
        """For a batch."""
        settle()
        return KafkaLogReader(parse_options(self.options), _column_names(schema, parse_options(self.options)))

    def streamReader(self, schema: StructType) -> KafkaLogStreamReader:  # noqa: N802  Spark's name
        """For a stream."""
        options = parse_options(self.options, is_streaming=True)
        return KafkaLogStreamReader(options, _column_names(schema, options))


def _column_names(schema: StructType, options: ReadOptions) -> tuple[str, ...]:
    """The columns of a schema, which may be the user's; OptionError for one that the source has not, or of another type."""
    for field in schema.fields:
        role = CORRUPT_RECORD if field.name == options.corrupt_column else field.name
        expected = DDL.get(role)
        if expected is None:
            raise OptionError(f"kafka-log has no column {field.name!r}; it has {', '.join((*ALWAYS, HEADERS))}")
        if field.dataType.simpleString() != _simple(expected):
            raise OptionError(f"column {field.name!r} is {_simple(expected)}, not {field.dataType.simpleString()}")
    return tuple(schema.names)


def _simple(ddl: str) -> str:
    """As Spark prints a type."""
    return ddl.replace(": ", ":").replace(", ", ",").replace("long", "bigint")


class _Reading:
    """What batches and streams share: the work of executors."""

    def __init__(self, options: ReadOptions, names: tuple[str, ...]) -> None:
        self._options = options
        self._names = names

    def read(self, partition: LogPartition | None) -> Iterator[pa.RecordBatch]:
        """The records of one partition of Spark's; None: there is nothing to read."""
        if partition is None:
            return
        # Only executors decode: the processes that Spark starts to ask for a schema or a plan are spared numba and Arrow.
        from minibroker.spark.kafka_log import columns, reader  # noqa: PLC0415  only executors decode

        settle()
        wanted = partition.value
        builder = columns.TableBuilder(wanted.topic, wanted.partition, self._names, self._options.corrupt_column)
        range_reader = reader.RangeReader(RealFiles(), wanted, builder, is_permissive=self._options.is_permissive)
        yield from range_reader.record_batches()


class KafkaLogReader(_Reading, DataSourceReader):  # type: ignore[misc]
    """A batch: planned once, from what the files say then."""

    def partitions(self) -> list[LogPartition]:
        """One for each LogRange."""
        return [LogPartition(each) for each in plan(RealFiles(), self._options)]


class KafkaLogStreamReader(_Reading, DataSourceStreamReader):  # type: ignore[misc]
    """A stream: follows files that grow. Offsets are {"topic": {"0": 23}}, as those of the Kafka source."""

    def __init__(self, options: ReadOptions, names: tuple[str, ...]) -> None:
        super().__init__(options, names)
        self._planner = StreamPlanner(RealFiles(), options)

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Where a new query begins."""
        return self._planner.initial_offsets()

    def latestOffset(self) -> dict[str, Any]:  # noqa: N802
        """Where the next batch may end."""
        return self._planner.latest_offsets()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[LogPartition]:
        """The parts of files between two offsets."""
        return [LogPartition(each) for each in self._planner.plan(start, end)]

    def __getstate__(self) -> dict[str, Any]:
        # Executors get the reader for its options alone.
        return {"_options": self._options, "_names": self._names}


__all__ = ["NAME", "CorruptLogError", "KafkaError", "KafkaLogDataSource", "LogPartition", "OptionError", "plan_reads", "register"]


_settled_modules = 0


def settle() -> None:
    """Spare this process both, when modules were imported since the last call."""
    global _settled_modules  # noqa: PLW0603  it is the process that settles
    if len(sys.modules) != _settled_modules:
        _settled_modules = len(sys.modules)
        gc.freeze()
    for path, finder in list(sys.path_importer_cache.items()):
        if isinstance(finder, zipimporter):
            del sys.path_importer_cache[path]
