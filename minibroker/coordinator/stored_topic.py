"""A topic of a coordinator: the first request for a partition loads its records into memory.

    unread --first request--> loading --last record read--> loaded          COORDINATOR_LOAD_IN_PROGRESS while loading: clients retry
       |                        |--its log cannot be read--> broken          NOT_COORDINATOR
       '---- any of them, when its log goes offline or the topic is replaced: dropped, NOT_COORDINATOR until the next start

A damaged batch is skipped with a log line, so that one flipped bit does not lose all groups of the
partition. A damaged batch of a transaction is not skipped, because its offsets are committed
together or not at all. Apache Kafka does not check the CRC here: it replays the damaged records,
and serves nothing of the partition if they cannot be decoded.

A small log is loaded during the first request that needs it. A large one is loaded over many turns
of the loop. (The topic of transactions is loaded when the broker starts, because open transactions
continue.)

Kafka's hash of an id selects its partition (`partition_of`), so that Kafka finds the records.

Invariant: the state of a partition is in its log. Records are appended first, and replayed by the
code that loads them.

Source: CoordinatorRuntime, CoordinatorLoaderImpl, TransactionStateManager.partitionFor,
GroupCoordinatorService.partitionFor, Utils.abs and java.lang.String.hashCode of Apache Kafka 4.3.1.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Final, Generic, TypeVar

from minibroker.clock import Clock
from minibroker.cluster.cluster import Cluster
from minibroker.cluster.partition import Partition
from minibroker.cluster.topic import Topic
from minibroker.coordinator.transaction.records import NO_IDS, NO_PRODUCER_ID, ProducerIdAndEpoch
from minibroker.errors import (
    CoordinatorLoadInProgress,
    CorruptMessage,
    KafkaError,
    KafkaStorageError,
    MessageTooLarge,
    NotCoordinator,
    RecordListTooLarge,
    UnknownServerError,
    WireError,
)
from minibroker.log.partition_log import PartitionLog
from minibroker.records.any_format import decode_records, split_batches
from minibroker.records.batch import TRANSACTIONAL_FLAG, RecordBatch
from minibroker.records.builder import build_batch, build_single
from minibroker.records.record import Record
from minibroker.storage.record_frame import CoordinatorRecord, RecordFrame, type_of, warn_of_unknown_types

READS_AT_ONCE: Final = 4  #: during the first request
RECORDS_A_BATCH: Final = 1_000  #: for records that need not be in one batch
OFFSETS_IN_A_LINE: Final = 10  #: of damaged batches, in a log line

_END: Final = object()

_LOG = logging.getLogger(__name__)


class StoredPartition(ABC):
    """One partition of the topic. StoredTopic writes it."""

    __slots__ = ("_frame", "is_broken", "loading", "partition", "unknown_types")

    def __init__(self, partition: Partition, frame: RecordFrame) -> None:
        self.partition = partition
        self._frame = frame
        self.loading: Iterator[None] | None = None
        self.is_broken = False
        self.unknown_types: Counter[int] = Counter()  #: skipped records, by the type in their key

    @abstractmethod
    def replay(self, record: CoordinatorRecord, record_offset: int, producer_id: int) -> None:
        """Replay one record. `producer_id` is NO_PRODUCER_ID outside of transactions."""

    def replay_control(self, batch: RecordBatch) -> None:  # noqa: B027  one topic of two has no transactions
        """Replay the end of a transaction, if the topic has any."""

    @property
    def is_usable(self) -> bool:
        """Whether it is loaded and can be written."""
        return self.loading is None and not self.is_broken and self.partition.is_online

    def check(self) -> None:
        """Raise CoordinatorLoadInProgress or NotCoordinator unless it is usable."""
        if self.is_broken or not self.partition.is_online:
            raise NotCoordinator
        if self.loading is not None:
            raise CoordinatorLoadInProgress

    def append(self, records: Sequence[CoordinatorRecord], now_ms: int, ids: ProducerIdAndEpoch = NO_IDS) -> PartitionLog | None:
        """Append one batch of records and replay them.

        Return the log if it must be synced before the client gets its answer.

        Raises:
            NotCoordinator: The log failed.
            UnknownServerError: The batch is too large, as in Kafka.
            KafkaError: Other errors of PartitionLog.append_own.
        """
        return self._append_and_replay(records, batch_of(self._frame, records, now_ms, ids), ids)

    def append_all(self, records: Sequence[CoordinatorRecord], now_ms: int) -> PartitionLog | None:
        """Append records that need not be in one batch, such as tombstones."""
        unsynced = None
        limit = self.partition.log.config.max_message_bytes
        while records:
            count = min(len(records), RECORDS_A_BATCH)
            data = batch_of(self._frame, records[:count], now_ms)
            while count > 1 and len(data) > limit:
                count //= 2
                data = batch_of(self._frame, records[:count], now_ms)
            unsynced = self._append_and_replay(records[:count], data, NO_IDS)
            records = records[count:]
        return unsynced

    def _append_and_replay(self, records: Sequence[CoordinatorRecord], data: bytearray, ids: ProducerIdAndEpoch) -> PartitionLog | None:
        log, base_offset = self._append(data)
        for offset, record in enumerate(records, base_offset):
            self.replay(record, offset, ids.producer_id)
        return log if log.wants_sync else None

    def _append(self, data: bytearray) -> tuple[PartitionLog, int]:
        """Append a batch, which the caller must replay. Return the log and the base offset."""
        try:
            log = self.partition.log
            _check_size(data, log)
            base_offset = self.partition.append_own(data).base_offset
        except KafkaStorageError as error:
            raise NotCoordinator from error
        except (MessageTooLarge, RecordListTooLarge) as error:
            _LOG.warning("%s-%d: %s", self.partition.topic, self.partition.index, error)
            raise UnknownServerError from error  # as Kafka
        return log, base_offset

    def replay_batch(self, batch: RecordBatch) -> None:
        """Replay one batch of the log.

        Raises:
            InvalidRecord: The batch cannot be decoded.
            WireError: A record cannot be decoded.
        """
        if batch.is_control:
            self.replay_control(batch)
            return
        producer_id = batch.producer_id if batch.is_transactional else NO_PRODUCER_ID
        for record in decode_records(batch):
            try:
                decoded = self._frame.decode(record.key, record.value)
            except WireError as error:
                raise WireError(f"the record at offset {record.offset}: {error}") from error
            if decoded is None:
                self.unknown_types[type_of(record.key)] += 1
            else:
                self.replay(decoded, record.offset, producer_id)


P = TypeVar("P", bound=StoredPartition)


class StoredTopic(Generic[P]):
    """All partitions of the topic. A topic that was deleted and created again starts unread."""

    def __init__(
        self,
        name: str,
        cluster: Cluster,
        clock: Clock,
        *,
        what: str,
        make: Callable[[Partition], P],
        finish: Callable[[P], Iterable[None]],
    ) -> None:
        self._name = name
        self._what = what  #: names its contents in log lines: "groups"
        self._cluster = cluster
        self._clock = clock
        self._make = make
        self._finish = finish  #: completes a load after all records are read; a step may take as long as a read
        self._topic: Topic | None = None  #: the topic of these partitions
        self._stored: dict[int, P] = {}  #: by partition index, once requested
        self._is_stopped = False

    def stop(self) -> None:
        """Stop loading."""
        self._is_stopped = True

    def follow(self) -> Topic | None:
        """Return the present topic. If it was replaced, drop the partitions of the old one."""
        topic = self._cluster.topics.get(self._name)
        if topic is not self._topic:
            self._topic = topic
            self._stored = {}
        return topic

    @property
    def loaded(self) -> list[P]:
        """All partitions that were read, usable or not."""
        return list(self._stored.values())

    def at(self, index: int) -> P:
        """Return one loaded partition; CoordinatorLoadInProgress, NotCoordinator."""
        topic = self.follow()
        if topic is None:
            raise NotCoordinator
        found = self._stored.get(index)
        if found is None:
            found = self._stored[index] = self._make(topic.partitions[index])
            found.loading = self._load(found)
            self._turn(found, READS_AT_ONCE)
        found.check()
        return found

    def _turn(self, stored: P, reads: int) -> None:
        loading = stored.loading
        if loading is None or self._is_stopped or self._stored.get(stored.partition.index) is not stored:
            return
        for _ in range(reads):
            if next(loading, _END) is _END:
                stored.loading = None
                return
        self._clock.call_later_ms(0, lambda: self._turn(stored, 1))

    def _load(self, stored: P) -> Iterator[None]:
        """Load a partition. A step takes as long as one read."""
        name = f"{self._name}-{stored.partition.index}"
        damaged: list[int] = []
        try:
            for _, batches in read_pieces(stored.partition):
                for batch in batches:
                    try:
                        check(batch)
                    except CorruptMessage:
                        if batch.producer_id != NO_PRODUCER_ID:
                            raise
                        damaged.append(batch.base_offset)
                        continue
                    stored.replay_batch(batch)
                yield
            if damaged:
                log = stored.partition.log  # recovery cuts a segment at a damaged batch, so later records need another one
                log.roll()
                log.flusher.flush()
        except (KafkaError, WireError) as error:
            _LOG.error("could not read %s: %s (its %s are not served)", name, error, self._what)
            stored.is_broken = True
            return
        if damaged:
            offsets = ", ".join(map(str, damaged[:OFFSETS_IN_A_LINE])) + (" ..." if len(damaged) > OFFSETS_IN_A_LINE else "")
            _LOG.error("%s: skipped %d damaged batches at offset %s: their %s lost state", name, len(damaged), offsets, self._what)
        if stored.unknown_types:
            warn_of_unknown_types(name, stored.unknown_types)
        yield from self._finish(stored)


def batch_of(frame: RecordFrame, records: Sequence[CoordinatorRecord], timestamp_ms: int, ids: ProducerIdAndEpoch = NO_IDS) -> bytearray:
    """Return one batch of these records; with `ids` it is part of that producer's transaction."""
    return batch_of_encoded(
        [
            Record(
                index,
                timestamp_ms,
                frame.encode_key(record.key),
                None if record.value is None else frame.encode_value(record.key, record.value, record.version),
            )
            for index, record in enumerate(records)
        ],
        ids,
    )


