"""Admission of transactional batches: their transaction must include the partition, which the coordinator checks or adds (KIP-890).

    Produce    a partition that the transaction does not include
    to 10      INVALID_TXN_STATE
    11         TRANSACTION_ABORTABLE
    from 12    is added by this request

With transaction.partition.verification.enable=false versions to 11 are not checked, as in Kafka:
what they write may stay open until the next start ends it. A partition where this producer has an
open transaction needs no check. Producers get the coordinator's errors as from Apache Kafka:
PRODUCER_FENCED as INVALID_PRODUCER_EPOCH, and while it is not available NOT_ENOUGH_REPLICAS, which
every client retries without looking for another leader. Source: AddPartitionsToTxnManager,
ReplicaManager of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from minibroker.coordinator.transaction.coordinator import TransactionCoordinator
from minibroker.coordinator.transaction.records import ProducerIdAndEpoch, TopicPartition
from minibroker.errors import (
    ConcurrentTransactions,
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    InvalidProducerEpoch,
    InvalidTxnState,
    KafkaError,
    NotCoordinator,
    NotEnoughReplicas,
    ProducerFenced,
    TransactionAbortable,
)
from minibroker.log.partition_log import PartitionLog

ABORTABLE_SINCE: Final = 11
ADDED_SINCE: Final = 12

_NOBODY_TO_ASK: Final = (CoordinatorLoadInProgress, CoordinatorNotAvailable, NotCoordinator)


class Admission(NamedTuple):
    """The result of an admission."""

    refused: dict[TopicPartition, KafkaError]  #: the errors of rejected batches; all others may be appended
    log: PartitionLog | None = None  #: of the coordinator, if it must be synced before the producer gets its answer


ALL: Final = Admission({})


def admit(
    coordinator: TransactionCoordinator,
    transactional_id: str,
    ids: ProducerIdAndEpoch,
    partitions: frozenset[TopicPartition],
    *,
    produce_version: int,
) -> Admission:
    """Add `partitions` to a transaction, or check that it includes them, depending on the version of Produce."""
    try:
        if produce_version >= ADDED_SINCE:
            return Admission({}, coordinator.add_now(transactional_id, ids, partitions))
        if not coordinator.verifies_partitions:
            return ALL
        verified = coordinator.verify_partitions(transactional_id, ids, partitions)
    except KafkaError as error:
        answer = _producer_error(error, produce_version)
        return Admission(dict.fromkeys(partitions, answer))
    return Admission({each: _producer_error(error(), produce_version) for each, error in verified.items() if error is not None})


def _producer_error(error: KafkaError, produce_version: int) -> KafkaError:
    if isinstance(error, ProducerFenced):
        return InvalidProducerEpoch()
    if isinstance(error, InvalidTxnState) or (isinstance(error, TransactionAbortable) and produce_version < ABORTABLE_SINCE):
        return InvalidTxnState("Partition was not added to the transaction")
    if isinstance(error, _NOBODY_TO_ASK) or (isinstance(error, ConcurrentTransactions) and produce_version < ADDED_SINCE):
        return NotEnoughReplicas(f"Unable to verify the partition has been added to the transaction. Underlying error: {error.name}")
    return error
