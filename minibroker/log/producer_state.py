"""What a log knows of the producers that wrote to it: the basis of idempotence (KIP-98).

    unknown producer            any sequence is accepted: its earlier state may have been deleted with its records (KIP-360);
                                but an id that was never given out is UNKNOWN_PRODUCER_ID (Kafka takes those too)
    same epoch                  a batch of the five last ones, repeated: a duplicate, nothing is written
                                else base_sequence must follow the last one (0 follows 2^31-1), or OUT_OF_ORDER_SEQUENCE_NUMBER
    higher epoch                base_sequence must be 0, or OUT_OF_ORDER_SEQUENCE_NUMBER
    lower epoch                 INVALID_PRODUCER_EPOCH

Checking and noting are two steps: `check` before the write, `update` after it, so that a failed write leaves no trace. State survives
in `.snapshot` files (storage/producer_snapshot.py), taken when a segment rolls and at a clean shutdown; what came later is read
from the batches. Snapshots keep one batch a producer, as Kafka's do: after a restart the four before it are no longer recognised.

Transactions have their place in `current_txn_first_offset` and `coordinator_epoch`: kept from and for snapshots, not acted on yet.
Source: ProducerStateManager, ProducerAppendInfo and ProducerStateEntry of Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from minibroker.errors import InvalidProducerEpoch, OutOfOrderSequenceNumber, UnknownProducerId
from minibroker.records.batch import INT32_MAX, NO_PRODUCER_EPOCH, NO_SEQUENCE, RecordBatch
from minibroker.storage.producer_snapshot import ProducerEntry

RETAINED_BATCHES = 5


class BatchMetadata(NamedTuple):
    """A batch that was appended, enough to recognise it."""

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
        """Of the last batch; -1 when none is known."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    def copy(self) -> Producer:
        """A copy to try appends on."""
        other = Producer(self.producer_epoch)
        other.batches = list(self.batches)
        other.last_timestamp = self.last_timestamp
        other.coordinator_epoch = self.coordinator_epoch
        other.current_txn_first_offset = self.current_txn_first_offset
        return other

    def duplicate_of(self, batch: RecordBatch) -> BatchMetadata | None:
        """The retained batch that `batch` repeats."""
        if batch.producer_epoch == self.producer_epoch:
            for known in self.batches:
                if known.base_sequence == batch.base_sequence and known.last_sequence == batch.last_sequence:
                    return known
        return None

    def check(self, batch: RecordBatch) -> None:
        """Whether `batch` may come next."""
        if batch.producer_epoch < self.producer_epoch:
            raise InvalidProducerEpoch(
                f"producer {batch.producer_id} has epoch {batch.producer_epoch}, the last seen one is {self.producer_epoch}"
            )
        if self.producer_epoch == NO_PRODUCER_EPOCH:
            return
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
        """Note that `batch` was appended at `base_offset`."""
        if batch.producer_epoch != self.producer_epoch:
            self.producer_epoch = batch.producer_epoch
            self.batches.clear()
        self.last_timestamp = batch.max_timestamp
        if batch.is_control:
            self.current_txn_first_offset = -1
            return
        if len(self.batches) == RETAINED_BATCHES:
            del self.batches[0]
        last_offset = base_offset + batch.last_offset_delta
        self.batches.append(BatchMetadata(batch.base_sequence, batch.last_sequence, base_offset, last_offset, batch.max_timestamp))
        if batch.is_transactional and self.current_txn_first_offset < 0:
            self.current_txn_first_offset = base_offset


class ProducerState:
    """All producers of one log, as of `end_offset`."""

    __slots__ = ("end_offset", "expiration_ms", "is_allocated", "producers")

    def __init__(self, expiration_ms: int) -> None:
        self.expiration_ms = expiration_ms  #: producer.id.expiration.ms
        self.is_allocated: Callable[[int], bool] | None = None  #: whether a producer id was ever given out; None: not asked
        self.producers: dict[int, Producer] = {}
        self.end_offset = 0

    def check(self, batches: Sequence[RecordBatch]) -> BatchMetadata | None:
        """The earlier batch that these repeat, or None when they may be appended; KafkaError when neither.

        Several batches of one producer are checked each after the other; only a single one can be a duplicate, as in Kafka.
        """
        tried: dict[int, Producer] = {}
        for batch in batches:
            producer_id = batch.producer_id
            if producer_id < 0:
                continue
            producer = tried.get(producer_id) or self.producers.get(producer_id)
            if producer is None:
                if self.is_allocated is not None and not self.is_allocated(producer_id):
                    raise UnknownProducerId(f"producer id {producer_id} was never given out by this cluster")
                producer = Producer()
            else:
                duplicate = producer.duplicate_of(batch)
                if duplicate is not None:
                    return duplicate
                producer.check(batch)
            if len(batches) > 1:
                tried[producer_id] = producer = producer.copy()
                producer.update(batch, 0)
        return None

    def update(self, batch: RecordBatch, base_offset: int) -> None:
        """Note an append, whether it was checked or is read back from the log."""
        producer = self.producers.get(batch.producer_id)
        if producer is None:
            producer = self.producers[batch.producer_id] = Producer()
        producer.update(batch, base_offset)

    def remove_expired(self, now_ms: int, written_ms: Callable[[int], int] | None = None) -> None:
        """Forget producers that wrote nothing for producer.id.expiration.ms; never one with an open transaction.

        `written_ms` tells when an offset was written, at the latest: the timestamps of records may be years old when they arrive, and
        their producer must still know its batch again after a crash. (Kafka goes by the records alone.)
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

    def to_snapshot(self) -> list[ProducerEntry]:
        """What a `.snapshot` keeps: the last batch of each."""
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
        """Become the state that a snapshot holds."""
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