def batch_of_encoded(records: Sequence[Record], ids: ProducerIdAndEpoch = NO_IDS) -> bytearray:
    """Return one batch of encoded records.

    Its base sequence is 0 even without a producer, as Apache Kafka's coordinators write it.
    """
    if len(records) == 1 and (key := records[0].key) is not None:
        return build_single(
            records[0].timestamp,
            key,
            records[0].value,
            attributes=0 if ids == NO_IDS else TRANSACTIONAL_FLAG,
            producer_id=ids.producer_id,
            producer_epoch=ids.producer_epoch,
            base_sequence=0,
        )
    return build_batch(
        records,
        producer_id=ids.producer_id,
        producer_epoch=ids.producer_epoch,
        base_sequence=0,
        is_transactional=ids != NO_IDS,
    )


def _check_size(data: bytearray, log: PartitionLog) -> None:
    limit = log.config.max_message_bytes
    if len(data) > limit:
        raise MessageTooLarge(f"a batch has {len(data)} bytes, and at most {limit} are allowed")


READ_BYTES: Final = 64 * 1024  #: in one turn of the loop: 800 committed offsets, which take 20 ms to replay


def read_pieces(partition: Partition) -> Iterator[tuple[int, list[RecordBatch]]]:
    """Yield the batches of each piece and their size in bytes.

    The caller checks their CRC, as `check` does.

    Raises:
        KafkaError: The log cannot be read, or a batch has an impossible length.
    """
    if partition.is_unopened:
        return
    log = partition.log
    offset, size = log.log_start_offset, READ_BYTES
    while offset < log.log_end_offset:
        batches = list(split_batches(log.read(offset, size, isolation=None)))
        if not batches:
            return  # compaction left no records after this offset
        if batches[-1].check_crc():
            next_offset = batches[-1].next_offset
        elif len(batches) > 1:  # only the batch after a damaged one has its end offset: read both in the next piece
            next_offset = batches.pop().base_offset
        else:
            segment = next(iter(log.segments.from_offset(offset)))
            if size < segment.size:
                size *= 2
                continue
            next_offset = _offset_after(log, offset)
        yield sum(batch.size for batch in batches), batches
        offset, size = next_offset, READ_BYTES


