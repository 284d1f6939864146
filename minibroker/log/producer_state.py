"""The producers that wrote to a log: the basis of idempotence (KIP-98).

    unknown producer            any sequence is accepted: its earlier state may have been deleted with its records (KIP-360);
                                but an id that was never allocated is UNKNOWN_PRODUCER_ID (Kafka accepts those)
    same epoch                  one of the last five batches again: a duplicate, nothing is written
                                else base_sequence must follow the last one (0 follows 2^31-1), or OUT_OF_ORDER_SEQUENCE_NUMBER
    higher epoch                base_sequence must be 0, or OUT_OF_ORDER_SEQUENCE_NUMBER
    lower epoch                 INVALID_PRODUCER_EPOCH

Transactions (KIP-98, KIP-890, KIP-1228):

    a transactional batch       starts the producer's transaction in this log unless one is open; the caller makes sure that the
                                coordinator knows it
    another batch               while a transaction is open: INVALID_TXN_STATE
    an end marker               closes it. A lower epoch is INVALID_PRODUCER_EPOCH. From transaction version 2 on each transaction has its
                                own epoch, so the same epoch is rejected as well while a transaction is open: the marker belongs to
                                the previous one. A coordinator epoch below the last one is TRANSACTION_COORDINATOR_FENCED. Without an
                                open transaction only its epochs are stored: a coordinator repeats a marker if it does not know
                                whether it was written
    the broker's own batches    (committed offsets) have no sequences; the other rules apply to them

`check` runs before the write and `update` after it, so that a failed write leaves no trace. The state is stored in `.snapshot` files
(storage/producer_snapshot.py) when a segment rolls and at a clean shutdown; later changes are read from the batches. As in Kafka, a
snapshot has one batch of each producer: after a restart the four earlier ones are not recognised as duplicates.

Source: ProducerStateManager, ProducerAppendInfo and ProducerStateEntry of Apache Kafka.

Open transactions limit how far a read_committed consumer reads:

    open         from the first batch of a producer's transaction up to its marker; at most one per producer
    completed    its marker, commit or abort, was appended: an abort that had records goes into `.txnindex`

Invariant: transactions are kept in the order of their first offsets, so the oldest one is the first.

The entry of an aborted transaction has the last stable offset after its marker: the first offset of the oldest open transaction, or the
offset after the marker. A look-up in `.txnindex` stops at the first entry whose last stable offset reaches the end of the requested range:
no later entry can affect it. Source: ProducerStateManager (ongoingTxns, CompletedTxn) of Apache Kafka.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import NamedTuple

from minibroker.errors import (
    CorruptLogError,
    InvalidProducerEpoch,
    InvalidTxnState,
    OutOfOrderSequenceNumber,
    TransactionCoordinatorFenced,
    UnknownProducerId,
)
from minibroker.records.batch import CONTROL_FLAG, INT32_MAX, NO_PRODUCER_EPOCH, NO_SEQUENCE, TRANSACTIONAL_FLAG, RecordBatch
from minibroker.records.control import ControlType, EndTransactionMarker, read_marker
from minibroker.storage import producer_snapshot
from minibroker.storage.files import Files, read_all, replace_file
from minibroker.storage.log_file_names import DELETED, SNAPSHOT, file_name
from minibroker.storage.producer_snapshot import ProducerEntry
from minibroker.storage.transaction_index import AbortedTxn


class CompletedTransaction(NamedTuple):
    """The offsets of its first record and of its marker."""

    producer_id: int
    first_offset: int
    last_offset: int
    is_aborted: bool


class OpenTransaction(NamedTuple):
    """A transaction that has not ended."""

    producer_id: int
    producer_epoch: int
    first_offset: int


class OpenTransactions:
    """First offsets by producer id, oldest first."""

    __slots__ = ("first_offsets",)

    def __init__(self) -> None:
        self.first_offsets: dict[int, int] = {}  #: for reading

    def load(self, found: Iterable[tuple[int, int]]) -> None:
        """Replace all by pairs of producer id and first offset, in any order."""
        self.first_offsets.clear()
        self.first_offsets.update(sorted(found, key=lambda pair: pair[1]))

    def begin(self, producer_id: int, first_offset: int) -> None:
        """Add a transaction whose first batch was appended; offsets ascend from one call to the next."""
        self.first_offsets[producer_id] = first_offset

    def end(self, completed: CompletedTransaction) -> AbortedTxn | None:
        """Remove a transaction whose marker was appended. Returns the entry of an abort."""
        del self.first_offsets[completed.producer_id]
        if not completed.is_aborted:
            return None
        oldest = self.oldest
        # The field of an entry in `.txnindex`: the partition's own LSO is computed in partition_log.py.
        last_stable_offset = completed.last_offset + 1 if oldest is None else oldest
        return AbortedTxn(completed.producer_id, completed.first_offset, completed.last_offset, last_stable_offset)

    @property
    def oldest(self) -> int | None:
        """The first offset of the oldest open transaction; None if none is open."""
        return next(iter(self.first_offsets.values()), None)


RETAINED_BATCHES = 5
WRITE_TIMES = 64  #: times that `WriteTimes` keeps for one expiration
OWN_EPOCH_SINCE = 2  #: the transaction version from which a marker's epoch is above that of the records


class BatchMetadata(NamedTuple):
    """The sequences, offsets and timestamp of an appended batch."""

    base_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    timestamp: int


class Producer:
    """The state of one producer id."""

    __slots__ = ("batches", "coordinator_epoch", "current_txn_first_offset", "last_timestamp", "producer_epoch")

    def __init__(self, producer_epoch: int = NO_PRODUCER_EPOCH) -> None:
        self.producer_epoch = producer_epoch
        self.batches: list[BatchMetadata] = []  #: the last five of this epoch, oldest first
        self.last_timestamp = -1
        self.coordinator_epoch = -1
        self.current_txn_first_offset = -1

    @property
    def last_sequence(self) -> int:
        """The last sequence of the last batch; -1 if none is known."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    def duplicate_of(self, batch: RecordBatch) -> BatchMetadata | None:
        """Return the retained batch that `batch` repeats, if there is one. The usual case, the next sequence, is checked first."""
        batches = self.batches
        if batches and batch.producer_epoch == self.producer_epoch and batch.base_sequence != batches[-1].last_sequence + 1:
            for known in batches:
                if known.base_sequence == batch.base_sequence and known.last_sequence == batch.last_sequence:
                    return known
        return None

    def check(self, batch: RecordBatch, *, has_sequence: bool = True) -> None:
        """Check that `batch` may come next. Raises KafkaError."""
        if batch.producer_epoch < self.producer_epoch:
            raise self._old_epoch(batch.producer_id, batch.producer_epoch)
        if has_sequence and self.producer_epoch != NO_PRODUCER_EPOCH:
            self._check_sequence(batch)
        if self.current_txn_first_offset >= 0 and not batch.is_transactional:
            raise InvalidTxnState(f"producer {batch.producer_id} has a transaction open since offset {self.current_txn_first_offset}")

    def check_marker(self, marker: EndTransactionMarker, producer_id: int, producer_epoch: int, transaction_version: int) -> None:
        """Check that `marker` may end the producer's transaction here. Raises KafkaError."""
        is_open = self.current_txn_first_offset >= 0
        least = self.producer_epoch + 1 if is_open and transaction_version >= OWN_EPOCH_SINCE else self.producer_epoch
        if producer_epoch < least:
            raise self._old_epoch(producer_id, producer_epoch)
        if marker.coordinator_epoch < self.coordinator_epoch:
            raise TransactionCoordinatorFenced(
                f"producer {producer_id}: a coordinator of epoch {marker.coordinator_epoch}, the last seen one is {self.coordinator_epoch}"
            )

    def _old_epoch(self, producer_id: int, producer_epoch: int) -> InvalidProducerEpoch:
        return InvalidProducerEpoch(f"producer {producer_id} has epoch {producer_epoch}, the last seen one is {self.producer_epoch}")

    def _check_sequence(self, batch: RecordBatch) -> None:
        if batch.producer_epoch == self.producer_epoch:
            last_sequence = self.last_sequence
            follows = batch.base_sequence == last_sequence + 1 or (batch.base_sequence == 0 and last_sequence == INT32_MAX)
        else:
            last_sequence = NO_SEQUENCE
            follows = batch.base_sequence == 0
        if not follows:
            raise OutOfOrderSequenceNumber(
                f"producer {batch.producer_id}, epoch {batch.producer_epoch}: {batch.base_sequence} does not follow {last_sequence}"
            )

    def update(self, batch: RecordBatch, base_offset: int) -> None:
        """Note that the data batch `batch` was appended at `base_offset`."""
        if batch.producer_epoch != self.producer_epoch:
            self._begin_epoch(batch.producer_epoch)
        self.last_timestamp = batch.max_timestamp
        if len(self.batches) == RETAINED_BATCHES:
            del self.batches[0]
        last_offset = base_offset + batch.last_offset_delta
        self.batches.append(BatchMetadata(batch.base_sequence, batch.last_sequence, base_offset, last_offset, batch.max_timestamp))
        if batch.attributes & TRANSACTIONAL_FLAG and self.current_txn_first_offset < 0:
            self.current_txn_first_offset = base_offset

    def end_transaction(self, batch: RecordBatch, marker: EndTransactionMarker, offset: int) -> CompletedTransaction | None:
        """Note that `batch`, which is `marker`, was appended at `offset`. Returns the transaction that it closed, if one was open."""
        if batch.producer_epoch != self.producer_epoch:
            self._begin_epoch(batch.producer_epoch)
        self.last_timestamp = batch.max_timestamp
        self.coordinator_epoch = marker.coordinator_epoch
        first_offset, self.current_txn_first_offset = self.current_txn_first_offset, -1
        if first_offset < 0:
            return None
        return CompletedTransaction(batch.producer_id, first_offset, offset, marker.control_type is ControlType.ABORT)

    def _begin_epoch(self, producer_epoch: int) -> None:
        self.producer_epoch = producer_epoch
        self.batches.clear()


