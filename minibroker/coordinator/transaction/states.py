"""The state machine of a transactional id: each request results in a step to persist, an answer, or an error.

                        InitProducerId     AddPartitions  EndTxn commit        EndTxn abort          markers written  time-out        expiry
  (unknown id)          Empty              49             49                   49                    -                -               -
  Empty                 Empty              Ongoing        48                   v1 48, v2 PrepareA.   -                -               Dead
  Ongoing               PrepareAbort, 51   Ongoing        PrepareCommit        PrepareAbort          -                PrepareAbort    -
  PrepareCommit         51                 51             51                   51                    CompleteCommit   -               -
  PrepareAbort          51                 51             51                   51                    CompleteAbort    -               -
  CompleteCommit        Empty              Ongoing        v1 OK, v2 48 (1)     v1 48, v2 PrepareA.(2) -               -               Dead
  CompleteAbort         Empty              Ongoing        48                   v1 OK, v2 PrepareA.(1) -               -               Dead
  Dead                  -1                 -1             -1                   -1                    -                -               -
  PrepareEpochFence     -1                 -1             -1                   -1                    -                -               -

  (1) OK if it repeats the EndTxn that led to this state     (2) 48 if it repeats that EndTxn
  48 INVALID_TXN_STATE, 49 INVALID_PRODUCER_ID_MAPPING, 51 CONCURRENT_TRANSACTIONS (retried by clients), -1 UNKNOWN_SERVER_ERROR
  Checked before the table: a pending step is 51 (store.py), and so is Prepare* for any ids (except EndTxn v1); another producer id is
  49 (InitProducerId: 90), another epoch 90 PRODUCER_FENCED. Dead is the tombstone of an expired id and is never stored as a state.
  PrepareEpochFence is never stored: fencing is one step, to PrepareAbort, with the epoch that fences.

Epochs
  InitProducerId  epoch + 1; the same answer again for the epoch before the last (KIP-360); a new producer id at epoch 0 when
                  they are used up
  EndTxn v1       unchanged (EndTxn 0 to 4): a delayed EndTxn of such a client can end its next transaction, which KIP-890 prevents
  EndTxn v2       epoch + 1 already in Prepare*, so also in the markers; the answer has the epoch of the next transaction. When they
                  are used up, Prepare* has MAX_EPOCH, and Complete* the new producer id at epoch 0
  fencing         epoch + 1; at transaction.version 2 like EndTxn v2, and the old owner may return with its old epoch in
                  InitProducerId (KIP-588)

These functions are pure: `Decision.after` becomes the state once its record is in the log. A failed
write changes nothing. The coordinator looks for timed out transactions every 10 s, and for expired
ids every hour, as Kafka does.

Every cell was compared with Apache Kafka 4.3.1 (tests: cells.py). Two cases differ. If epochs are
used up, a retry of InitProducerId makes Kafka throw; here it gets its answer again. Kafka treats an
EndTxn v2 with the previous epoch as the repetition of one that a v1 client sent with the present
epoch, and returns its successor's epoch to a zombie; here the zombie gets PRODUCER_FENCED.

Sources: KIP-98, KIP-360, KIP-447, KIP-588, KIP-890; TransactionMetadata, TransactionState,
TransactionCoordinator, TransactionStateManager of Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, NoReturn

from minibroker.coordinator.transaction.records import (
    EPOCH_BUMP_VERSION,
    MAX_EPOCH,
    NO_IDS,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    ProducerIdAndEpoch,
    TopicPartition,
    TransactionMetadata,
    TransactionState,
    is_epoch_exhausted,
)
from minibroker.errors import (
    ConcurrentTransactions,
    InvalidProducerIdMapping,
    InvalidRequest,
    InvalidTransactionTimeout,
    InvalidTxnState,
    KafkaError,
    ProducerFenced,
    TransactionAbortable,
    UnknownServerError,
)

AllocateProducerId = Callable[[], int]

_EMPTY = TransactionState.EMPTY
_ONGOING = TransactionState.ONGOING
_COMPLETE = (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)


class Decision(NamedTuple):
    """A step to persist, and the answer once that is done."""

    after: TransactionMetadata | None  #: None: nothing changes
    answer: ProducerIdAndEpoch = NO_IDS
    error: type[KafkaError] | None = None  #: replaces `answer`, though `after` is persisted


def expected_ids(producer_id: int, producer_epoch: int) -> ProducerIdAndEpoch | None:
    """Return the ids that the producer sends in InitProducerId 3 and later; None if it sends no ids.

    Raises:
        InvalidRequest: It sends only one of the two.
    """
    if (producer_id == NO_PRODUCER_ID) != (producer_epoch == NO_PRODUCER_EPOCH):
        raise InvalidRequest
    return None if producer_id == NO_PRODUCER_ID else ProducerIdAndEpoch(producer_id, producer_epoch)


def check_transactional_id(transactional_id: str | None) -> str:
    """Return the id; InvalidRequest if it is empty or null.

    An InitProducerId with null is not transactional, and not checked here.
    """
    if not transactional_id:
        raise InvalidRequest
    return transactional_id


def check_timeout(timeout_ms: int, max_timeout_ms: int) -> None:
    """Raise InvalidTransactionTimeout if transaction.timeout.ms is not within (0, transaction.max.timeout.ms]."""
    if not 0 < timeout_ms <= max_timeout_ms:
        raise InvalidTransactionTimeout


def init_producer_id(
    current: TransactionMetadata | None,
    transactional_id: str,
    timeout_ms: int,
    expected: ProducerIdAndEpoch | None,
    *,
    now_ms: int,
    transaction_version: int,
    allocate_producer_id: AllocateProducerId,
) -> Decision:
    """Let a producer take over the id.

    `transaction_version` is the broker's, `expected` has the ids that the producer sends.

    Raises:
        ConcurrentTransactions: Markers are being written. Also in `Decision.error`, if an open transaction must be aborted first.
        ProducerFenced: `expected` is neither the owner nor a retry of the owner.
    """
    if current is None:
        new = TransactionMetadata(transactional_id, allocate_producer_id(), NO_PRODUCER_EPOCH, timeout_ms, _EMPTY, now_ms)
        return _taken_over(new, new.ids._replace(producer_epoch=0), NO_PRODUCER_EPOCH, timeout_ms, now_ms)
    if current.state.is_prepared:
        raise ConcurrentTransactions
    if expected is not None and not _may_own(current, expected):
        raise ProducerFenced
    if current.state is _ONGOING:
        after = fence(current, now_ms=now_ms, transaction_version=transaction_version, allocate_producer_id=allocate_producer_id)
        return Decision(after, error=ConcurrentTransactions)
    if not current.state.is_idle:
        _impossible(current)
    ids, last_producer_epoch = _next_ids(current, expected, allocate_producer_id)
    return _taken_over(current, ids, last_producer_epoch, timeout_ms, now_ms)


def _may_own(current: TransactionMetadata, expected: ProducerIdAndEpoch) -> bool:
    """Whether these are the ids of the owner, or of a retry with the previous producer id, whose epochs are used up."""
    if expected.producer_id == current.producer_id:
        return True
    return expected.producer_id == current.previous_producer_id and is_epoch_exhausted(expected.producer_epoch)


def _next_ids(
    current: TransactionMetadata, expected: ProducerIdAndEpoch | None, allocate_producer_id: AllocateProducerId
) -> tuple[ProducerIdAndEpoch, int]:
    """Return the new owner's ids, and the epoch that a retry may send."""
    retried = NO_PRODUCER_EPOCH if expected is None else expected.producer_epoch
    if expected is not None and retried != current.producer_epoch:
        if retried != current.last_producer_epoch:
            raise ProducerFenced
        if current.producer_epoch < MAX_EPOCH:
            return current.ids, retried
    if is_epoch_exhausted(current.producer_epoch):
        return ProducerIdAndEpoch(allocate_producer_id(), 0), retried
    return ProducerIdAndEpoch(current.producer_id, current.producer_epoch + 1), retried


