"""The options of `kafka-log`: those of Spark's Kafka source, with the same names and meanings, and a few more.

subscribe, subscribePattern, assign                      which topics; by default all that are not internal
startingOffsets, endingOffsets                           earliest, latest, or JSON {"topic": {"0": 23, "1": -2}}: -2 earliest, -1 latest
startingOffsetsByTimestamp, endingOffsetsByTimestamp     the same JSON with epoch ms
startingTimestamp, endingTimestamp                       epoch ms for all partitions
startingOffsetsByTimestampStrategy                       error, latest: what to do if no record is at or after the start
isolationLevel (kafka.isolation.level)                   read_uncommitted, read_committed
includeHeaders                                           a column `headers`
failOnDataLoss                                           false: skip offsets that no longer exist
maxOffsetsPerTrigger                                     streams: the most offsets in a batch
checkpointLocation                                       streams: that of the query, so that it also limits the first batch after a restart
minPartitions                                            the least number of tasks, if files can be cut into as many parts
maxPartitionBytes                                        about how many bytes of files a task reads (128 MiB)
mode                                                     FAILFAST, PERMISSIVE: skip corrupt batches
columnNameOfCorruptRecord                                with PERMISSIVE: a column with a description of each corrupt batch
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from minibroker.spark.failures import OptionError

READ_COMMITTED = "read_committed"
READ_UNCOMMITTED = "read_uncommitted"
FAILFAST = "FAILFAST"
PERMISSIVE = "PERMISSIVE"


@dataclass(frozen=True, slots=True)
class LogSlice:
    """Whole batches of a `.log`: the bytes [start_position, end_position)."""

    path: str
    start_position: int
    end_position: int

    @property
    def size(self) -> int:
        """Bytes of the slice."""
        return self.end_position - self.start_position


@dataclass(frozen=True, slots=True)
class AbortedRange:
    """An aborted transaction: batches of this producer with a base offset from `first_offset` to `last_offset`."""

    producer_id: int
    first_offset: int
    last_offset: int


@dataclass(frozen=True, slots=True)
class LogRange:
    """The records with start_offset <= offset < end_offset in `slices` of a partition, without aborted ones."""

    topic: str
    partition: int
    start_offset: int
    end_offset: int
    slices: tuple[LogSlice, ...]
    aborted: tuple[AbortedRange, ...] = field(default=())

    @property
    def size(self) -> int:
        """Bytes of files."""
        return sum(each.size for each in self.slices)


HEADERS = "headers"
CORRUPT_RECORD = "_corrupt_record"  #: the column's name in this package; users choose their own

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


EARLIEST = -2
LATEST = -1
MAX_PARTITION_BYTES = 128 * 1024 * 1024  #: a task takes Spark about 50 ms before it reads anything
INTERNAL_TOPICS = frozenset({"__cluster_metadata", "__consumer_offsets", "__transaction_state", "__share_group_state"})

_NAMED_OFFSETS = {"earliest": EARLIEST, "latest": LATEST}


@dataclass(frozen=True, slots=True)
class Bound:
    """A start or an end: one number for all partitions, or one for each; epoch ms if `is_timestamp`, else offsets."""

    everywhere: int | None = None
    by_partition: Mapping[tuple[str, int], int] | None = None
    is_timestamp: bool = False


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The checked options."""

    paths: tuple[str, ...]
    topics: frozenset[str] | None
    pattern: str | None
    assigned: frozenset[tuple[str, int]] | None
    start: Bound
    end: Bound
    latest_when_no_timestamp: bool
    isolation_level: str
    include_headers: bool
    fail_on_data_loss: bool
    max_offsets_per_trigger: int | None
    checkpoint_location: str | None
    min_partitions: int
    max_partition_bytes: int
    mode: str
    corrupt_column: str | None

    @property
    def is_committed(self) -> bool:
        """Whether to skip aborted and open transactions."""
        return self.isolation_level == READ_COMMITTED

    @property
    def is_permissive(self) -> bool:
        """Whether to skip corrupt batches."""
        return self.mode == PERMISSIVE

    def wants(self, topic: str, partition: int) -> bool:
        """Return whether to read a partition."""
        if self.assigned is not None:
            return (topic, partition) in self.assigned
        if self.topics is not None:
            return topic in self.topics
        if self.pattern is not None:
            return re.fullmatch(self.pattern, topic) is not None
        return topic not in INTERNAL_TOPICS


