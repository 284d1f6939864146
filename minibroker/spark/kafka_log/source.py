"""The data source `kafka-log` for PySpark: batches and streams over the files of a broker's log directory.

    from minibroker.spark.kafka_log.source import register

    register(spark)
    spark.read.format("kafka-log").option("subscribe", "flights").load("/var/lib/kafka/data")

Executors read the files themselves, so each needs the directory at the same path. The columns are those of
Spark's Kafka source. A schema of fewer columns (`.schema("value binary, offset long")`) is faster, since only
these are decoded. options.py lists the options.
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
from minibroker.spark.failures import OptionError
from minibroker.spark.kafka_log.options import ALWAYS, CORRUPT_RECORD, DDL, HEADERS, LogRange, ReadOptions, parse_options
from minibroker.spark.kafka_log.plan import StreamPlanner, plan
from minibroker.storage.files import RealFiles

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType


NAME = "kafka-log"


def register(spark: SparkSession) -> None:
    """Register the format `kafka-log` with a session."""
    spark.dataSource.register(KafkaLogDataSource)


def plan_reads(path: str, **options: str) -> list[LogRange]:
    """Return what a batch with these options would read, without Spark.

    Args:
        path: as for `load`: a log directory, several separated by commas, or the folder of a partition.
        options: of the data source; see docs/kafka-log.md.

    Returns:
        A LogRange for each task, with its files, positions and offsets.

    Raises:
        OptionError: an option is invalid, or offsets do not exist.
        CorruptLogError: an index is unreadable.
    """
    return plan(RealFiles(), parse_options({"path": path, **options}))


@dataclass
class LogPartition(InputPartition):
    """A LogRange that Spark sends to an executor."""

    value: LogRange


class KafkaLogDataSource(DataSource):
    """The format's entry point; Spark creates one object per load."""

    @classmethod
    def name(cls) -> str:
        """Return the name for `format`."""
        return NAME

    def schema(self) -> str:
        """Return the columns that the options request."""
        settle()
        options = parse_options(self.options)
        columns = [f"`{name}` {DDL[name]}" for name in ALWAYS]
        if options.include_headers:
            columns.append(f"`{HEADERS}` {DDL[HEADERS]}")
        if options.corrupt_column:
            columns.append(f"`{options.corrupt_column}` {DDL[CORRUPT_RECORD]}")
        return ", ".join(columns)

    def reader(self, schema: StructType) -> KafkaLogReader:
        """Return the reader of a batch."""
        settle()
        return KafkaLogReader(parse_options(self.options), _column_names(schema, parse_options(self.options)))

    def streamReader(self, schema: StructType) -> KafkaLogStreamReader:  # noqa: N802  Spark's name
        """Return the reader of a stream."""
        options = parse_options(self.options, is_streaming=True)
        return KafkaLogStreamReader(options, _column_names(schema, options))


def _column_names(schema: StructType, options: ReadOptions) -> tuple[str, ...]:
    """Return the columns of a schema, which may be the user's; OptionError for an unknown column, or one of another type."""
    for field in schema.fields:
        role = CORRUPT_RECORD if field.name == options.corrupt_column else field.name
        expected = DDL.get(role)
        if expected is None:
            raise OptionError(f"kafka-log has no column {field.name!r}; it has {', '.join((*ALWAYS, HEADERS))}")
        if field.dataType.simpleString() != _simple(expected):
            raise OptionError(f"column {field.name!r} is {_simple(expected)}, not {field.dataType.simpleString()}")
    return tuple(schema.names)


def _simple(ddl: str) -> str:
    """Return a type as Spark prints it."""
    return ddl.replace(": ", ":").replace(", ", ",").replace("long", "bigint")


class _Reading:
    """The part of readers that runs on executors, for batches and streams."""

    def __init__(self, options: ReadOptions, names: tuple[str, ...]) -> None:
        self._options = options
        self._names = names

    def read(self, partition: LogPartition | None) -> Iterator[pa.RecordBatch]:
        """Yield the records of one Spark partition. PySpark passes None, or an empty partition, if there are no partitions."""
        if partition is None or partition.value is None:
            return
        from minibroker.spark.kafka_log import columns, reader  # noqa: PLC0415  processes that return a schema or a plan need no Arrow

        settle()
        wanted = partition.value
        builder = columns.TableBuilder(wanted.topic, wanted.partition, self._names, self._options.corrupt_column)
        range_reader = reader.RangeReader(RealFiles(), wanted, builder, is_permissive=self._options.is_permissive)
        yield from range_reader.record_batches()


class KafkaLogReader(_Reading, DataSourceReader):  # type: ignore[misc]
    """A batch, planned once from the files as they are then."""

    def partitions(self) -> list[LogPartition]:
        """Return one partition per LogRange."""
        return [LogPartition(each) for each in plan(RealFiles(), self._options)]


class KafkaLogStreamReader(_Reading, DataSourceStreamReader):  # type: ignore[misc]
    """A stream that follows growing files. Offsets are {"topic": {"0": 23}}, as for Spark's Kafka source."""

    def __init__(self, options: ReadOptions, names: tuple[str, ...]) -> None:
        super().__init__(options, names)
        self._planner = StreamPlanner(RealFiles(), options)

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Return where a new query starts."""
        return self._planner.initial_offsets()

    # PySpark 4.2 prefers a form with the start and a limit, which 4.0 and 4.1 do not know.
    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override, unused-ignore]  # noqa: N802
        """Return where the next batch may end."""
        return self._planner.latest_offsets()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[LogPartition]:
        """Plan a batch of the stream.

        Args:
            start: offsets by topic and partition at which the batch starts.
            end: offsets at which it ends, exclusive.

        Returns:
            The parts of files between them, one for each task.
        """
        return [LogPartition(each) for each in self._planner.plan(start, end)]

    def __getstate__(self) -> dict[str, Any]:
        # executors only need the options
        return {"_options": self._options, "_names": self._names}


__all__ = ["NAME", "CorruptLogError", "KafkaError", "KafkaLogDataSource", "LogPartition", "OptionError", "plan_reads", "register"]


_settled_modules = 0


def settle() -> None:
    """Save this worker half a second of CPU before and after each task, where jars are many.

    * Before each task PySpark's worker empties the import caches. Up to Python 3.11 this lists every archive on the
      path again in Python code: those of PySpark and of Spark's core, and by default all jars of
      `spark.jars.packages`, with tens of thousands of files. Later versions list an archive at its first look-up.
      Removing the archives' finders saves that in all versions.
    * After each task the worker runs the garbage collector over all objects, and numba alone has half a million.
      Freezing them saves that; it is done again after more modules were imported.
    """
    global _settled_modules  # noqa: PLW0603  it is the process that settles
    if len(sys.modules) != _settled_modules:
        _settled_modules = len(sys.modules)
        gc.freeze()
    for path, finder in list(sys.path_importer_cache.items()):
        if isinstance(finder, zipimporter):
            del sys.path_importer_cache[path]
