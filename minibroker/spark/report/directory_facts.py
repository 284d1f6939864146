"""What the files of a broker tell without a scan, and without the broker: the same as brokers do (cluster_facts), as far as it is on disk.

Bounds come from segments and checkpoints, producers from the newest snapshot and the batches behind it, groups from `__consumer_offsets`
and transactions from `__transaction_state` in the same directories. Of groups only brokers know the state, of share groups the offsets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TypeVar

from minibroker.client.leaders import TopicPartition
from minibroker.client.offsets import MAX_TIMESTAMP, Bounds
from minibroker.cluster.topic import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from minibroker.coordinator.group.shard import Shard
from minibroker.coordinator.record_frame import CONSUMER_OFFSETS, TRANSACTION_STATE
from minibroker.coordinator.transaction.metadata import TransactionState
from minibroker.errors import CorruptLogError, KafkaError, WireError
from minibroker.log.producer_state import ProducerState, read_marker
from minibroker.records.batch import NO_PRODUCER_ID, RecordBatch, read_batch
from minibroker.records.control import ControlType
from minibroker.records.record import Record, decode_records
from minibroker.spark.errors import OptionError
from minibroker.spark.kafka_log.directory import open_folders
from minibroker.spark.kafka_log.folder import PartitionFolder, SegmentFile
from minibroker.spark.kafka_log.options import parse_options
from minibroker.spark.kafka_log.transactions import last_stable_offset
from minibroker.spark.report.facts import Facts, PartitionFacts, Producer
from minibroker.spark.report.results import GroupOffset, TimeOffset, TransactionInfo
from minibroker.storage import producer_snapshot
from minibroker.storage.batch_scan import read_batches
from minibroker.storage.files import Files, read_all
from minibroker.storage.log_file_names import SNAPSHOT, file_name
from minibroker.storage.offset_checkpoint import CLEANER_OFFSET, OffsetCheckpoint

T = TypeVar("T")

EXPIRATION_MS = 86_400_000  #: producer.id.expiration.ms; nothing here expires


class DirectoryFacts:
    """Reads log directories; `notes` are what is not to be had there."""

    def __init__(self, files: Files, path: str, *, is_committed: bool) -> None:
        self._files = files
        self._path = path
        self._is_committed = is_committed
        self.notes: list[str] = []

    def collect(self, keys: Sequence[TopicPartition], times: Sequence[int]) -> Facts:
        """All of these partitions. SourceError, CorruptLogError."""
        wanted = set(keys)
        names = ",".join(sorted({topic for topic, _ in keys}))
        folders = {(each.topic, each.partition): each for each in self._folders(names) if (each.topic, each.partition) in wanted}
        partitions = {key: self._partition(folders[key], times) for key in keys}
        producer_ids = {producer.producer_id for each in partitions.values() for producer in each.producers}
        ends = {key: each.bounds.high_watermark for key, each in partitions.items()}
        return Facts(
            partitions=partitions,
            transactions=self._optional("transactions", lambda: self._transactions(wanted, producer_ids)) or (),
            groups=self._optional("groups", lambda: self._groups(ends)) or (),
            compacted=self._cleaned({topic for topic, _ in keys}),
        )

    def _optional(self, what: str, read: Callable[[], T]) -> T | None:
        try:
            return read()
        except (CorruptLogError, KafkaError, WireError) as error:
            self.notes.append(f"{what} are not told: {error}")
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
            producers=tuple(Producer(*each) for each in _producers(folder).active()),
        )

    def _cleaned(self, topics: set[str]) -> dict[str, bool]:
        """Topics that a broker compacted, by its checkpoints."""
        cleaned: set[str] = set()
        for path in self._path.split(","):
            with suppress(CorruptLogError):
                cleaned |= {topic for topic, _ in OffsetCheckpoint(self._files, f"{path.strip().rstrip('/')}/{CLEANER_OFFSET}").read()}
        return {topic: topic in cleaned for topic in topics}

    def _internal(self, topic: str) -> Iterator[list[RecordBatch]]:
        """The batches of each partition of a topic of Kafka's own, where the directories have it."""
        try:
            folders = self._folders(topic)
        except OptionError:
            return  # nobody used it yet, or `path` is one partition's folder
        for folder in folders:
            yield [batch for segment in folder.segments for batch in _batches(folder, segment, 0)]
            folder.close()

    def _groups(self, ends: Mapping[TopicPartition, int]) -> tuple[GroupOffset, ...]:
        found = []
        for batches in self._internal(CONSUMER_OFFSETS_TOPIC):
            shard = _replayed(batches)
            for group, key, committed in shard.offsets.all():
                if key in ends:
                    kind = shard.groups[group].group_type.value
                    found.append(GroupOffset(group, kind, None, *key, committed.offset, ends[key] - committed.offset))
        return tuple(sorted(found, key=lambda each: (each.group, each.topic, each.partition)))

    def _transactions(self, keys: set[TopicPartition], producer_ids: set[int]) -> tuple[TransactionInfo, ...]:
        latest: dict[str, TransactionInfo] = {}
        for batches in self._internal(TRANSACTION_STATE_TOPIC):
            for record in (record for batch in batches if not batch.is_control for record in decode_records(batch)):
                decoded = TRANSACTION_STATE.decode(record.key, record.value)
                if decoded is None:
                    continue
                latest.pop(decoded.key.transactional_id, None)
                if decoded.value is not None:
                    latest[decoded.key.transactional_id] = _transaction(decoded.key.transactional_id, decoded.value)
        names = {f"{topic}-{partition}" for topic, partition in keys}
        return tuple(
            each for _, each in sorted(latest.items()) if each.producer_id in producer_ids or not names.isdisjoint(each.partitions)
        )


