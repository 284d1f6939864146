"""The ledger of a replay: a topic with its runs and the mapping of old to new offsets, and the replay's names in the cluster.

    key       value (JSON)
    run       {"run": 3, "id": "...", "begun_ms": ..., "source": "...", "resumable": true, "selection": {...}, "topics": {"flights": id}}
    ranges    {"run": 3, "topic": "flights-again", "partition": 0, "source_topic": "flights", "source_partition": 0,
               "next_offset": 123, "bytes": 4711, "ranges": [[old_first, new_first, records], ...]}

The ranges of a transaction are written inside it, so readers of committed records see ranges and records
together. `next_offset` is the old offset with which the next transaction begins; if a transaction has several
values, it is null in all but the last.

Old offsets have gaps (markers, aborted or compacted records), and new offsets have gaps at markers. Therefore ranges
are runs in which both grow by one. Transactional ids contain `/`, which topics and names of replays cannot contain.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import NamedTuple

import numpy as np

from minibroker.client.client import Client
from minibroker.client.consumer import Consumer
from minibroker.client.offsets import EARLIEST, LATEST, READ_COMMITTED, list_offsets
from minibroker.client.routing import TopicPartition
from minibroker.errors import KafkaError
from minibroker.spark.failures import ReplayError

PREFIX = "minibroker-replay-"
_NAME = re.compile(r"[a-zA-Z0-9._-]{1,200}")
LEDGER_PARTITION = 0


def check_name(name: str) -> None:
    """Raise ReplayError for a name that cannot be part of a topic name."""
    if not _NAME.fullmatch(name):
        raise ReplayError(f"the replay's name must be 1 to 200 letters, digits, '.', '_' and '-', got {name!r}")


def group_of(name: str) -> str:
    """Return the group that commits the progress of target partitions."""
    return PREFIX + name


def ledger_of(name: str) -> str:
    """Return the topic of the runs and of the offset mapping."""
    return PREFIX + name


def transactional_id(name: str, topic: str = "", partition: int = 0) -> str:
    """Return the transactional id of a target partition's producer; without a topic, of the driver."""
    return f"{PREFIX}{name}/{topic}/{partition}" if topic else f"{PREFIX}{name}/"


RUN = b"run"
RANGES = b"ranges"
RUNS_IN_ONE_VALUE = 10_000  #: keeps a value far below 1 MB, the default limit of topics
POLL_MS = 500