def _taken_over(current: TransactionMetadata, ids: ProducerIdAndEpoch, last_producer_epoch: int, timeout_ms: int, now_ms: int) -> Decision:
    after = current._replace(
        producer_id=ids.producer_id,
        producer_epoch=ids.producer_epoch,
        previous_producer_id=current.producer_id,
        last_producer_epoch=last_producer_epoch,
        timeout_ms=timeout_ms,
        state=_EMPTY,
        partitions=frozenset(),
        start_timestamp_ms=NO_TIMESTAMP,
        last_update_timestamp_ms=now_ms,
    )
    return Decision(after, ids)


def add_partitions(
    current: TransactionMetadata | None,
    ids: ProducerIdAndEpoch,
    partitions: frozenset[TopicPartition],
    *,
    now_ms: int,
    client_transaction_version: int,
) -> Decision:
    """Add partitions to a transaction, or start one.

    `client_transaction_version` is 2 from AddPartitionsToTxn 4 on, else 0.

    Raises:
        ConcurrentTransactions: Markers of the previous transaction are being written, for any ids.
        InvalidProducerIdMapping: The id is unknown, or has another producer id.
        ProducerFenced: Another epoch.
    """
    current = _owned(_settled(current), ids)
    if current.state is _ONGOING and partitions <= current.partitions:
        return Decision(None)
    if current.state is not _ONGOING and not current.state.is_idle:
        _impossible(current)
    after = current._replace(
        previous_producer_id=current.producer_id,
        state=_ONGOING,
        partitions=current.partitions | partitions,
        start_timestamp_ms=current.start_timestamp_ms if current.state is _ONGOING else now_ms,
        last_update_timestamp_ms=now_ms,
        client_transaction_version=client_transaction_version,
    )
    return Decision(after)