def _transaction(name: str, value: object) -> TransactionInfo:
    from minibroker.schemas.internal.transaction_records import TransactionLogValue  # noqa: PLC0415  only directories have them

    if not isinstance(value, TransactionLogValue):
        raise WireError(f"the state of transactional id {name} is of an unknown kind")
    start = value.transaction_start_timestamp_ms
    partitions = [f"{each.topic}-{index}" for each in value.transaction_partitions or () for index in each.partition_ids]
    return TransactionInfo(
        name,
        value.producer_id,
        value.producer_epoch,
        TransactionState(value.transaction_status).kafka_name,
        value.transaction_timeout_ms,
        None if start < 0 else start,
        tuple(sorted(partitions)),
    )


def _replayed(batches: Sequence[RecordBatch]) -> Shard:
    """What a partition of `__consumer_offsets` says; commits of open transactions do not count yet."""
    shard = Shard()
    for batch in batches:
        if batch.is_control:
            marker = read_marker(batch)
            if marker is not None:
                shard.end_transaction(batch.producer_id, is_commit=marker.control_type is ControlType.COMMIT)
            continue
        producer_id = batch.producer_id if batch.is_transactional else NO_PRODUCER_ID
        for record in decode_records(batch):
            decoded = CONSUMER_OFFSETS.decode(record.key, record.value)
            if decoded is not None:
                shard.replay(decoded, record.offset, producer_id)
    return shard


def _batches(folder: PartitionFolder, segment: SegmentFile, position: int) -> Iterator[RecordBatch]:
    try:
        yield from read_batches(folder.files, segment.handle, position, folder.end_of(segment))
    except KafkaError as error:
        raise CorruptLogError(str(error)) from error


def _producers(folder: PartitionFolder) -> ProducerState:
    """As the newest readable snapshot has them, and what came after it."""
    state = ProducerState(EXPIRATION_MS)
    begin = folder.log_start_offset
    for offset in reversed([each for each in folder.snapshot_offsets if folder.log_start_offset <= each <= folder.end.offset]):
        with suppress(CorruptLogError, FileNotFoundError):
            entries = producer_snapshot.decode(read_all(folder.files, f"{folder.directory}/{file_name(offset, SNAPSHOT)}"))
            state.load_snapshot(entries, offset)
            begin = offset
            break
    for segment in folder.segments_from(begin):
        for batch in _batches(folder, segment, segment.start_for(begin) if begin > segment.base_offset else 0):
            if batch.producer_id != NO_PRODUCER_ID and batch.base_offset >= begin:
                state.update(batch, batch.base_offset)
    return state


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
    """The first record with the largest timestamp of the log, as ListOffsets finds it: of markers, too."""
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
