"""The state of a transactional id (Kafka's TransactionMetadata), and its records in `__transaction_state`.

The last record of an id is its state. The key is the id. The value has version 1 at
transaction.version 1 and 2. Version 0 has no tagged fields: at transaction.version 0 a restart
loses the previous and next producer id and the client's version. An expired id is a tombstone.
last_producer_epoch is never stored: a retry of InitProducerId across a restart is fenced, as in
Kafka.

Source: TransactionLog, TransactionStateManager.loadTransactionMetadata of Apache Kafka 4.3.1.

Invariants of every state that `states` creates
  - producer_id and producer_epoch never decrease: a new producer id is larger, and starts at epoch
    0
  - partitions is empty in Empty, Complete* and Dead
  - start_timestamp_ms is -1 in Empty only
  - no client ever gets MAX_EPOCH, which is reserved for fencing the last owner of a producer id
    (KIP-360)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from enum import IntEnum
from functools import lru_cache
from struct import Struct, pack
from typing import Final, NamedTuple

from minibroker.errors import WireError
from minibroker.schemas.internal.transaction_records import TransactionLogKey, TransactionLogValue, TransactionPartitions
from minibroker.storage.record_frame import TRANSACTION_STATE, type_of
from minibroker.wire.primitives import MAX_STRING_SIZE, unsigned_varint
from minibroker.wire.schema import Buffer

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
    next_producer_id: int = NO_PRODUCER_ID  #: replaces producer_id after the markers are written, because the epochs are used up
    last_producer_epoch: int = NO_PRODUCER_EPOCH  #: a retry may still send it; a restart of the broker loses it
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


def value_version(transaction_version: int) -> int:
    """Return the version of values at a finalized transaction.version."""
    return 0 if transaction_version == 0 else 1


def encode(metadata: TransactionMetadata, *, transaction_version: int) -> tuple[bytes, bytes | None]:
    """Encode key and value of the record of `metadata`; the value is None if it is Dead."""
    encoded_id = metadata.transactional_id.encode()
    if len(encoded_id) <= MAX_STRING_SIZE and metadata.state is not TransactionState.DEAD and value_version(transaction_version) == 1:
        return _pack_key(_KEY_TYPE, len(encoded_id)) + encoded_id, _encode_value(metadata)
    key = TransactionLogKey(transactional_id=metadata.transactional_id)
    if metadata.state is TransactionState.DEAD:
        return TRANSACTION_STATE.encode_key(key), None
    version = value_version(transaction_version)
    value = (
        _value(metadata)
        if version
        else _value(metadata._replace(previous_producer_id=-1, next_producer_id=-1, client_transaction_version=0))
    )
    return TRANSACTION_STATE.encode_key(key), TRANSACTION_STATE.encode_value(key, value, version)


_KEY_TYPE: Final = 0
_VALUE_VERSION: Final = 1
_NULL: Final = b"\0"
_CACHED_SETS: Final = 1_024  #: of partitions; a producer often writes to the same ones
_LARGE_SET: Final = 16  #: partitions; larger sets are not cached

_pack_key = Struct(">hh").pack  #: type, size of the id that follows
_pack_state = Struct(">hqhib").pack  #: version, producer_id, producer_epoch, transaction_timeout_ms, status; partitions follow
_pack_times = Struct(">qqB").pack  #: last_update_timestamp_ms, start_timestamp_ms, the count of tagged fields that follow
_pack_tagged_id = Struct(">BBq").pack  #: tag, size, a producer id
_pack_tagged_version = Struct(">BBh").pack  #: tag, size, a version


def _encode_value(metadata: TransactionMetadata) -> bytes:
    """Encode a value of version 1: the same bytes as the codec for `_value`, in one step."""
    partitions = metadata.partitions
    encoded = _NULL
    if metadata.state is not TransactionState.EMPTY:
        encoded = _encode_partitions(partitions) if len(partitions) < _LARGE_SET else _encode_partitions.__wrapped__(partitions)
    tagged = []
    if metadata.previous_producer_id != NO_PRODUCER_ID:
        tagged.append(_pack_tagged_id(0, 8, metadata.previous_producer_id))
    if metadata.next_producer_id != NO_PRODUCER_ID:
        tagged.append(_pack_tagged_id(1, 8, metadata.next_producer_id))
    if metadata.client_transaction_version:
        tagged.append(_pack_tagged_version(2, 2, metadata.client_transaction_version))
    return b"%b%b%b%b" % (
        _pack_state(_VALUE_VERSION, metadata.producer_id, metadata.producer_epoch, metadata.timeout_ms, metadata.state),
        encoded,
        _pack_times(metadata.last_update_timestamp_ms, metadata.start_timestamp_ms, len(tagged)),
        b"".join(tagged),
    )


@lru_cache(_CACHED_SETS)
def _encode_partitions(partitions: frozenset[TopicPartition]) -> bytes:
    topics = _by_topic(partitions)
    out = [unsigned_varint(len(topics) + 1)]
    for each in topics:
        name = each.topic.encode()
        count = len(each.partition_ids)
        out += (unsigned_varint(len(name) + 1), name, unsigned_varint(count + 1), pack(f">{count}ix", *each.partition_ids))
    return b"".join(out)


def _value(metadata: TransactionMetadata) -> TransactionLogValue:
    return TransactionLogValue(
        producer_id=metadata.producer_id,
        previous_producer_id=metadata.previous_producer_id,
        next_producer_id=metadata.next_producer_id,
        producer_epoch=metadata.producer_epoch,
        transaction_timeout_ms=metadata.timeout_ms,
        transaction_status=int(metadata.state),
        transaction_partitions=None if metadata.state is TransactionState.EMPTY else _by_topic(metadata.partitions),
        transaction_last_update_timestamp_ms=metadata.last_update_timestamp_ms,
        transaction_start_timestamp_ms=metadata.start_timestamp_ms,
        client_transaction_version=metadata.client_transaction_version,
    )


def _by_topic(partitions: Iterable[TopicPartition]) -> list[TransactionPartitions]:
    ids_by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        ids_by_topic.setdefault(topic, []).append(partition)
    return [TransactionPartitions(topic=topic, partition_ids=ids) for topic, ids in ids_by_topic.items()]


def decode(key: Buffer | None, value: Buffer | None) -> tuple[str, TransactionMetadata | None] | None:
    """Decode the id and its state, which is None for a tombstone.

    Return None for a record of an unknown type.

    Raises:
        WireError: The bytes are not a record of this topic.
    """
    record = TRANSACTION_STATE.decode(key, value)
    if record is None:
        return None
    transactional_id = record.key.transactional_id
    return transactional_id, None if record.value is None else _metadata(transactional_id, record.value)


def _metadata(transactional_id: str, value: TransactionLogValue) -> TransactionMetadata:
    try:
        state = TransactionState(value.transaction_status)
    except ValueError:
        raise WireError(f"transactional id {transactional_id} in state {value.transaction_status}") from None
    if value.transaction_partitions is None and state is not TransactionState.EMPTY:
        raise WireError(f"transactional id {transactional_id} in state {state.kafka_name} without partitions")
    topics = () if state is TransactionState.EMPTY else value.transaction_partitions or ()
    return TransactionMetadata(
        transactional_id=transactional_id,
        producer_id=value.producer_id,
        producer_epoch=value.producer_epoch,
        timeout_ms=value.transaction_timeout_ms,
        state=state,
        last_update_timestamp_ms=value.transaction_last_update_timestamp_ms,
        start_timestamp_ms=value.transaction_start_timestamp_ms,
        partitions=frozenset((each.topic, partition) for each in topics for partition in each.partition_ids),
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        client_transaction_version=value.client_transaction_version,
    )


def replay(
    records: Iterable[tuple[Buffer | None, Buffer | None]], unknown_types: Counter[int] | None = None
) -> dict[str, TransactionMetadata]:
    """Return the state of each id after keys and values in the order of the log, and count records of unknown types.

    Raises:
        WireError: One of them is not a record of this topic.
    """
    states: dict[str, TransactionMetadata] = {}
    for key, value in records:
        decoded = decode(key, value)
        if decoded is None:
            if unknown_types is not None:
                unknown_types[type_of(key)] += 1
            continue
        transactional_id, metadata = decoded
        if metadata is None:
            states.pop(transactional_id, None)
        else:
            states[transactional_id] = metadata
    return states
