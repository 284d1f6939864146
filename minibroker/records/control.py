"""Control records: the only record of a control batch, for brokers and clients, never for an application.

    key     version: int16 (0)   type: int16 (ControlType)
    value   ABORT, COMMIT: version: int16 (0)   coordinator_epoch: int32
            others: a message of the metadata log, in KRaft's schemas (schemas/internal)

A reader skips a type that it does not know. Sources: KIP-98, KIP-595, KIP-630, KIP-853; org.apache.kafka.common.record.ControlRecordType
and EndTransactionMarker.
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from typing import NamedTuple

from minibroker.errors import InvalidRecord, KafkaError
from minibroker.records.any_format import decode_records
from minibroker.records.batch import CONTROL_FLAG, NO_PARTITION_LEADER_EPOCH, TRANSACTIONAL_FLAG, RecordBatch
from minibroker.records.builder import build_single
from minibroker.records.record import Record

CONTROL_KEY_VERSION = 0
END_TRANSACTION_VERSION = 0

_KEY = Struct(">hh")
_END_TRANSACTION = Struct(">hi")


class ControlType(IntEnum):
    """The type of a control record."""

    ABORT = 0  #: the transaction of the batch's producer id is aborted
    COMMIT = 1  #: the transaction is committed
    LEADER_CHANGE = 2  #: the metadata log: a new leader's epoch begins
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6
    UNKNOWN = -1  #: a type of a newer Kafka


def control_key(control_type: ControlType) -> bytes:
    """Return the key of a control record of this type."""
    return _KEY.pack(CONTROL_KEY_VERSION, control_type)


def parse_control_key(key: bytes | None) -> ControlType:
    """Return the type in a control record's key, UNKNOWN for a type of a later Kafka. Raises InvalidRecord for another key."""
    if key is None or len(key) < _KEY.size:
        raise InvalidRecord(f"a control record with the key {key!r}")
    version, number = _KEY.unpack_from(key)
    if version < CONTROL_KEY_VERSION:
        raise InvalidRecord(f"a control record's key of version {version}")
    if ControlType.ABORT <= number <= ControlType.KRAFT_VOTERS:
        return ControlType(number)
    return ControlType.UNKNOWN


class EndTransactionMarker(NamedTuple):
    """The marker that a coordinator writes into each partition of a transaction. `control_type`: COMMIT or ABORT."""

    control_type: ControlType
    coordinator_epoch: int

    @classmethod
    def from_record(cls, record: Record) -> EndTransactionMarker:
        """Return the marker of a control record. Raises InvalidRecord if it is another one or broken."""
        control_type = parse_control_key(record.key)
        if control_type not in {ControlType.ABORT, ControlType.COMMIT}:
            raise InvalidRecord(f"a control record of type {control_type.name} ends no transaction")
        if record.value is None or len(record.value) < _END_TRANSACTION.size:
            raise InvalidRecord(f"an end of a transaction with the value {record.value!r}")
        version, coordinator_epoch = _END_TRANSACTION.unpack_from(record.value)
        if version < END_TRANSACTION_VERSION:
            raise InvalidRecord(f"an end of a transaction of version {version}")
        return cls(control_type, coordinator_epoch)


def read_marker(batch: RecordBatch) -> EndTransactionMarker | None:
    """Return the marker of a control batch; None if compaction removed its record, or if it is something else."""
    try:
        return next(map(EndTransactionMarker.from_record, decode_records(batch)), None)
    except KafkaError:
        return None  # written by a later Kafka, or damaged: its readers report that


def build_end_transaction_batch(
    marker: EndTransactionMarker,
    *,
    timestamp: int,
    producer_id: int,
    producer_epoch: int,
    base_offset: int = 0,
    partition_leader_epoch: int = NO_PARTITION_LEADER_EPOCH,
) -> bytearray:
    """Build the control batch that ends a transaction in one partition; without a sequence, as MemoryRecords.withEndTransactionMarker."""
    return build_single(
        timestamp,
        control_key(marker.control_type),
        _END_TRANSACTION.pack(END_TRANSACTION_VERSION, marker.coordinator_epoch),
        attributes=TRANSACTIONAL_FLAG | CONTROL_FLAG,
        base_offset=base_offset,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        partition_leader_epoch=partition_leader_epoch,
    )
