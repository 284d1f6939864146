"""The values of a report. docs/report.md explains the fields, which are the same in JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from minibroker.client.offsets import Bounds
from minibroker.client.routing import TopicPartition

DAY_MS = 86_400_000
HOUR_MS = 3_600_000
BUCKETS = {"day": DAY_MS, "hour": HOUR_MS}


@dataclass(frozen=True, slots=True)
class TimeOffset:
    """The first record at or after `timestamp`; None if there is none. Times in epoch ms."""

    timestamp: int
    offset: int | None
    found_timestamp: int | None


@dataclass(frozen=True, slots=True)
class Gap:
    """A run of offsets without a record, from first_offset to last_offset inclusive, with counts by reason."""

    first_offset: int
    last_offset: int
    control: int
    aborted: int
    compacted: int
    missing: int

    @property
    def size(self) -> int:
        """The number of offsets."""
        return self.last_offset - self.first_offset + 1


@dataclass(frozen=True, slots=True)
class Bucket:
    """The records of a day or hour in UTC that starts at `start` (2026-11-22, 2026-11-22T14); None: without a timestamp."""

    start: str | None
    records: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Contents:
    """The result of a scan of [start_offset, end_offset).

    Attributes:
        records, bytes: bytes of keys, values and headers.
        batches, batch_bytes: as stored, compressed and with headers.
        codecs: batches by codec.
        control, aborted, compacted, missing: offsets without a record, by reason.
        gap_count, gaps: runs of offsets without a record, and the longest of them.
        first_timestamp, last_timestamp, last_timestamp_offset: of records; None without records.
        buckets: records by day or hour.
        record_cells, aborted_cells: records, and offsets of aborted transactions, per `cell_size` offsets from
            start_offset on.
    """

    start_offset: int
    end_offset: int
    records: int
    bytes: int
    key_bytes: int
    value_bytes: int
    header_bytes: int
    batches: int
    batch_bytes: int
    codecs: dict[str, int]
    control: int
    aborted: int
    compacted: int
    missing: int
    gap_count: int
    gaps: tuple[Gap, ...]
    first_timestamp: int | None
    last_timestamp: int | None
    last_timestamp_offset: int | None
    buckets: tuple[Bucket, ...]
    cell_size: int
    record_cells: tuple[int, ...]
    aborted_cells: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ProducerInfo:
    """A producer that a partition knows; None for unknown values, and for no open transaction.

    `transactional_id` is None for a producer without transactions, and for one that no coordinator knows. An open
    transaction of the latter hangs.
    """

    producer_id: int
    producer_epoch: int
    last_sequence: int | None
    last_timestamp: int | None
    coordinator_epoch: int | None
    current_txn_start_offset: int | None
    transactional_id: str | None


@dataclass(frozen=True, slots=True)
class PartitionInfo:
    """A partition. Offsets are those of Kafka: log_start_offset <= last_stable_offset <= high_watermark <= log_end_offset.

    Attributes:
        leader: node id of the broker that leads it; None for a log directory.
        size: bytes of its segments on the leader's disk; None if the broker does not report it.
        max_timestamp, max_timestamp_offset: from ListOffsets, which includes markers.
        contents: None without a scan.
    """

    partition: int
    leader: int | None
    log_start_offset: int
    last_stable_offset: int
    high_watermark: int
    log_end_offset: int
    size: int | None
    max_timestamp: int | None
    max_timestamp_offset: int | None
    offsets_by_timestamp: tuple[TimeOffset, ...]
    contents: Contents | None
    producers: tuple[ProducerInfo, ...]

    @property
    def offsets(self) -> int:
        """The number of offsets, with or without a record."""
        return self.high_watermark - self.log_start_offset


@dataclass(frozen=True, slots=True)
class GroupOffset:
    """The committed offset of a group in a partition.

    `lag` is in offsets up to the high watermark; for a share group, the records still to be delivered. None if unknown.
    """

    group: str
    type: str | None
    state: str | None
    topic: str
    partition: int
    committed_offset: int
    lag: int | None


@dataclass(frozen=True, slots=True)
class TransactionInfo:
    """A transactional id that wrote to these topics, or has an open transaction in them. Times in epoch ms."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    state: str
    timeout_ms: int
    start_timestamp: int | None
    partitions: tuple[str, ...]  #: of the open transaction, as topic-partition, in all topics


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """A topic; if unknown, `topic_id` is "" and `is_compacted` None."""

    topic: str
    topic_id: str
    is_compacted: bool | None
    partitions: tuple[PartitionInfo, ...]

    @property
    def contents(self) -> tuple[Contents, ...]:
        """The contents of all its partitions; empty without a scan."""
        return tuple(each.contents for each in self.partitions if each.contents is not None)

    def by_bucket(self) -> dict[str | None, tuple[int, int]]:
        """Return records and bytes of all partitions by day or hour, sorted; records without a timestamp come first."""
        found: dict[str | None, tuple[int, int]] = {}
        for contents in self.contents:
            for bucket in contents.buckets:
                records, size = found.get(bucket.start, (0, 0))
                found[bucket.start] = (records + bucket.records, size + bucket.bytes)
        return dict(sorted(found.items(), key=lambda each: _order(each[0])))


