"""Write one target partition in transactions, each with records, the mapping of their offsets, and the progress.

    take over      InitProducerId fences an earlier attempt and ends its open transaction; the committed offset is the start
    add            send each batch, and keep it until its transaction is committed
    commit         send the ledger's ranges, TxnOffsetCommit, EndTxn

After a failure the writer takes over again, which aborts the transaction, and sends the kept batches again,
unless the committed offset shows that the commit was complete before. The writer therefore survives the death of brokers. A
task that dies leaves only an open transaction, which its successor ends.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from minibroker.client.client import Client
from minibroker.client.errors import BrokerUnreachable, ClientError
from minibroker.client.group_offsets import CommittedOffset, committed_offsets
from minibroker.client.own_transaction import OwnTransaction
from minibroker.client.routing import TopicPartition
from minibroker.errors import (
    DuplicateSequenceNumber,
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    InvalidTxnState,
    KafkaError,
    OutOfOrderSequenceNumber,
    ProducerFenced,
    TransactionAbortable,
    UnknownProducerId,
    UnstableOffsetCommit,
)
from minibroker.records.compression import Compression, compress
from minibroker.records.record import Record, encode_record
from minibroker.spark.failures import ReplayError
from minibroker.spark.replay.encode import PackedBatch
from minibroker.spark.replay.ledger import (
    LEDGER_PARTITION,
    RANGES,
    OffsetRun,
    WrittenRanges,
    group_of,
    joined,
    ledger_of,
    runs_of,
    transactional_id,
)
from minibroker.spark.replay.sender import BatchSender

#: errors after which the transaction is repeated, in addition to those that Kafka calls retriable
REPEATABLE: Final = (
    DuplicateSequenceNumber,
    InvalidProducerIdMapping,
    InvalidTxnState,
    OutOfOrderSequenceNumber,
    TransactionAbortable,
    UnknownProducerId,
)
FENCED: Final = (InvalidProducerEpoch, ProducerFenced)


class Target(NamedTuple):
    """The target partition of one source partition."""

    source_topic: str
    source_partition: int
    topic: str
    partition: int
    topic_id: str  #: as text; "" if unknown
    next_offset: int  #: the old offset to continue from, as far as the driver knows
    max_message_bytes: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True)
class WriterSettings:
    """Settings of all tasks of a run."""

    name: str
    run: int
    run_id: str
    is_resumable: bool  #: if not, a partition is one transaction and no batch is kept
    transaction_bytes: int  #: after these a transaction is committed
    transaction_age_ms: int  #: after this a transaction is committed
    transaction_timeout_ms: int  #: after this the broker aborts it


class PartitionWriter:
    """The producer of one target partition."""

    def __init__(self, client: Client, settings: WriterSettings, target: Target, *, now_s: Callable[[], float] = time.monotonic) -> None:
        """Take over the partition. `position` is the old offset to continue from; `is_done` if an earlier attempt wrote all."""
        self._client = client
        self._settings = settings
        self._target = target
        self._now_s = now_s
        self._check_run()  # a task of an earlier run must not fence one of a later run
        self._transaction = OwnTransaction(
            client, transactional_id(settings.name, target.topic, target.partition), timeout_ms=settings.transaction_timeout_ms
        )
        self._sender = BatchSender(client, self._transaction, {target.topic: target.topic_id})
        committed = self._committed()
        self.is_done = committed is not None and not settings.is_resumable
        self.position = max(committed or 0, target.next_offset)
        self._end = self.position
        self._kept: list[PackedBatch] = []
        self._runs: list[OffsetRun] = []
        self._bytes = 0
        self._began_s = 0.0

    def add(self, batch: PackedBatch) -> None:
        """Send a batch with the next old offsets; commit if the transaction is large or old enough."""
        if self._bytes == 0:
            self._began_s = self._now_s()
        self._bytes += batch.size
        self._end = int(batch.old_offsets[-1]) + 1
        if self._settings.is_resumable:
            self._kept.append(batch)
            self._retry(lambda: self._send(batch))
            if self._bytes >= self._settings.transaction_bytes or self._age_ms() >= self._settings.transaction_age_ms:
                self.commit()
        else:
            self._send(batch)

    def commit(self) -> None:
        """Commit what was added since the last commit."""
        if self._bytes == 0:
            return
        if self._settings.is_resumable:
            self._retry(self._end_transaction, ends=True)
        else:
            self._end_transaction()
        self.position = self._end
        self._sender.next_transaction()
        self._begin_transaction()
        self._kept.clear()
        self._bytes = 0

    def abort(self) -> None:
        """Abort the open transaction, if the broker is reachable."""
        with suppress(ClientError, KafkaError):
            self._sender.forget()
            self._transaction.end(committed=False)

    def _begin_transaction(self) -> None:
        self._runs = []
        self._began_s = self._now_s()

    def _send(self, batch: PackedBatch) -> None:
        def acknowledged(base_offset: int) -> None:
            self._runs += runs_of(batch.old_offsets, base_offset)

        self._sender.send((self._target.topic, self._target.partition), batch, acknowledged)

    def _end_transaction(self) -> None:
        self._sender.drain()
        target, settings = self._target, self._settings
        key, source = (target.topic, target.partition), (target.source_topic, target.source_partition)
        ranges = WrittenRanges(settings.run, key, source, self._end, self._bytes, joined(self._runs))
        for value in ranges.values():
            self._sender.send((ledger_of(settings.name), LEDGER_PARTITION), packed_value(RANGES, value), lambda _: None)
        self._sender.drain()
        self._transaction.commit_offsets(group_of(settings.name), {key: (self._end, settings.run_id)})
        self._transaction.end(committed=True)

    def _retry(self, step: Callable[[], None], *, ends: bool = False) -> None:
        """Do a step of the transaction; after a temporary error, repeat the transaction up to and including the step."""
        try:
            step()
        except (BrokerUnreachable, KafkaError) as error:
            reason: BrokerUnreachable | KafkaError = error
        else:
            return
        deadline = self._client.deadline()
        while True:
            self._raise_permanent(reason)
            deadline.pause(reason)
            try:
                self._repeat_transaction(ends=ends)
            except (BrokerUnreachable, KafkaError) as error:
                reason = error
            else:
                return

    def _repeat_transaction(self, *, ends: bool) -> None:
        self._check_run()
        self._sender.forget()
        self._transaction.take_over()
        position = max(self._committed() or 0, self._target.next_offset)
        if ends and position == self._end:
            return  # the commit was complete, and only its answer was lost
        if position != self.position:
            raise ReplayError(f"{self._target} was written up to offset {position} by another attempt of the same replay")
        self._begin_transaction()
        for batch in self._kept:
            self._send(batch)
        if ends:
            self._end_transaction()

    def _raise_permanent(self, reason: BrokerUnreachable | KafkaError) -> None:
        """Raise the error unless it is temporary."""
        if isinstance(reason, FENCED):
            if self._age_ms() < self._settings.transaction_timeout_ms:
                raise ReplayError(f"{self._target}: another attempt of replay {self._settings.name} has taken over") from reason
        elif isinstance(reason, KafkaError) and not reason.retriable and not isinstance(reason, REPEATABLE):
            raise reason

    def _age_ms(self) -> float:
        return (self._now_s() - self._began_s) * 1000

    def _check_run(self) -> None:
        """Raise ReplayError if a later run has started."""
        run = committed(self._client, self._settings.name).get((ledger_of(self._settings.name), LEDGER_PARTITION))
        if run is not None and run[1] != self._settings.run_id:
            raise ReplayError(f"another run of replay {self._settings.name} has started; this one stops")

    def _committed(self) -> int | None:
        key = self._target.topic, self._target.partition
        found = committed(self._client, self._settings.name, stable=[key]).get(key)
        return None if found is None else found[0]


def committed(client: Client, name: str, *, stable: Collection[TopicPartition] = ()) -> dict[TopicPartition, tuple[int, str]]:
    """Return offset and metadata by partition that the replay's group has committed; wait for open transactions in `stable`."""
    group = group_of(name)
    answer = committed_offsets(client, [group], stable=stable)[group]
    if isinstance(answer, KafkaError):
        raise answer
    found = {}
    for key, each in answer.items():
        if isinstance(each, CommittedOffset):
            found[key] = each.offset, each.metadata
        elif not isinstance(each, UnstableOffsetCommit):
            raise each
    return found


def packed_value(key: bytes, value: bytes) -> PackedBatch:
    """Return a batch with one value for the ledger."""
    now_ms = time.time_ns() // 1_000_000
    payload = bytearray()
    encode_record(payload, Record(0, now_ms, key, value), 0, 0)
    return PackedBatch(compress(Compression.GZIP, payload), Compression.GZIP, now_ms, now_ms, np.zeros(1, np.int64))