def verify_partitions(
    current: TransactionMetadata | None, ids: ProducerIdAndEpoch, partitions: frozenset[TopicPartition]
) -> dict[TopicPartition, type[KafkaError] | None]:
    """Return None for each partition that the transaction includes, otherwise TransactionAbortable (verify_only of KIP-890).

    Raises:
        KafkaError: As add_partitions.
    """
    current = _owned(current, ids)
    if current.state.is_prepared:
        raise ConcurrentTransactions
    return {each: None if each in current.partitions else TransactionAbortable for each in partitions}


def _settled(current: TransactionMetadata | None) -> TransactionMetadata | None:
    if current is not None and current.state.is_prepared:
        raise ConcurrentTransactions
    return current


def _owned(current: TransactionMetadata | None, ids: ProducerIdAndEpoch) -> TransactionMetadata:
    if current is None or current.producer_id != ids.producer_id:
        raise InvalidProducerIdMapping
    if current.producer_epoch != ids.producer_epoch:
        raise ProducerFenced
    return current


def end_transaction(
    current: TransactionMetadata | None,
    ids: ProducerIdAndEpoch,
    *,
    commit: bool,
    now_ms: int,
    client_transaction_version: int,
    allocate_producer_id: AllocateProducerId,
) -> Decision:
    """End the transaction of a client.

    `client_transaction_version` is 2 from EndTxn 5 on, else 0, which gets no ids in the answer.

    Raises:
        ConcurrentTransactions, InvalidProducerIdMapping, ProducerFenced: As add_partitions.
        InvalidTxnState: No transaction is open, or it ended the other way.
    """
    if client_transaction_version < EPOCH_BUMP_VERSION:
        return _end_v1(_owned(current, ids), commit=commit, now_ms=now_ms)
    return _end_v2(_settled(current), ids, commit=commit, now_ms=now_ms, allocate_producer_id=allocate_producer_id)


def _end_v1(current: TransactionMetadata, *, commit: bool, now_ms: int) -> Decision:
    if current.state is _ONGOING:
        return Decision(_prepared(current, commit=commit, now_ms=now_ms))
    if current.state.is_prepared:
        raise ConcurrentTransactions
    if not current.state.is_idle:
        _impossible(current)
    _check_outcome(current, commit=commit)
    return Decision(None)


def _end_v2(
    current: TransactionMetadata | None,
    ids: ProducerIdAndEpoch,
    *,
    commit: bool,
    now_ms: int,
    allocate_producer_id: AllocateProducerId,
) -> Decision:
    if current is not None and is_repeated_end(current, ids):
        _check_outcome(current, commit=commit)
        if current.producer_epoch == MAX_EPOCH:  # it was fenced at its last epoch, and the answer would have MAX_EPOCH
            raise ProducerFenced
        return Decision(None, current.ids)
    current = _owned(current, ids)
    if current.state is not _ONGOING and not current.state.is_idle:
        _impossible(current)
    if commit and current.state is not _ONGOING:
        raise InvalidTxnState
    after = _prepared_with_bump(current, commit=commit, now_ms=now_ms, allocate_producer_id=allocate_producer_id)
    return Decision(after, complete(after, now_ms=now_ms).ids)


