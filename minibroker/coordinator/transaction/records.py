"""Records of `__transaction_state`: the last record of a transactional id is its state.

The key is the id. The value has version 1 at transaction.version 1 and 2. Version 0 has no tagged
fields, so at transaction.version 0 a restart loses the previous and next producer id and the
client's version. An expired id is a tombstone. last_producer_epoch is never stored: a retry of
InitProducerId across a restart is fenced, as in Kafka.

Source: TransactionLog, TransactionStateManager.loadTransactionMetadata of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from minibroker.coordinator.transaction.metadata import TopicPartition, TransactionMetadata, TransactionState
from minibroker.errors import WireError
from minibroker.schemas.internal.transaction_records import TransactionLogKey, TransactionLogValue, TransactionPartitions
from minibroker.storage.record_frame import TRANSACTION_STATE, type_of
from minibroker.wire.schema import Buffer


def value_version(transaction_version: int) -> int:
    """Return the version of values at a finalized transaction.version."""
    return 0 if transaction_version == 0 else 1


def encode(metadata: TransactionMetadata, *, transaction_version: int) -> tuple[bytes, bytes | None]:
    """Encode key and value of the record of `metadata`; no value if it is Dead."""
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
    """Decode the id and its state, which is None for a tombstone. Return None for a record of an unknown type.

    Raises:
        WireError: These are not bytes of this topic.
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