class ActiveProducer(NamedTuple):
    """A producer as DescribeProducers reports it; -1 for unknown values, or if no transaction is open."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    current_txn_start_offset: int


class ProducerState:
    """All producers of one log, as of `end_offset`."""

    __slots__ = ("end_offset", "expiration_ms", "is_allocated", "open_transactions", "producers")

    def __init__(self, expiration_ms: int) -> None:
        self.expiration_ms = expiration_ms  #: producer.id.expiration.ms
        self.is_allocated: Callable[[int], bool] | None = None  #: whether a producer id was ever allocated; None: not checked
        self.producers: dict[int, Producer] = {}
        self.open_transactions = OpenTransactions()
        self.end_offset = 0

    def check(self, batch: RecordBatch) -> BatchMetadata | None:
        """Return the earlier batch that this one repeats, or None if it may be appended. Raises KafkaError if neither."""
        producer = self.producers.get(batch.producer_id)
        if producer is None:
            if self.is_allocated is not None and not self.is_allocated(batch.producer_id):
                raise UnknownProducerId(f"producer id {batch.producer_id} was never allocated by this cluster")
            return None
        duplicate = producer.duplicate_of(batch)
        if duplicate is None:
            producer.check(batch)
        return duplicate

    def check_own(self, batch: RecordBatch) -> None:
        """Check that a batch of the broker itself may be appended. Raises KafkaError."""
        producer = self.producers.get(batch.producer_id)
        if producer is not None:
            producer.check(batch, has_sequence=False)

    def check_marker(self, marker: EndTransactionMarker, *, producer_id: int, producer_epoch: int, transaction_version: int) -> None:
        """Check that `marker` may be appended. Raises KafkaError."""
        producer = self.producers.get(producer_id)
        if producer is not None:
            producer.check_marker(marker, producer_id, producer_epoch, transaction_version)

    def check_first_sequence(self, batch: RecordBatch) -> None:
        """Check that an unknown producer in a transaction of version 2 starts with sequence 0. Raises OutOfOrderSequenceNumber."""
        if batch.base_sequence and batch.producer_id not in self.producers:
            raise OutOfOrderSequenceNumber(f"producer {batch.producer_id} is unknown here and starts with {batch.base_sequence}")

    def update(self, batch: RecordBatch, base_offset: int, marker: EndTransactionMarker | None = None) -> AbortedTxn | None:
        """Note an appended batch, or one that is read back from the log. Returns the entry for `.txnindex`, if it is an abort marker.

        `marker` is the content of a control batch; None reads it from the batch.
        """
        if batch.attributes & CONTROL_FLAG:
            return self._end_transaction(batch, base_offset, marker or read_marker(batch))
        producer = self.producers.get(batch.producer_id) or self._new_producer(batch.producer_id)
        if batch.attributes & TRANSACTIONAL_FLAG and producer.current_txn_first_offset < 0:
            self.open_transactions.begin(batch.producer_id, base_offset)
        producer.update(batch, base_offset)
        return None

    def _end_transaction(self, batch: RecordBatch, offset: int, marker: EndTransactionMarker | None) -> AbortedTxn | None:
        if marker is None:
            return None  # compaction removed its record, and the whole transaction with it
        producer = self.producers.get(batch.producer_id) or self._new_producer(batch.producer_id)
        completed = producer.end_transaction(batch, marker, offset)
        return None if completed is None else self.open_transactions.end(completed)

    def _new_producer(self, producer_id: int) -> Producer:
        producer = self.producers[producer_id] = Producer()
        return producer

    def remove_expired(self, now_ms: int, written_ms: Callable[[int], int] | None = None) -> None:
        """Forget producers that wrote nothing for producer.id.expiration.ms; never one with an open transaction.

        `written_ms` returns the latest time at which an offset was written. The timestamps of records may be years old when they arrive,
        and a retry of their producer must still be a duplicate after a crash. (Kafka only uses the timestamps.)
        """
        expired = [
            producer_id
            for producer_id, producer in self.producers.items()
            if producer.current_txn_first_offset < 0
            and now_ms - producer.last_timestamp >= self.expiration_ms
            and not (written_ms and producer.batches and now_ms - written_ms(producer.batches[-1].last_offset) < self.expiration_ms)
        ]
        for producer_id in expired:
            del self.producers[producer_id]

    def has_open_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        """Whether a producer of this epoch has a transaction open here, which its coordinator then knows."""
        producer = self.producers.get(producer_id)
        return producer is not None and producer.current_txn_first_offset >= 0 and producer.producer_epoch == producer_epoch

    def is_fenced(self, producer_id: int, producer_epoch: int) -> bool:
        """Whether a later epoch of the producer is known, so that an append raises InvalidProducerEpoch."""
        producer = self.producers.get(producer_id)
        return producer is not None and producer.producer_epoch > producer_epoch

    def first_open_offset(self, producer_id: int) -> int | None:
        """Return the first offset of the producer id's open transaction, in any epoch; None if none is open."""
        return self.open_transactions.first_offsets.get(producer_id)

    def list_open_transactions(self) -> list[OpenTransaction]:
        """Return all open transactions, oldest first."""
        producers = self.producers
        return [
            OpenTransaction(each, producers[each].producer_epoch, offset) for each, offset in self.open_transactions.first_offsets.items()
        ]

    def coordinator_epoch_of(self, producer_id: int) -> int:
        """Return the coordinator epoch in the last marker of a producer id; -1 if none is known."""
        producer = self.producers.get(producer_id)
        return -1 if producer is None else producer.coordinator_epoch

    def active(self) -> list[ActiveProducer]:
        """Return the state of each producer, by id."""
        return [
            ActiveProducer(
                producer_id,
                producer.producer_epoch,
                producer.last_sequence,
                producer.last_timestamp,
                producer.coordinator_epoch,
                producer.current_txn_first_offset,
            )
            for producer_id, producer in sorted(self.producers.items())
        ]

    def to_snapshot(self) -> list[ProducerEntry]:
        """Return the entries of a `.snapshot`: the last batch of each producer."""
        entries = []
        for producer_id in sorted(self.producers):
            producer = self.producers[producer_id]
            last = producer.batches[-1] if producer.batches else None
            entries.append(
                ProducerEntry(
                    producer_id=producer_id,
                    producer_epoch=producer.producer_epoch,
                    last_sequence=last.last_sequence if last else NO_SEQUENCE,
                    last_offset=last.last_offset if last else -1,
                    offset_delta=last.last_offset - last.base_offset if last else 0,
                    timestamp=producer.last_timestamp,
                    coordinator_epoch=producer.coordinator_epoch,
                    current_txn_first_offset=producer.current_txn_first_offset,
                )
            )
        return entries

    def load_snapshot(self, entries: Sequence[ProducerEntry], end_offset: int) -> None:
        """Replace the state by that of a snapshot."""
        self.producers.clear()
        self.end_offset = end_offset
        for entry in entries:
            producer = self.producers[entry.producer_id] = Producer(entry.producer_epoch)
            producer.last_timestamp = entry.timestamp
            producer.coordinator_epoch = entry.coordinator_epoch
            producer.current_txn_first_offset = entry.current_txn_first_offset
            if entry.last_offset >= 0:
                base_sequence = (entry.last_sequence - entry.offset_delta) & INT32_MAX
                base_offset = entry.last_offset - entry.offset_delta
                producer.batches.append(BatchMetadata(base_sequence, entry.last_sequence, base_offset, entry.last_offset, entry.timestamp))
        self.open_transactions.load(
            (entry.producer_id, entry.current_txn_first_offset) for entry in entries if entry.current_txn_first_offset >= 0
        )