@dataclass(frozen=True)
class ReportValues:
    """The values of a report.

    Attributes:
        source: the bootstrap servers, or the log directories.
        isolation_level: of the reader for whom records are counted.
        taken_at: epoch ms.
        bucket: day or hour.
        is_scanned: whether records were counted at all.
        notes: what is unknown, and why; one line each.
    """

    source: str
    cluster_id: str
    isolation_level: str
    taken_at: int
    bucket: str
    is_scanned: bool
    topics: tuple[TopicInfo, ...]
    groups: tuple[GroupOffset, ...]
    transactions: tuple[TransactionInfo, ...]
    notes: tuple[str, ...]


def time_text(timestamp: int) -> str:
    """Return epoch ms as 2026-11-22T14:03:00.123Z; years may have more than four digits."""
    try:
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=timestamp)
    except OverflowError:
        return f"{bucket_text(timestamp // HOUR_MS, HOUR_MS)}:{timestamp % HOUR_MS // 60_000:02}Z"
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def bucket_text(number: int, bucket_ms: int) -> str:
    """Return the day 2026-11-22, or the hour 2026-11-22T14, with this number since 1970; any year."""
    days, hours = divmod(number * bucket_ms // HOUR_MS, 24)
    year, month, day = civil_date(days)
    return f"{year:04}-{month:02}-{day:02}" + (f"T{hours:02}" if bucket_ms < DAY_MS else "")


def civil_date(days: int) -> tuple[int, int, int]:
    """Return year, month and day from days since 1970, in the proleptic Gregorian calendar (Howard Hinnant's algorithm)."""
    days += 719_468
    era, of_era = divmod(days, 146_097)
    year_of_era = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted = (5 * of_year + 2) // 153
    month = shifted + 3 if shifted < 10 else shifted - 9
    return year_of_era + era * 400 + (month <= 2), month, of_year - (153 * shifted + 2) // 5 + 1


def _order(start: str | None) -> tuple[int, str]:
    """Return a sort key; longer years come later."""
    return (0, "") if start is None else (len(start), start)


class Producer(NamedTuple):
    """A producer, as DescribeProducers returns it; -1 for unknown values, and for no open transaction."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    current_txn_start_offset: int


class PartitionFacts(NamedTuple):
    """The facts of one partition; see PartitionInfo."""

    leader: int | None
    bounds: Bounds
    size: int | None
    largest: TimeOffset | None
    by_time: tuple[TimeOffset, ...]
    producers: tuple[Producer, ...]


class Facts(NamedTuple):
    """All facts, by topic and partition. `compacted` has the topics whose configuration is known, or was found on disk."""

    partitions: Mapping[TopicPartition, PartitionFacts]
    transactions: tuple[TransactionInfo, ...]
    groups: tuple[GroupOffset, ...]
    compacted: Mapping[str, bool]