def parse_options(spark_options: Mapping[str, str], *, is_streaming: bool = False) -> ReadOptions:
    """Parse the options from Spark, whose names are in any case; OptionError for an invalid one."""
    options = {name.lower(): value for name, value in spark_options.items()}
    if not options.get("path"):
        raise OptionError('kafka-log reads a directory: load("/var/lib/kafka/data")')
    chosen = [name for name in ("subscribe", "subscribepattern", "assign") if name in options]
    if len(chosen) > 1:
        raise OptionError(f"give only one of {' and '.join(chosen)}")
    strategy = _one_of(options, "startingOffsetsByTimestampStrategy", "error", ("error", "latest"))
    isolation = options.get("isolationlevel", options.get("kafka.isolation.level", READ_UNCOMMITTED)).lower()
    if isolation not in {READ_COMMITTED, READ_UNCOMMITTED}:
        raise OptionError(f"isolationLevel is {isolation!r}, neither {READ_COMMITTED} nor {READ_UNCOMMITTED}")
    mode = _one_of(options, "mode", FAILFAST, (FAILFAST, PERMISSIVE))
    corrupt_column = options.get("columnnameofcorruptrecord")
    if corrupt_column and mode != PERMISSIVE:
        raise OptionError("columnNameOfCorruptRecord needs mode=PERMISSIVE")
    start = _bound(options, "starting", "latest" if is_streaming else "earliest")
    end = _bound(options, "ending", "latest")
    if not is_streaming and start.everywhere == LATEST and not start.is_timestamp:
        raise OptionError("startingOffsets=latest leaves a batch nothing to read")
    if end.everywhere == EARLIEST and not end.is_timestamp:
        raise OptionError("endingOffsets=earliest leaves nothing to read")
    return ReadOptions(
        paths=tuple(path.strip().removeprefix("file://").rstrip("/") or "/" for path in options["path"].split(",")),
        topics=frozenset(name.strip() for name in options["subscribe"].split(",")) if "subscribe" in options else None,
        pattern=_pattern(options.get("subscribepattern")),
        assigned=_assigned(options.get("assign")),
        start=start,
        end=end,
        latest_when_no_timestamp=strategy == "latest",
        isolation_level=isolation,
        include_headers=_is_true(options, "includeHeaders", "false"),
        fail_on_data_loss=_is_true(options, "failOnDataLoss", "true"),
        max_offsets_per_trigger=_count(options, "maxOffsetsPerTrigger") or None,
        checkpoint_location=options.get("checkpointlocation") or None,
        min_partitions=_count(options, "minPartitions"),
        max_partition_bytes=_count(options, "maxPartitionBytes") or MAX_PARTITION_BYTES,
        mode=mode,
        corrupt_column=corrupt_column or None,
    )


def _one_of(options: Mapping[str, str], name: str, default: str, allowed: tuple[str, ...]) -> str:
    value = options.get(name.lower(), default)
    for each in allowed:
        if each.lower() == value.lower():
            return each
    raise OptionError(f"{name} is {value!r}; it can be {' or '.join(allowed)}")


def _is_true(options: Mapping[str, str], name: str, default: str) -> bool:
    return _one_of(options, name, default, ("true", "false")) == "true"


def _count(options: Mapping[str, str], name: str) -> int:
    text = options.get(name.lower(), "0")
    if not text.isdecimal():
        raise OptionError(f"{name} is {text!r}, not a whole number")
    return int(text)


def _pattern(text: str | None) -> str | None:
    if text is None:
        return None
    try:
        re.compile(text)
    except re.error as error:
        raise OptionError(f"subscribePattern {text!r} is not a regular expression: {error}") from None
    return text


def _assigned(text: str | None) -> frozenset[tuple[str, int]] | None:
    if text is None:
        return None
    found = _json("assign", text)
    if not all(isinstance(partitions, list) and all(_is_int(each) for each in partitions) for partitions in found.values()):
        raise OptionError(f'assign is {text}, not like {{"topic": [0, 1]}}')
    return frozenset((topic, partition) for topic, partitions in found.items() for partition in partitions)


def _bound(options: Mapping[str, str], side: str, default: str) -> Bound:
    """Return a start or an end from the first option given: a timestamp for all, timestamps, offsets."""
    name = f"{side}Timestamp"
    if name.lower() in options:
        text = options[name.lower()]
        if not text.strip().isdecimal():
            raise OptionError(f"{name} is {text!r}, not epoch milliseconds")
        return Bound(everywhere=int(text), is_timestamp=True)
    name = f"{side}OffsetsByTimestamp"
    if name.lower() in options:
        return Bound(by_partition=_numbers(name, options[name.lower()], least=0), is_timestamp=True)
    name = f"{side}Offsets"
    text = options.get(name.lower(), default)
    if text.strip().lower() in _NAMED_OFFSETS:
        return Bound(everywhere=_NAMED_OFFSETS[text.strip().lower()])
    return Bound(by_partition=_numbers(name, text, least=EARLIEST))


def _numbers(name: str, text: str, *, least: int) -> dict[tuple[str, int], int]:
    found = _json(name, text)
    numbers = {}
    for topic, partitions in found.items():
        if not isinstance(partitions, dict):
            raise OptionError(f'{name} is {text}, not like {{"{topic}": {{"0": 23}}}}')
        for partition, number in partitions.items():
            if not partition.isdecimal() or not _is_int(number) or number < least:
                raise OptionError(f"{name} has {number!r} for partition {partition!r} of {topic}")
            numbers[topic, int(partition)] = number
    return numbers


def _json(name: str, text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise OptionError(f"{name} is {text!r}, which is not a JSON object of topics")
    return found


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
