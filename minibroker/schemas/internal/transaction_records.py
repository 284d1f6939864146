"""Records of `__transaction_state`: one key for each transactional id, whose last record is its state.

TransactionLogValue
  v0  transaction.version 0
  v1  flexible; the tagged fields of KIP-890, as transaction.version 1 and 2 write them

States: 0 Empty, 1 Ongoing, 2 PrepareCommit, 3 PrepareAbort, 4 CompleteCommit, 5 CompleteAbort, 6 Dead, 7 PrepareEpochFence.
"""

from __future__ import annotations

from minibroker.wire.schema import Int8, Int16, Int32, Int64, String, field, struct


@struct
class TransactionLogKey:
    """Whose state it is."""

    transactional_id: String


@struct
class TransactionPartitions:
    """Partitions of one topic; Kafka's name is PartitionsSchema."""

    topic: String
    partition_ids: list[Int32]


@struct
class TransactionLogValue:
    """Kafka's TransactionMetadata, or rather the part of it that outlives a broker."""

    producer_id: Int64
    previous_producer_id: Int64 = field(since=1, tag=0, default=-1)  #: before this one; the same while it did not change
    next_producer_id: Int64 = field(since=1, tag=1, default=-1)  #: to go over to once this one has ended, -1 when it stays
    producer_epoch: Int16
    next_producer_epoch: Int16 = field(since=1, tag=3, default=-1)
    transaction_timeout_ms: Int32
    transaction_status: Int8  #: the states above
    transaction_partitions: list[TransactionPartitions] | None  #: null in state Empty; an empty list when the transaction is complete
    transaction_last_update_timestamp_ms: Int64
    transaction_start_timestamp_ms: Int64  #: of the last one; -1 in state Empty
    client_transaction_version: Int16 = field(since=1, tag=2, default=0)  #: transaction.version that the client follows
