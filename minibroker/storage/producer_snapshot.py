"""`.snapshot`: the state of all producers at an offset, which is the file's name.

Layout, version 1, big-endian:

    int16   version                    1
    uint32  crc                        CRC-32C of everything after it
    int32   count
    count times, 46 bytes each:
      int64   producer_id
      int16   producer_epoch
      int32   last_sequence            of the last batch; -1 if there is none
      int64   last_offset              of the last batch; -1 if there is none
      int32   offset_delta             last offset less first offset of the last batch
      int64   timestamp                largest one of the last batch
      int32   coordinator_epoch        of the last transaction marker; -1
      int64   current_txn_first_offset of the open transaction; -1

Source: ProducerSnapshot.json and ProducerStateManager of Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from typing import NamedTuple

from minibroker.errors import CorruptLogError
from minibroker.records.checksum import crc32c

VERSION = 1
_HEADER = Struct(">hIi")
_ENTRY = Struct(">qhiqiqiq")
_CRC_FROM = 6


class ProducerEntry(NamedTuple):
    """The entry of one producer: only its last batch."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int
    coordinator_epoch: int = -1
    current_txn_first_offset: int = -1


def encode(entries: Iterable[ProducerEntry]) -> bytes:
    """Return the bytes of a file with these entries."""
    packed = [_ENTRY.pack(*entry) for entry in entries]
    body = len(packed).to_bytes(4, "big") + b"".join(packed)
    return VERSION.to_bytes(2, "big") + crc32c(body).to_bytes(4, "big") + body


def decode(data: bytes) -> list[ProducerEntry]:
    """Return the entries of a file. Raises CorruptLogError unless it is a whole snapshot of version 1."""
    if len(data) < _HEADER.size:
        raise CorruptLogError(f"a snapshot of {len(data)} bytes")
    version, crc, count = _HEADER.unpack_from(data)
    if version != VERSION:
        raise CorruptLogError(f"unknown snapshot version {version}")
    if crc != crc32c(data[_CRC_FROM:]):
        raise CorruptLogError("the snapshot's CRC is wrong")
    if count < 0 or len(data) != _HEADER.size + count * _ENTRY.size:
        raise CorruptLogError(f"a snapshot of {count} entries has {len(data)} bytes")
    return [ProducerEntry(*fields) for fields in _ENTRY.iter_unpack(data[_HEADER.size :])]
