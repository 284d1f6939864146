"""Read batches from the partitions of a ShareFetch's session, and acquire records of them.

Partitions are read in turn, starting with another one in each request. The requested bytes are
divided among the partitions that have records to acquire. A read stops at the requested number of
records, because other members read the later ones.

Source: DelayedShareFetch, ShareFetchUtils of Apache Kafka 4.3.1 (which reads up to the byte limit,
and drops records that it does not acquire).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from minibroker.cluster.partition import Partition
from minibroker.coordinator.share_partition.acquiring import Acquired, AcquireRequest, Extent
from minibroker.coordinator.share_partition.share_partition import SharePartition
from minibroker.coordinator.share_partition.share_partitions import TopicPartition
from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.delayed import Watchable
from minibroker.errors import KafkaError, KafkaStorageError
from minibroker.log.results import IsolationLevel
from minibroker.records.any_format import decode_records, split_batches
from minibroker.records.batch import RecordBatch
from minibroker.records.control import ControlType, parse_control_key
from minibroker.wire.schema import Buffer

_READ_BYTES: Final = 256 * 1024  #: per read

_EMPTY: Final = b""


class PartitionRecords(NamedTuple):
    """The records that a member gets from one partition."""

    acquired: Sequence[Acquired] = ()
    records: Buffer = _EMPTY
    error: KafkaError | None = None


class _PartitionRead(NamedTuple):
    """The batches read from one partition."""

    share: SharePartition
    partition: Partition
    fetch_offset: int
    batches: Sequence[RecordBatch]

    @property
    def size(self) -> int:
        return sum(batch.size for batch in self.batches)

    @property
    def offset_count(self) -> int:
        return self.batches[-1].next_offset - self.fetch_offset if self.batches else 0


class ShareReading:
    """The reads of one request. They can be repeated when partitions have more records."""

    def __init__(self, ctx: RequestContext, group_id: str, partitions: Sequence[TopicPartition], request: AcquireRequest) -> None:
        self._ctx = ctx
        self._group_id = group_id
        self._partitions = partitions
        self._request = request

    def attempt(self, *, min_bytes: int, max_bytes: int, is_last: bool) -> dict[TopicPartition, PartitionRecords] | None:
        """Return the records of each partition, or None if there are too few."""
        fetched: dict[TopicPartition, PartitionRecords] = {}
        reads: dict[TopicPartition, _PartitionRead] = {}
        is_urgent = not self._find(fetched, reads)
        isolation = self._isolation()
        left = self._request.max_records
        size = 0
        for key, read in list(reads.items()):
            if left <= 0:
                del reads[key]  # the next request starts with a later partition
                continue
            try:
                found = self._read(read, max_bytes // len(reads), left, isolation, min_one=size == 0)
            except KafkaError as error:
                fetched[key] = PartitionRecords(error=error)
                del reads[key]
                is_urgent = True
                continue
            reads[key] = found
            left -= found.offset_count
            size += found.size
        if not (is_last or is_urgent or (size > 0 and (size >= min_bytes or left <= 0))):
            return None
        left = self._request.max_records
        for key, read in reads.items():
            fetched[key] = self._acquire(read, left, isolation)
            left -= sum(each.last_offset - each.first_offset + 1 for each in fetched[key].acquired)
        return {key: fetched[key] for key in self._partitions if key in fetched}

    def watched(self) -> Iterator[Watchable]:
        """Yield the sources of changes that can end the wait: partitions that grow, and records that become available again."""
        for topic_id, index in self._partitions:
            try:
                yield self._ctx.cluster.partition_by_id(topic_id, index)
                yield self._ctx.broker.coordinators.share_partitions.get(self._group_id, topic_id, index)
            except KafkaError:
                continue

    def _find(self, fetched: dict[TopicPartition, PartitionRecords], reads: dict[TopicPartition, _PartitionRead]) -> bool:
        """Find the partitions with records to acquire.

        Returns False if all failed, or if there are no partitions.
        """
        for key in self._partitions:
            try:
                partition = self._ctx.cluster.partition_by_id(*key)
                share = self._ctx.broker.coordinators.share_partitions.get(self._group_id, *key)
                # A log that was never opened is empty. Opening thousands of them would take seconds.
                log_start_offset = 0 if partition.is_unopened else partition.log.log_start_offset
                if share.records.next_fetch_offset() < log_start_offset:  # records in flight below it may still be acknowledged
                    share.begin_at(log_start_offset)
            except KafkaError as error:
                fetched[key] = PartitionRecords(error=error)
                continue
            if share.can_acquire():
                reads[key] = _PartitionRead(share, partition, share.records.next_fetch_offset(), ())
        return len(fetched) < len(self._partitions)

    def _isolation(self) -> IsolationLevel:
        level = self._ctx.cluster.configs.of_group(self._group_id).share_isolation_level
        return IsolationLevel.READ_COMMITTED if level == "read_committed" else IsolationLevel.READ_UNCOMMITTED

    def _read(self, read: _PartitionRead, max_bytes: int, max_records: int, isolation: IsolationLevel, *, min_one: bool) -> _PartitionRead:
        if read.partition.is_unopened:
            return read
        log = read.partition.log
        end_offset = log.last_stable_offset if isolation is IsolationLevel.READ_COMMITTED else log.high_watermark
        batches: list[RecordBatch] = []
        offset, size = read.fetch_offset, 0
        while offset < end_offset and offset < read.fetch_offset + max_records and (size < max_bytes or (min_one and not size)):
            data = log.read(offset, min(max_bytes - size, _READ_BYTES), isolation=isolation, min_one=min_one and not size)
            found = list(split_batches(data))
            if not found:
                break
            batches += found
            size += len(data)
            offset = found[-1].next_offset
        return read._replace(batches=batches)

    def _acquire(self, read: _PartitionRead, left: int, isolation: IsolationLevel) -> PartitionRecords:
        if not read.batches or left <= 0:
            return PartitionRecords()
        extents = [Extent(batch.base_offset, batch.last_offset) for batch in read.batches]
        acquired = read.share.acquire(read.fetch_offset, extents, self._request._replace(max_records=left))
        if acquired and isolation is IsolationLevel.READ_COMMITTED:
            aborted = _aborted(read)
            if aborted:
                read.share.archive_aborted(aborted)
                acquired = list(_without(acquired, aborted))
        if not acquired:
            return PartitionRecords()
        first_offset, last_offset = acquired[0].first_offset, acquired[-1].last_offset
        data = [batch.data for batch in read.batches if batch.last_offset >= first_offset and batch.base_offset <= last_offset]
        return PartitionRecords(acquired, data[0] if len(data) == 1 else b"".join(data))


def _aborted(read: _PartitionRead) -> list[Extent]:
    """Return the batches of aborted transactions among those that were read."""
    log = read.partition.online_log
    if log is None:
        raise KafkaStorageError
    first_offset = read.batches[0].base_offset
    if not log.may_have_aborted(first_offset):
        return []
    transactions = sorted(log.aborted_transactions(first_offset, read.batches[-1].last_offset), key=lambda each: each.first_offset)
    found: list[Extent] = []
    producer_ids: set[int] = set()
    for batch in read.batches:
        while transactions and transactions[0].first_offset <= batch.last_offset:
            producer_ids.add(transactions.pop(0).producer_id)
        if batch.is_control:
            if _is_abort(batch):
                producer_ids.discard(batch.producer_id)
        elif batch.is_transactional and batch.producer_id in producer_ids:
            found.append(Extent(batch.base_offset, batch.last_offset))
    return found


def _is_abort(batch: RecordBatch) -> bool:
    return any(parse_control_key(record.key) is ControlType.ABORT for record in decode_records(batch))


def _without(acquired: Sequence[Acquired], extents: Sequence[Extent]) -> Iterator[Acquired]:
    """Yield the ranges without the offsets in `extents`. Both are sorted."""
    for each in acquired:
        rest = each
        for extent in extents:
            if extent.last_offset < rest.first_offset or extent.first_offset > rest.last_offset:
                continue
            if rest.first_offset < extent.first_offset:
                yield rest._replace(last_offset=extent.first_offset - 1)
            rest = rest._replace(first_offset=extent.last_offset + 1)
        if rest.first_offset <= rest.last_offset:
            yield rest