def _offset_after(log: PartitionLog, offset: int) -> int:
    """Return the base offset of the next segment."""
    following = log.segments.after(next(iter(log.segments.from_offset(offset))))
    return log.log_end_offset if following is None else following.base_offset


def check(batch: RecordBatch) -> None:
    """Raise CorruptMessage if the CRC is wrong: a start after a clean stop does not check batches."""
    if not batch.check_crc():
        raise CorruptMessage(f"the batch at offset {batch.base_offset} is damaged")


_CACHED_IDS: Final = 4_096  #: an id is used repeatedly, and its hash takes as long as the rest of a heartbeat
_LONG: Final = 300  #: ids of at least this length are hashed in halves, and few are cached: 4,096 would take 100 MB and more
_CACHED_LONG_IDS: Final = 16  #: one request hashes its id several times
_INT32_RANGE = 1 << 32
_INT32_MIN = -(1 << 31)


@lru_cache(_CACHED_IDS)
def _short_hash(text: str) -> int:
    """Return Utils.abs of String.hashCode, which is over UTF-16 code units and a signed int32."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for index in range(0, len(units), 2):
        value = (31 * value + (units[index] << 8 | units[index + 1])) % _INT32_RANGE
    return _absolute(value)


@lru_cache(_CACHED_LONG_IDS)
def _long_hash(text: str) -> int:
    """Return the same at a quarter of the cost of a loop over the units.

    The units are 64-bit numbers in one large integer, the first one highest. The upper half times a
    power of 31, plus the lower half, has half as many numbers and the same hash. This is repeated
    until one number is left. No number overflows: each is below 2^32 before it is multiplied.
    """
    units = text.encode("utf-16-le", "surrogatepass")
    count = 1 << (len(units) // 2 - 1).bit_length()
    lanes = bytearray(8 * count)
    used = 8 * (count - len(units) // 2)  # leading zeros change nothing
    lanes[used + 7 :: 8], lanes[used + 6 :: 8] = units[::2], units[1::2]
    folded = int.from_bytes(lanes)
    below_32_bits = int.from_bytes(b"\0\0\0\0\xff\xff\xff\xff" * count)
    while count > 1:
        count //= 2
        width = 64 * count
        below_32_bits >>= width
        upper, lower = folded >> width, folded & ((1 << width) - 1)
        folded = (upper * pow(31, count, _INT32_RANGE) + lower) & below_32_bits
    return _absolute(folded)


def _absolute(value: int) -> int:
    """Return Utils.abs of the signed int32 with these bits: 0 for the smallest one, which has no positive counterpart."""
    if value == -_INT32_MIN:
        return 0
    return _INT32_RANGE - value if value > -_INT32_MIN else value


def partition_of(key: str, partition_count: int = 50) -> int:
    """Return the index of the partition that has an id."""
    return (_short_hash(key) if len(key) < _LONG else _long_hash(key)) % partition_count