class WriteTimes:
    """The approximate times at which the records of a log were written, from the log end offsets at a few moments.

    Timestamps of records do not show it: an import writes last year's records today.
    """

    __slots__ = ("_end_offsets", "_times_ms")

    def __init__(self, now_ms: int, end_offset: int) -> None:
        self._times_ms = [now_ms]
        self._end_offsets = [end_offset]

    def note(self, now_ms: int, end_offset: int, span_ms: int) -> None:
        """Note that the log ends at `end_offset` now. Times more than `span_ms` ago need not be exact."""
        times, ends = self._times_ms, self._end_offsets
        if end_offset == ends[-1]:
            return
        if len(times) > 1 and 0 <= times[-1] - times[-2] < span_ms // WRITE_TIMES:
            del times[-1], ends[-1]
        times.append(now_ms)
        ends.append(end_offset)
        while len(times) > 1 and now_ms - times[1] > span_ms:
            del times[0], ends[0]

    def written_ms(self, offset: int) -> int:
        """Return when the record at `offset` was certainly written; the time of the last note for a later record."""
        index = bisect_right(self._end_offsets, offset)
        return self._times_ms[min(index, len(self._times_ms) - 1)]


logger = logging.getLogger(__name__)


class Snapshots:
    """The `.snapshot` files of a folder by offset.

    A snapshot is written at the log end when a segment rolls and when the log closes, if the log has grown since the last one. As in Kafka,
    it is also written without any producer: after an empty snapshot no batches need to be read.
    """

    __slots__ = ("_files", "directory", "offsets")

    def __init__(self, files: Files, directory: str, offsets: Iterable[int] = ()) -> None:
        self._files = files
        self.directory = directory
        self.offsets = sorted(offsets)

    def path(self, offset: int) -> str:
        """Return the path of the snapshot at `offset`."""
        return f"{self.directory}/{file_name(offset, SNAPSHOT)}"

    def take(self, state: ProducerState, log_start_offset: int) -> None:
        """Write the state at its end offset unless there is a snapshot of it. It is not synced: its CRC shows whether it is whole.

        Unlike in Kafka, producers are still known after a restart if all records were deleted.
        """
        newest = self.offsets[-1] if self.offsets else log_start_offset
        if state.end_offset > newest or (state.producers and not self.offsets):
            replace_file(self._files, self.path(state.end_offset), producer_snapshot.encode(state.to_snapshot()), sync=False)
            self.offsets.append(state.end_offset)

    def complete(self, state: ProducerState) -> None:
        """Write the state at its end offset if there is no such snapshot; there may be newer ones."""
        index = bisect_right(self.offsets, state.end_offset)
        if not index or self.offsets[index - 1] != state.end_offset:
            replace_file(self._files, self.path(state.end_offset), producer_snapshot.encode(state.to_snapshot()), sync=False)
            self.offsets.insert(index, state.end_offset)

    def restore(self, state: ProducerState, up_to: int, log_start_offset: int) -> None:
        """Load the newest whole snapshot at or below `up_to` into `state`; delete damaged ones and those above."""
        while self.offsets:
            offset = self.offsets[-1]
            if offset <= up_to:
                try:
                    state.load_snapshot(producer_snapshot.decode(read_all(self._files, self.path(offset))), offset)
                except (CorruptLogError, FileNotFoundError) as error:
                    logger.warning("%s: %s: removed", self.path(offset), error)
                else:
                    return
            self.remove(offset)
        state.load_snapshot([], log_start_offset)

    def load_newest(self, state: ProducerState, up_to: int) -> None:
        """Load the newest whole snapshot at or below `up_to` into `state`; the empty state at offset 0 if there is none."""
        for offset in reversed(self.offsets[: bisect_right(self.offsets, up_to)]):
            with suppress(CorruptLogError, FileNotFoundError):
                state.load_snapshot(producer_snapshot.decode(read_all(self._files, self.path(offset))), offset)
                return
        state.load_snapshot([], 0)

    def remove(self, offset: int) -> None:
        """Delete the snapshot at `offset` if there is one."""
        index = bisect_right(self.offsets, offset) - 1
        if index >= 0 and self.offsets[index] == offset:
            del self.offsets[index]
            self._files.remove(self.path(offset))

    def retire_below(self, offset: int) -> list[str]:
        """Rename the snapshots of deleted segments to `.deleted`, and return the paths to remove later."""
        retired = []
        while self.offsets and self.offsets[0] < offset:
            path = self.path(self.offsets[0])
            with suppress(FileNotFoundError):
                self._files.rename(path, path + DELETED)
                retired.append(path + DELETED)
            del self.offsets[0]
        return retired
