"""The format of records in the coordinators' topics (transactions, groups and offsets, share states).

    key      int16 record type | the key's struct, v0, not flexible
    value    int16 version | the value's struct; a null value is a tombstone

`schemas/internal/coordinator_records.py` has the tables of record types. Source:
CoordinatorRecordSerde, TransactionLog of Apache Kafka.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
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

_LOG = logging.getLogger(__name__)


class CoordinatorRecord(NamedTuple):
    """A decoded record. In a tombstone `value` is None and `version` is -1."""

    key: Any
    value: Any
    version: int


#: the bytes before a key or a value, and its encoder
_Writer = tuple[bytes, Callable[[Any], list[Buffer]]]


class RecordFrame:
    """Encodes and decodes the records of one topic."""

    def __init__(self, record_types: Sequence[CoordinatorRecordType]) -> None:
        self._by_id = {each.type_id: each for each in record_types}
        self._by_key = {each.key: each for each in record_types}
        self._key_writers: dict[type[Any], _Writer] = {}  #: by type of the key
        self._value_writers: dict[tuple[type[Any], type[Any], int], _Writer] = {}  #: by types of key and value, and version

    def encode_key(self, key: object) -> bytes:
        """Encode the key of a record."""
        writer = self._key_writers.get(type(key))
        if writer is None:
            record_type = self._by_key[type(key)]
            writer = self._key_writers[record_type.key] = _writer(record_type.type_id, encoder(record_type.key, 0, flexible=False))
        prefix, write = writer
        return b"".join((prefix, *write(key)))

    def encode_value(self, key: object, value: object, version: int) -> bytes:
        """Encode the value that belongs to `key`. Readers of the topic must know the version."""
        writer = self._value_writers.get((type(key), type(value), version))
        if writer is None:
            record_type = self._by_key[type(key)]
            if type(value) is not record_type.value or not 0 <= version <= record_type.max_version:
                raise ValueError(f"no value of {type(key).__name__} at version {version}: {value!r}")
            writer = _writer(version, encoder(record_type.value, version, flexible=version >= record_type.flexible_since))
            self._value_writers[record_type.key, record_type.value, version] = writer
        prefix, write = writer
        return b"".join((prefix, *write(value)))

    def decode(self, key: Buffer | None, value: Buffer | None) -> CoordinatorRecord | None:
        """Decode a record; None if its type is unknown, which a reader skips as Kafka does.

        Raises:
            WireError: The bytes are not a record of this topic, or the value has a version that only a newer Kafka knows.
        """
        record_type = self._by_id.get(type_of(key))
        if key is None or record_type is None:
            return None
        key_value = decode_all(record_type.key, key, _PREFIX_SIZE, 0, flexible=False)
        if value is None:
            return CoordinatorRecord(key_value, None, -1)
        version = _prefix(value, "value")
        if not 0 <= version <= record_type.max_version:
            raise WireError(f"{record_type.value.__name__} of version {version}")
        flexible = version >= record_type.flexible_since
        return CoordinatorRecord(key_value, decode_all(record_type.value, value, _PREFIX_SIZE, version, flexible), version)


def _writer(number: int, write: Callable[[Any], list[Buffer]]) -> _Writer:
    return number.to_bytes(_PREFIX_SIZE, "big"), write


def type_of(key: Buffer | None) -> int:
    """Return the record type at the start of a key.

    Raises:
        WireError: There is no key, or it has less than two bytes.
    """
    if key is None:
        raise WireError("a record without a key")
    return _prefix(key, "key")


def warn_of_unknown_types(name: str, counts: Mapping[int, int]) -> None:
    """Log that records of the partition `name` were skipped, by type, as Apache Kafka does."""
    types = ", ".join(map(str, sorted(counts)))
    _LOG.warning("%s: skipped %d records of unknown types (%s), which a newer version may have written", name, sum(counts.values()), types)


def _prefix(data: Buffer, part: str) -> int:
    if len(data) < _PREFIX_SIZE:
        raise WireError(f"a {part} of {len(data)} bytes")
    return int.from_bytes(data[:_PREFIX_SIZE], "big", signed=True)


TRANSACTION_STATE = RecordFrame(TRANSACTION_RECORD_TYPES)
CONSUMER_OFFSETS = RecordFrame(OFFSET_RECORD_TYPES)
SHARE_GROUP_STATE = RecordFrame(SHARE_STATE_RECORD_TYPES)
