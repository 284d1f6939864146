"""Records of the coordinators' topics (transactions, groups and offsets, share partitions) as keys and values of record batches.

    key      int16 record type | the key's struct, v0, not flexible
    value    int16 version | the value's struct; no value at all is a tombstone

The tables of record types are `schemas/internal/coordinator_records.py`. Source: CoordinatorRecordSerde, TransactionLog of Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from minibroker.errors import WireError
from minibroker.schemas.internal.coordinator_records import (
    OFFSET_RECORD_TYPES,
    SHARE_STATE_RECORD_TYPES,
    TRANSACTION_RECORD_TYPES,
    CoordinatorRecordType,
)
from minibroker.wire.compiled import decode_all, encoder
from minibroker.wire.schema import Buffer

_PREFIX_SIZE = 2


class CoordinatorRecord(NamedTuple):
    """What a record says; `value` is None, and `version` -1, in a tombstone."""

    key: Any
    value: Any
    version: int


class RecordFrame:
    """Reads and writes the records of one topic."""

    def __init__(self, record_types: Sequence[CoordinatorRecordType]) -> None:
        self._by_id = {each.type_id: each for each in record_types}
        self._by_key = {each.key: each for each in record_types}
        self._key_prefixes = {each.key: each.type_id.to_bytes(_PREFIX_SIZE, "big") for each in record_types}

    def encode_key(self, key: object) -> bytes:
        """The key of a record."""
        return b"".join([self._key_prefixes[type(key)], *encoder(type(key), 0, flexible=False)(key)])

    def encode_value(self, key: object, value: object, version: int) -> bytes:
        """The value that belongs to `key`, in a version that its readers know."""
        record_type = self._by_key[type(key)]
        if type(value) is not record_type.value or not 0 <= version <= record_type.max_version:
            raise ValueError(f"no value of {type(key).__name__} at version {version}: {value!r}")
        write = encoder(record_type.value, version, flexible=version >= record_type.flexible_since)
        return b"".join([version.to_bytes(_PREFIX_SIZE, "big"), *write(value)])

    def decode(self, key: Buffer | None, value: Buffer | None) -> CoordinatorRecord | None:
        """The record; None where its type is not known, which a reader passes over as Kafka does.

        Raises:
            WireError: the bytes are no record of this topic, or a value is of a version that only a newer Kafka knows.
        """
        if key is None:
            raise WireError("a record without a key")
        record_type = self._by_id.get(_prefix(key, "key"))
        if record_type is None:
            return None
        key_value = decode_all(record_type.key, key, _PREFIX_SIZE, 0, flexible=False)
        if value is None:
            return CoordinatorRecord(key_value, None, -1)
        version = _prefix(value, "value")
        if not 0 <= version <= record_type.max_version:
            raise WireError(f"{record_type.value.__name__} of version {version}")
        flexible = version >= record_type.flexible_since
        return CoordinatorRecord(key_value, decode_all(record_type.value, value, _PREFIX_SIZE, version, flexible), version)


def _prefix(data: Buffer, what: str) -> int:
    if len(data) < _PREFIX_SIZE:
        raise WireError(f"a {what} of {len(data)} bytes")
    return int.from_bytes(data[:_PREFIX_SIZE], "big", signed=True)


TRANSACTION_STATE = RecordFrame(TRANSACTION_RECORD_TYPES)
CONSUMER_OFFSETS = RecordFrame(OFFSET_RECORD_TYPES)
SHARE_GROUP_STATE = RecordFrame(SHARE_STATE_RECORD_TYPES)
