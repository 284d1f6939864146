"""What the coordinator knows of one transactional id: Kafka's TransactionMetadata as a value that never changes.

Invariants of every value that `states` makes
  - producer_id and producer_epoch never go back: a new producer id is larger, and starts at epoch 0
  - partitions is empty in Empty, Complete* and Dead
  - start_timestamp_ms is -1 in Empty and there alone
  - no client is ever told MAX_EPOCH: that one is left for fencing the last owner of a producer id (KIP-360)
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
    """Numbered as the records have them. Source: TransactionState of Apache Kafka."""

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
        """As DescribeTransactions and ListTransactions spell it: PrepareCommit."""
        return self.name.title().replace("_", "")

    @property
    def is_prepared(self) -> bool:
        """The outcome is decided, and markers are on their way."""
        return self in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)

    @property
    def is_idle(self) -> bool:
        """Nothing is open: a transaction may start, and the id may expire."""
        return self in (TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)


class ProducerIdAndEpoch(NamedTuple):
    """Who a producer says it is, or is told to be."""

    producer_id: int
    producer_epoch: int


NO_IDS = ProducerIdAndEpoch(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)


class TransactionMetadata(NamedTuple):
    """One transactional id; times are in milliseconds since the epoch."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState
    last_update_timestamp_ms: int
    start_timestamp_ms: int = NO_TIMESTAMP  #: of the transaction that is open or ended last
    partitions: frozenset[TopicPartition] = frozenset()  #: of the transaction that is open or whose markers are on their way
    previous_producer_id: int = NO_PRODUCER_ID  #: before the last step; differs only right after a new producer id
    next_producer_id: int = NO_PRODUCER_ID  #: to go over to when the markers are written, since the epochs are used up
    last_producer_epoch: int = NO_PRODUCER_EPOCH  #: that a retry may still name; it is not stored, so it ends with the broker
    client_transaction_version: int = 0  #: of the client that took the last step of a transaction: 0 or 2

    @property
    def ids(self) -> ProducerIdAndEpoch:
        """Producer id and epoch."""
        return ProducerIdAndEpoch(self.producer_id, self.producer_epoch)

    @property
    def bumps_epochs(self) -> bool:
        """The last step was one of KIP-890's protocol."""
        return self.client_transaction_version >= EPOCH_BUMP_VERSION


def is_epoch_exhausted(producer_epoch: int) -> bool:
    """The next epoch would be MAX_EPOCH, which nobody is given."""
    return producer_epoch >= MAX_EPOCH - 1
