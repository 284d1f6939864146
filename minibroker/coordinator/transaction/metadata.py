"""The state of one transactional id: Kafka's TransactionMetadata as an immutable value.

Invariants of every value that `states` makes
  - producer_id and producer_epoch never decrease: a new producer id is larger, and starts at epoch
    0
  - partitions is empty in Empty, Complete* and Dead
  - start_timestamp_ms is -1 in Empty only
  - no client ever gets MAX_EPOCH, which is reserved for fencing the last owner of a producer id
    (KIP-360)
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_TIMESTAMP = -1
MAX_EPOCH = 32_767  #: int16
EPOCH_BUMP_VERSION = 2  #: the transaction.version from which each end of a transaction bumps the epoch (KIP-890)

TopicPartition = tuple[str, int]


class TransactionState(IntEnum):
    """States, numbered as in records. Source: TransactionState of Apache Kafka."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def kafka_name(self) -> str:
        """The name in DescribeTransactions and ListTransactions: PrepareCommit."""
        return self.name.title().replace("_", "")

    @property
    def is_prepared(self) -> bool:
        """Whether the outcome is decided, and markers are being written."""
        return self in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is open: a transaction may start, and the id may expire."""
        return self in (TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)


class ProducerIdAndEpoch(NamedTuple):
    """The ids that a producer sends or receives."""

    producer_id: int
    producer_epoch: int


NO_IDS = ProducerIdAndEpoch(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)


class TransactionMetadata(NamedTuple):
    """One transactional id. Times are in milliseconds since the epoch."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState
    last_update_timestamp_ms: int
    start_timestamp_ms: int = NO_TIMESTAMP  #: of the open or last transaction
    partitions: frozenset[TopicPartition] = frozenset()  #: of the open transaction, or of one whose markers are being written
    previous_producer_id: int = NO_PRODUCER_ID  #: before the last step; differs only directly after a new producer id
    next_producer_id: int = NO_PRODUCER_ID  #: taken over after the markers are written, because the epochs are used up
    last_producer_epoch: int = NO_PRODUCER_EPOCH  #: a retry may still send it; it is not stored, so it is lost with the broker
    client_transaction_version: int = 0  #: of the client's last step of a transaction: 0 or 2

    @property
    def ids(self) -> ProducerIdAndEpoch:
        """The producer id and epoch."""
        return ProducerIdAndEpoch(self.producer_id, self.producer_epoch)

    @property
    def bumps_epochs(self) -> bool:
        """Whether the last step used the protocol of KIP-890."""
        return self.client_transaction_version >= EPOCH_BUMP_VERSION


def is_epoch_exhausted(producer_epoch: int) -> bool:
    """Whether the next epoch would be MAX_EPOCH, which no client gets."""
    return producer_epoch >= MAX_EPOCH - 1