def is_repeated_end(current: TransactionMetadata, ids: ProducerIdAndEpoch) -> bool:
    """Whether an EndTxn repeats the one that led to this state.

    A repetition has the previous epoch, or the last epoch of the previous producer id.
    """
    if not current.bumps_epochs or current.state not in _COMPLETE:
        return False
    if ids.producer_id == current.producer_id and ids.producer_epoch + 1 == current.producer_epoch:
        return True
    return current.producer_epoch == 0 and ids == (current.previous_producer_id, MAX_EPOCH - 1)


def _check_outcome(current: TransactionMetadata, *, commit: bool) -> None:
    """Raise InvalidTxnState unless the transaction is complete with this outcome."""
    if current.state is not (TransactionState.COMPLETE_COMMIT if commit else TransactionState.COMPLETE_ABORT):
        raise InvalidTxnState


def fence(
    current: TransactionMetadata, *, now_ms: int, transaction_version: int, allocate_producer_id: AllocateProducerId
) -> TransactionMetadata:
    """Abort an open transaction and fence its owner: the transaction timed out, or another producer takes over.

    `transaction_version` is the broker's.
    """
    if current.state is not _ONGOING:
        _impossible(current)
    if transaction_version >= EPOCH_BUMP_VERSION:
        return _prepared_with_bump(current, commit=False, now_ms=now_ms, allocate_producer_id=allocate_producer_id)
    fenced = _prepared(current, commit=False, now_ms=now_ms)
    return fenced._replace(producer_epoch=min(current.producer_epoch + 1, MAX_EPOCH), last_producer_epoch=NO_PRODUCER_EPOCH)


def _prepared(current: TransactionMetadata, *, commit: bool, now_ms: int) -> TransactionMetadata:
    return current._replace(
        previous_producer_id=current.producer_id,
        next_producer_id=NO_PRODUCER_ID,
        state=TransactionState.PREPARE_COMMIT if commit else TransactionState.PREPARE_ABORT,
        last_update_timestamp_ms=now_ms,
        client_transaction_version=0,
    )


def _prepared_with_bump(
    current: TransactionMetadata, *, commit: bool, now_ms: int, allocate_producer_id: AllocateProducerId
) -> TransactionMetadata:
    next_producer_id = allocate_producer_id() if is_epoch_exhausted(current.producer_epoch) else NO_PRODUCER_ID
    return _prepared(current, commit=commit, now_ms=now_ms)._replace(
        producer_epoch=min(current.producer_epoch + 1, MAX_EPOCH),
        last_producer_epoch=current.producer_epoch,
        next_producer_id=next_producer_id,
        start_timestamp_ms=current.start_timestamp_ms if current.state is _ONGOING else now_ms,
        client_transaction_version=EPOCH_BUMP_VERSION,
    )


def complete(current: TransactionMetadata, *, now_ms: int) -> TransactionMetadata:
    """Complete a transaction whose markers are written."""
    if not current.state.is_prepared:
        _impossible(current)
    has_next_id = current.bumps_epochs and current.next_producer_id != NO_PRODUCER_ID
    is_commit = current.state is TransactionState.PREPARE_COMMIT
    return current._replace(
        producer_id=current.next_producer_id if has_next_id else current.producer_id,
        producer_epoch=0 if has_next_id else current.producer_epoch,
        previous_producer_id=current.producer_id,
        next_producer_id=NO_PRODUCER_ID,
        state=TransactionState.COMPLETE_COMMIT if is_commit else TransactionState.COMPLETE_ABORT,
        partitions=frozenset(),
        last_update_timestamp_ms=now_ms,
    )


def expire(current: TransactionMetadata) -> TransactionMetadata:
    """Expire the id: its record becomes a tombstone."""
    if not current.state.is_idle:
        _impossible(current)
    return current._replace(state=TransactionState.DEAD, partitions=frozenset())


def _impossible(current: TransactionMetadata) -> NoReturn:
    raise UnknownServerError(f"transactional id {current.transactional_id} is in state {current.state.kafka_name}")


def timed_out(metadata: Iterable[TransactionMetadata], *, now_ms: int) -> Iterator[TransactionMetadata]:
    """Return states whose transaction has been open for longer than its time-out, for `fence`."""
    return (each for each in metadata if each.state is _ONGOING and each.start_timestamp_ms + each.timeout_ms < now_ms)


def expired(metadata: Iterable[TransactionMetadata], *, now_ms: int, expiration_ms: int) -> Iterator[TransactionMetadata]:
    """Return idle states without a step for transactional.id.expiration.ms, for `expire`."""
    return (each for each in metadata if each.state.is_idle and each.last_update_timestamp_ms <= now_ms - expiration_ms)
