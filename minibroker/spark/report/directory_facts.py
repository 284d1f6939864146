"""Read from a broker's files what brokers know without a scan (cluster_facts), as far as it is on disk.

Bounds come from segments and checkpoints, producers from the newest snapshot and the batches after it, groups
from `__consumer_offsets` and transactions from `__transaction_state` in the same directories. Only brokers know
the states of groups and the offsets of share groups.

A record of a committed offset applies immediately, or from the commit marker of its transaction; an abort marker drops it. Of two
commits for one partition, the later record applies. Source: OffsetMetadataManager, TransactionLog of Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

from minibroker.client.offsets import MAX_TIMESTAMP, Bounds
from minibroker.client.routing import TopicPartition
from minibroker.errors import CorruptLogError, KafkaError, WireError
from minibroker.records.any_format import decode_records, read_batch
from minibroker.records.batch import NO_PRODUCER_ID, NO_SEQUENCE, RecordBatch
from minibroker.records.control import ControlType, read_marker
from minibroker.records.record import Record
from minibroker.schemas.internal.consumer_group_records import ConsumerGroupMetadataKey
from minibroker.schemas.internal.offset_records import GroupMetadataKey, LegacyOffsetCommitKey, OffsetCommitKey
from minibroker.schemas.internal.share_group_records import ShareGroupMetadataKey
from minibroker.schemas.internal.streams_group_records import StreamsGroupMetadataKey
from minibroker.schemas.internal.transaction_records import TransactionLogValue
from minibroker.spark.failures import OptionError
from minibroker.spark.kafka_log.directory import last_stable_offset, open_folders
from minibroker.spark.kafka_log.folder import PartitionFolder, SegmentFile
from minibroker.spark.kafka_log.options import parse_options
from minibroker.spark.report.results import Facts, GroupOffset, PartitionFacts, Producer, TimeOffset, TransactionInfo
from minibroker.storage import producer_snapshot
from minibroker.storage.batch_scan import read_batches
from minibroker.storage.checkpoint_file import CLEANER_OFFSET, OffsetCheckpoint
from minibroker.storage.files import Files, read_all
from minibroker.storage.log_file_names import SNAPSHOT, file_name
from minibroker.storage.producer_snapshot import ProducerEntry
from minibroker.storage.record_frame import CONSUMER_OFFSETS, TRANSACTION_STATE, CoordinatorRecord, RecordFrame

CONSUMER_OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTION_STATE_TOPIC = "__transaction_state"
CLASSIC = "classic"
#: type of the key of a group's own record -> type of the group as ListGroups spells it
_GROUP_TYPES: dict[type[Any], str] = {
    GroupMetadataKey: CLASSIC,
    ConsumerGroupMetadataKey: "consumer",
    ShareGroupMetadataKey: "share",
    StreamsGroupMetadataKey: "streams",
}
#: `transaction_status` of a record as DescribeTransactions spells it
_TRANSACTION_STATES = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Dead",
    "PrepareEpochFence",
)
T = TypeVar("T")


class CommittedOffset(NamedTuple):
    """An offset that a group has committed."""

    group: str
    group_type: str
    partition: TopicPartition
    offset: int


def committed_offsets(batches: Iterable[RecordBatch]) -> list[CommittedOffset]:
    """Return the offsets that one partition of `__consumer_offsets` holds; commits of open transactions do not count yet."""
    committed: dict[tuple[str, TopicPartition], tuple[int, int]] = {}  #: record offset and committed offset
    pending: dict[int, dict[tuple[str, TopicPartition], tuple[int, int]]] = {}  #: by producer id
    group_types: dict[str, str] = {}
    for batch in batches:
        if batch.is_control:
            marker = read_marker(batch)
            offsets = pending.pop(batch.producer_id, {}) if marker is not None else {}
            if marker is not None and marker.control_type is ControlType.COMMIT:
                committed.update({place: found for place, found in offsets.items() if found > committed.get(place, (-1, 0))})
            continue
        store = committed
        if batch.is_transactional and batch.producer_id != NO_PRODUCER_ID:
            store = pending.setdefault(batch.producer_id, {})
        for offset, (key, value, _) in _decoded(batch, CONSUMER_OFFSETS):
            if isinstance(key, OffsetCommitKey | LegacyOffsetCommitKey):
                place = key.group, (key.topic, key.partition)
                if value is None:
                    for each in (committed, *pending.values()):
                        each.pop(place, None)
                else:
                    store[place] = offset, value.offset
            elif type(key) in _GROUP_TYPES:
                group = key.group if isinstance(key, GroupMetadataKey) else key.group_id
                if value is not None:
                    group_types[group] = _GROUP_TYPES[type(key)]
                elif group_types.get(group) == _GROUP_TYPES[type(key)]:
                    del group_types[group]
    return [CommittedOffset(group, group_types.get(group, CLASSIC), partition, found[1]) for (group, partition), found in committed.items()]


def transactions(partitions: Iterable[Iterable[RecordBatch]]) -> dict[str, TransactionInfo]:
    """Return the latest state of each transactional id from the partitions of `__transaction_state`; a tombstone removes an id."""
    latest: dict[str, TransactionInfo] = {}
    for batch in (batch for batches in partitions for batch in batches if not batch.is_control):
        for _, (key, value, _) in _decoded(batch, TRANSACTION_STATE):
            latest.pop(key.transactional_id, None)
            if value is not None:
                latest[key.transactional_id] = _transaction(key.transactional_id, value)
    return latest


def _decoded(batch: RecordBatch, frame: RecordFrame) -> Iterator[tuple[int, CoordinatorRecord]]:
    """Yield the offset and the content of each record of a known type."""
    for record in decode_records(batch):
        decoded = frame.decode(record.key, record.value)
        if decoded is not None:
            yield record.offset, decoded


def _transaction(transactional_id: str, value: TransactionLogValue) -> TransactionInfo:
    start = value.transaction_start_timestamp_ms
    if not 0 <= value.transaction_status < len(_TRANSACTION_STATES):
        raise WireError(f"transactional id {transactional_id} has the unknown state {value.transaction_status}")
    partitions = [f"{each.topic}-{index}" for each in value.transaction_partitions or () for index in each.partition_ids]
    return TransactionInfo(
        transactional_id,
        value.producer_id,
        value.producer_epoch,
        _TRANSACTION_STATES[value.transaction_status],
        value.transaction_timeout_ms,
        None if start < 0 else start,
        tuple(sorted(partitions)),
    )


class DirectoryFacts:
    """Collects the facts of log directories; `notes` list what they lack."""

    def __init__(self, files: Files, path: str, *, is_committed: bool) -> None:
        self._files = files
        self._path = path
        self._is_committed = is_committed
        self.notes: list[str] = []

    def collect(self, keys: Sequence[TopicPartition], times: Sequence[int]) -> Facts:
        """Return the facts of these partitions. SourceError, CorruptLogError."""
        reported = set(keys)
        names = ",".join(sorted({topic for topic, _ in keys}))
        folders = {(each.topic, each.partition): each for each in self._folders(names) if (each.topic, each.partition) in reported}
        partitions = {key: self._partition(folders[key], times) for key in keys}
        producer_ids = {producer.producer_id for each in partitions.values() for producer in each.producers}
        ends = {key: each.bounds.high_watermark for key, each in partitions.items()}
        return Facts(
            partitions=partitions,
            transactions=self._optional("transactions", lambda: self._transactions(reported, producer_ids)) or (),
            groups=self._optional("groups", lambda: self._groups(ends)) or (),
            compacted=self._cleaned({topic for topic, _ in keys}),
        )

    def _optional(self, what: str, read: Callable[[], T]) -> T | None:
        try:
            return read()
        except (CorruptLogError, KafkaError, WireError) as error:
            self.notes.append(f"{what} are unknown: {error}")
            return None

    def _folders(self, topics: str) -> list[PartitionFolder]:
        return open_folders(self._files, parse_options({"path": self._path, "subscribe": topics}))

    def _partition(self, folder: PartitionFolder, times: Sequence[int]) -> PartitionFacts:
        end, stable = folder.end.offset, last_stable_offset(folder)
        limit = stable if self._is_committed else end
        return PartitionFacts(
            leader=None,
            bounds=Bounds(folder.log_start_offset, stable, end, end),
            size=sum(segment.size for segment in folder.segments),
            largest=_largest(folder),
            by_time=tuple(_by_time(folder, time, limit) for time in times),
            producers=_producers(folder),
        )

    def _cleaned(self, topics: set[str]) -> dict[str, bool]:
        """Return which topics a broker has compacted, from its checkpoints."""
        cleaned: set[str] = set()
        for path in self._path.split(","):
            with suppress(CorruptLogError):
                cleaned |= {topic for topic, _ in OffsetCheckpoint(self._files, f"{path.strip().rstrip('/')}/{CLEANER_OFFSET}").read()}
        return {topic: topic in cleaned for topic in topics}

    def _internal(self, topic: str) -> Iterator[list[RecordBatch]]:
        """Yield the batches of each partition of an internal topic, if the directories have it."""
        try:
            folders = self._folders(topic)
        except OptionError:
            return  # it does not exist yet, or `path` is one partition's folder
        for folder in folders:
            yield [batch for segment in folder.segments for batch in _batches(folder, segment, 0)]
            folder.close()

    def _groups(self, ends: Mapping[TopicPartition, int]) -> tuple[GroupOffset, ...]:
        found = [
            GroupOffset(each.group, each.group_type, None, *each.partition, each.offset, ends[each.partition] - each.offset)
            for batches in self._internal(CONSUMER_OFFSETS_TOPIC)
            for each in committed_offsets(batches)
            if each.partition in ends
        ]
        return tuple(sorted(found, key=lambda each: (each.group, each.topic, each.partition)))

    def _transactions(self, keys: set[TopicPartition], producer_ids: set[int]) -> tuple[TransactionInfo, ...]:
        names = {f"{topic}-{partition}" for topic, partition in keys}
        return tuple(
            each
            for _, each in sorted(transactions(self._internal(TRANSACTION_STATE_TOPIC)).items())
            if each.producer_id in producer_ids or not names.isdisjoint(each.partitions)
        )


def _batches(folder: PartitionFolder, segment: SegmentFile, position: int) -> Iterator[RecordBatch]:
    try:
        yield from read_batches(folder.files, segment.handle, position, folder.end_of(segment))
    except KafkaError as error:
        raise CorruptLogError(str(error)) from error


def _producers(folder: PartitionFolder) -> tuple[Producer, ...]:
    """Return the producers of the newest readable snapshot, with what the batches after it changed, by id."""
    producers: dict[int, Producer] = {}
    begin = folder.log_start_offset
    for offset in reversed([each for each in folder.snapshot_offsets if folder.log_start_offset <= each <= folder.end.offset]):
        with suppress(CorruptLogError, FileNotFoundError):
            entries = producer_snapshot.decode(read_all(folder.files, f"{folder.directory}/{file_name(offset, SNAPSHOT)}"))
            producers = {each.producer_id: _snapshot_producer(each) for each in entries}
            begin = offset
            break
    for segment in folder.segments_from(begin):
        for batch in _batches(folder, segment, segment.start_for(begin) if begin > segment.base_offset else 0):
            if batch.producer_id != NO_PRODUCER_ID and batch.base_offset >= begin:
                after = _after(producers.get(batch.producer_id), batch)
                if after is not None:
                    producers[batch.producer_id] = after
    return tuple(producer for _, producer in sorted(producers.items()))


def _snapshot_producer(entry: ProducerEntry) -> Producer:
    last_sequence = entry.last_sequence if entry.last_offset >= 0 else NO_SEQUENCE
    return Producer(
        entry.producer_id, entry.producer_epoch, last_sequence, entry.timestamp, entry.coordinator_epoch, entry.current_txn_first_offset
    )


def _after(producer: Producer | None, batch: RecordBatch) -> Producer | None:
    """Return the state of a batch's producer after the batch. A new producer epoch starts without a sequence."""
    before = producer or Producer(batch.producer_id, batch.producer_epoch, NO_SEQUENCE, -1, -1, -1)
    last_sequence = before.last_sequence if before.producer_epoch == batch.producer_epoch else NO_SEQUENCE
    if batch.is_control:
        marker = read_marker(batch)
        if marker is None:  # compaction took its record, and the whole transaction with it
            return producer
        return Producer(batch.producer_id, batch.producer_epoch, last_sequence, batch.max_timestamp, marker.coordinator_epoch, -1)
    first_offset = before.current_txn_start_offset
    return before._replace(
        producer_epoch=batch.producer_epoch,
        last_sequence=batch.last_sequence,
        last_timestamp=batch.max_timestamp,
        current_txn_start_offset=batch.base_offset if batch.is_transactional and first_offset < 0 else first_offset,
    )