#: the schema of `ranges` for Spark's from_json
RANGES_SCHEMA = (
    "run long, topic string, partition int, source_topic string, source_partition int, next_offset long, bytes long, "
    "ranges array<array<long>>"
)


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a replay.

    Attributes:
        run: 1, 2, 3 and so on.
        id: unique; tasks of an earlier run find another id and stop.
        begun_ms: epoch ms.
        source: the source as text.
        resumable: whether the records have offsets.
        selection: must be the same in each run of a name.
        topics: ids of the target topics by name; "" if the broker is too old.
        sources: ids of the source topics by name; only archives have them.
    """

    run: int
    id: str
    begun_ms: int
    source: str
    resumable: bool
    selection: Mapping[str, str]
    topics: Mapping[str, str]
    sources: Mapping[str, str] = field(default_factory=dict)

    def value(self) -> bytes:
        """Return the value for the ledger."""
        return json.dumps(asdict(self)).encode()


class WrittenRanges(NamedTuple):
    """The ranges of a transaction, or of a part of it, in one value."""

    run: int
    key: TopicPartition  #: the target
    source: TopicPartition
    next_offset: int | None
    byte_count: int
    runs: Sequence[OffsetRun]

    def values(self) -> list[bytes]:
        """Return the values for the ledger: one, or several if there are many runs."""
        starts = range(0, max(1, len(self.runs)), RUNS_IN_ONE_VALUE)
        return [self._value(start, is_last=start == starts[-1]) for start in starts]

    def _value(self, start: int, *, is_last: bool) -> bytes:
        value = {
            "run": self.run,
            "topic": self.key[0],
            "partition": self.key[1],
            "source_topic": self.source[0],
            "source_partition": self.source[1],
            "next_offset": self.next_offset if is_last else None,
            "bytes": self.byte_count if is_last else 0,
            "ranges": self.runs[start : start + RUNS_IN_ONE_VALUE],
        }
        return json.dumps(value, separators=(",", ":")).encode()


@dataclass(slots=True)
class WrittenPartition:
    """Totals of one target partition, for one run or several."""

    source: TopicPartition
    old_first: int
    old_last: int
    new_first: int
    new_last: int
    records: int = 0
    byte_count: int = 0
    next_offset: int = 0


@dataclass(slots=True)
class Ledger:
    """The part of the ledger that was read so far."""

    runs: list[Run] = field(default_factory=list)
    by_run: dict[int, dict[TopicPartition, WrittenPartition]] = field(default_factory=dict)
    position: int | None = None  #: the next offset to read; None before the first read

    def next_offsets(self) -> dict[TopicPartition, int]:
        """Return the old offset from which each target partition continues."""
        found: dict[TopicPartition, int] = {}
        for written in self.by_run.values():
            for key, each in written.items():
                found[key] = max(found.get(key, 0), each.next_offset)
        return found

    def totals(self) -> dict[TopicPartition, int]:
        """Return the records that all runs wrote to each target partition."""
        found: dict[TopicPartition, int] = {}
        for written in self.by_run.values():
            for key, each in written.items():
                found[key] = found.get(key, 0) + each.records
        return found

    def read_on(self, client: Client, topic: str) -> None:
        """Read what was committed since the last call. End open transactions before: they hide later records."""
        for key, value in _committed_values(client, topic, self):
            if key == RUN:
                self.runs.append(Run(**json.loads(value)))
            elif key == RANGES:
                self.note(parse_ranges(value))

    def note(self, ranges: WrittenRanges) -> None:
        """Add the ranges of a value to the totals."""
        written = self.by_run.setdefault(ranges.run, {})
        for old_first, new_first, records in ranges.runs:
            found = written.get(ranges.key)
            if found is None:
                found = written[ranges.key] = WrittenPartition(ranges.source, old_first, old_first, new_first, new_first)
            found.old_last = old_first + records - 1
            found.new_last = new_first + records - 1
            found.records += records
        if ranges.key in written:
            written[ranges.key].byte_count += ranges.byte_count
            written[ranges.key].next_offset = ranges.next_offset or written[ranges.key].next_offset


def parse_ranges(value: bytes) -> WrittenRanges:
    """Parse one value of `ranges`."""
    found = json.loads(value)
    return WrittenRanges(
        found["run"],
        (found["topic"], found["partition"]),
        (found["source_topic"], found["source_partition"]),
        found["next_offset"],
        found["bytes"],
        [OffsetRun(*run) for run in found["ranges"]],
    )


def _committed_values(client: Client, topic: str, ledger: Ledger) -> Iterator[tuple[bytes | None, bytes]]:
    """Yield keys and values from the ledger's position up to the committed end; move the position."""
    start = _offset(client, topic, EARLIEST) if ledger.position is None else ledger.position
    end = _offset(client, topic, LATEST)
    consumer = Consumer(client, topic, {LEDGER_PARTITION: start}, isolation=READ_COMMITTED)
    while consumer.positions[LEDGER_PARTITION] < end:
        for _, _, _, record in consumer.poll(POLL_MS):
            yield record.key, record.value or b""
    ledger.position = consumer.positions[LEDGER_PARTITION]


def _offset(client: Client, topic: str, time: int) -> int:
    key = topic, LEDGER_PARTITION
    found = list_offsets(client, {key: time}, isolation=READ_COMMITTED)[key]
    if isinstance(found, KafkaError):
        raise found
    return found.offset


class OffsetRun(NamedTuple):
    """Records old_first to old_first + records - 1 became new_first to new_first + records - 1."""

    old_first: int
    new_first: int
    records: int


def runs_of(old_offsets: np.ndarray, new_first: int) -> list[OffsetRun]:
    """Return the runs of records with ascending old offsets and the new offsets new_first, new_first + 1 and so on."""
    breaks = np.flatnonzero(np.diff(old_offsets) != 1) + 1
    starts = [0, *breaks.tolist()]
    stops = [*breaks.tolist(), len(old_offsets)]
    return [OffsetRun(int(old_offsets[start]), new_first + start, stop - start) for start, stop in zip(starts, stops, strict=True)]


def joined(runs: Iterable[OffsetRun]) -> list[OffsetRun]:
    """Join ordered runs to as few as possible."""
    found: list[OffsetRun] = []
    for run in runs:
        last = found[-1] if found else None
        if last and last.old_first + last.records == run.old_first and last.new_first + last.records == run.new_first:
            found[-1] = last._replace(records=last.records + run.records)
        else:
            found.append(run)
    return found