def _by_time(folder: PartitionFolder, time: int, limit: int) -> TimeOffset:
    offset = folder.offset_for_timestamp(time, limit)
    record = None if offset is None else _record_at(folder, offset)
    return TimeOffset(time, offset, None if record is None else record.timestamp)


def _record_at(folder: PartitionFolder, offset: int) -> Record | None:
    for segment in folder.segments_from(offset):
        for header in segment.headers(segment.start_for(offset), folder.end_of(segment)):
            if header.last_offset >= offset:
                batch = read_batch(folder.files.read_at(segment.handle.opened(), header.size, header.position))
                return next((record for record in decode_records(batch) if record.offset == offset), None)
    return None


def _largest(folder: PartitionFolder) -> TimeOffset:
    """Return the first record with the largest timestamp in the log, as ListOffsets does; markers count as well."""
    nothing = TimeOffset(MAX_TIMESTAMP, None, None)
    best: tuple[int, SegmentFile] | None = None
    for segment in folder.segments_from(folder.log_start_offset):
        known = (
            segment.largest_timestamp() if segment is not folder.segments[-1] and segment.base_offset >= folder.log_start_offset else None
        )
        timestamp = known.timestamp if known else _largest_header(folder, segment)
        if timestamp >= 0 and (best is None or timestamp > best[0]):
            best = (timestamp, segment)
    if best is None:
        return nothing
    timestamp, segment = best
    for header in segment.headers(0, folder.end_of(segment)):
        if header.max_timestamp == timestamp and header.last_offset >= folder.log_start_offset:
            batch = read_batch(folder.files.read_at(segment.handle.opened(), header.size, header.position))
            for record in decode_records(batch):
                if record.timestamp == timestamp and record.offset >= folder.log_start_offset:
                    return TimeOffset(MAX_TIMESTAMP, record.offset, timestamp)
    return nothing


def _largest_header(folder: PartitionFolder, segment: SegmentFile) -> int:
    headers = segment.headers(0, folder.end_of(segment))
    return max((each.max_timestamp for each in headers if each.last_offset >= folder.log_start_offset), default=-1)
