"""Requests as bytes, written by hand: a load must not depend on the code that it measures.

Versions that every broker of the comparison serves, none of them flexible: Produce 7, Fetch 11, ListOffsets 5, CreateTopics 2, Metadata 4,
IncrementalAlterConfigs 0. Transactions have more in transaction_frames.py.
"""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from crc32c import crc32c

CLIENT_ID = b"bench"
#: Where the body of an answer starts: after the correlation id.
BODY = 4
#: Where records begin in a batch.
BATCH_HEADER = 61
#: The bit in a batch's attributes.
TRANSACTIONAL = 0x10
#: Types of config resources.
TOPIC, GROUP = 2, 32


def frame(api_key: int, version: int, body: bytes) -> bytes:
    """Return a complete request with its size and a header of version 1."""
    message = struct.pack(">hhi", api_key, version, 1) + string(CLIENT_ID) + body
    return struct.pack(">i", len(message)) + message


def string(text: bytes) -> bytes:
    """A string with its 16-bit length."""
    return struct.pack(">h", len(text)) + text


def varint(number: int) -> bytes:
    """A signed number, zigzag and base 128."""
    rest = (number << 1) ^ (number >> 63)
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def record_batch(records: int, value_size: int) -> bytes:
    """A batch of format v2: records without key, each with the same random value, which does not compress."""
    return _batch(records, _records([os.urandom(value_size)] * records))


def compressed_batch(values: Sequence[bytes], codec: Codec) -> bytes:
    """A batch of format v2, compressed: records without key, of these values."""
    return _batch(len(values), codec.compress(_records(values)), attributes=codec.attribute)


def timed_batch(records: int, body: bytes, timestamp_ms: int) -> bytes:
    """A batch of records that `record_batch` encoded, all of them of one time."""
    return _batch(records, body, timestamp_ms=timestamp_ms)


def _records(values: Sequence[bytes]) -> bytes:
    body = bytearray()
    for number, value in enumerate(values):
        record = b"\0" + varint(0) + varint(number) + varint(-1) + varint(len(value)) + value + varint(0)
        body += varint(len(record)) + record
    return bytes(body)


def keyed_batch(keys: Iterable[bytes], value: bytes) -> bytes:
    """A batch of format v2: records with these keys, each with the same value."""
    tail = varint(len(value)) + value + varint(0)
    parts = []
    for number, key in enumerate(keys):
        head = b"\0\0" + varint(number) + varint(len(key))
        parts += [varint(len(head) + len(key) + len(tail)), head, key, tail]
    return _batch(number + 1, b"".join(parts))


class Codec(NamedTuple):
    """How a batch is compressed."""

    attribute: int  #: its number in a batch's attributes: lz4 3, zstd 4
    compress: Callable[[bytes], bytes]


class Ids(NamedTuple):
    """A producer's id and epoch."""

    producer_id: int = -1
    producer_epoch: int = -1


def transactional_batch(records: int, body: bytes, ids: Ids, base_sequence: int) -> bytes:
    """A batch of a transaction, of records that `record_batch` encoded; its CRC covers the producer's ids."""
    return _batch(records, body, ids, base_sequence, attributes=TRANSACTIONAL)


def _batch(
    records: int,
    body: bytes,
    ids: Ids = Ids(),  # noqa: B008  immutable
    base_sequence: int = -1,
    *,
    attributes: int = 0,
    timestamp_ms: int | None = None,
) -> bytes:
    at_ms = time.time_ns() // 1_000_000 if timestamp_ms is None else timestamp_ms
    checked = struct.pack(">hiqqqhii", attributes, records - 1, at_ms, at_ms, *ids, base_sequence, records) + body
    rest = struct.pack(">ibI", -1, 2, crc32c(checked)) + checked
    return struct.pack(">qi", 0, len(rest)) + rest


def create_topic(topic: bytes, partitions: int, configs: Mapping[bytes, bytes] | None = None) -> bytes:
    """CreateTopics v2: one topic."""
    pairs = b"".join(string(name) + string(value) for name, value in (configs or {}).items())
    settings = struct.pack(">i", len(configs or {})) + pairs
    return frame(
        19, 2, struct.pack(">i", 1) + string(topic) + struct.pack(">ihi", partitions, 1, 0) + settings + struct.pack(">ib", 30_000, 0)
    )


def metadata(topic: bytes) -> bytes:
    """Metadata v4: one topic, created if it does not exist."""
    return frame(3, 4, struct.pack(">i", 1) + string(topic) + b"\1")


def alter_config(kind: int, resource: bytes, name: bytes, value: bytes) -> bytes:
    """IncrementalAlterConfigs v0: set one config of a topic or a group."""
    setting = struct.pack(">i", 1) + string(name) + b"\0" + string(value)
    return frame(44, 0, struct.pack(">ib", 1, kind) + string(resource) + setting + b"\0")


def alter_config_error(answer: bytearray) -> int:
    """The error code of the one resource."""
    return int(struct.unpack_from(">h", answer, BODY + 4 + 4)[0])


def create_topic_error(answer: bytearray, topic: bytes) -> int:
    """The error code in the answer."""
    return int(struct.unpack_from(">h", answer, BODY + 4 + 4 + 2 + len(topic))[0])


def produce(topic: bytes, partition: int, batch: bytes) -> bytes:
    """Produce v7, acks=all."""
    return frame(0, 7, struct.pack(">hhii", -1, -1, 30_000, 1) + string(topic) + struct.pack(">iii", 1, partition, len(batch)) + batch)


def produce_error(answer: bytearray, start: int, topic: bytes) -> int:
    """The error code of the one partition."""
    return int(struct.unpack_from(">h", answer, start + BODY + 4 + 2 + len(topic) + 4 + 4)[0])


def fetch(topic: bytes, partition: int, offset: int, max_bytes: int, *, max_wait_ms: int = 500, committed: bool = False) -> bytes:
    """Fetch v11 outside any session, under read_uncommitted or read_committed."""
    head = struct.pack(">iiiibii", -1, max_wait_ms, 1, 0x7FFFFFFF, committed, 0, -1)
    place = struct.pack(">iiiqqi", 1, partition, -1, offset, -1, max_bytes)
    return frame(1, 11, head + struct.pack(">i", 1) + string(topic) + place + struct.pack(">i", 0) + string(b""))


def fetch_of_session(topic: bytes, session: tuple[int, int], offsets: Mapping[int, int], *, max_wait_ms: int = 500) -> bytes:
    """Fetch v11 in a session (its id and epoch; 0 and 0 open one): new and changed partitions with their offsets."""
    head = struct.pack(">iiiibii", -1, max_wait_ms, 1, 0x7FFFFFFF, 0, *session)
    places = b"".join(struct.pack(">iiqqi", partition, -1, offset, -1, 1 << 20) for partition, offset in offsets.items())
    topics = struct.pack(">i", 1) + string(topic) + struct.pack(">i", len(offsets)) + places if offsets else struct.pack(">i", 0)
    return frame(1, 11, head + topics + struct.pack(">i", 0) + string(b""))


def session_of(answer: bytearray) -> tuple[int, int, int]:
    """Return the error code, the session id and the number of topics with records."""
    error, session, topics = struct.unpack_from(">hii", answer, BODY + 4)
    return int(error), int(session), int(topics)


def fetched(answer: bytearray, start: int, topic: bytes) -> tuple[int, int, int]:
    """Return the error code, and where the records of the one partition begin and end."""
    position = start + BODY + 4 + 2 + 4 + 4 + 2 + len(topic) + 4 + 4
    (error,) = struct.unpack_from(">h", answer, position)
    position += 2 + 8 + 8 + 8
    (aborted,) = struct.unpack_from(">i", answer, position)
    position += 4 + max(aborted, 0) * 16 + 4
    (size,) = struct.unpack_from(">i", answer, position)
    return int(error), position + 4, position + 4 + max(size, 0)


def offset_after(answer: bytearray, position: int, end: int, offset: int) -> int:
    """Return the offset after the last complete batch, or `offset` itself without one."""
    while end - position >= 61:
        base_offset, length = struct.unpack_from(">qi", answer, position)
        if position + 12 + length > end:
            break
        (last_offset_delta,) = struct.unpack_from(">i", answer, position + 23)
        offset = base_offset + last_offset_delta + 1
        position += 12 + length
    return offset


def list_offsets(topic: bytes, partition: int, timestamp: int) -> bytes:
    """ListOffsets v5 under read_uncommitted."""
    return frame(2, 5, struct.pack(">ibi", -1, 0, 1) + string(topic) + struct.pack(">iiiq", 1, partition, -1, timestamp))


def listed_offset(answer: bytearray, topic: bytes) -> int:
    """The offset of the one partition."""
    return int(struct.unpack_from(">q", answer, BODY + 4 + 4 + 2 + len(topic) + 4 + 4 + 2 + 8)[0])


def list_offsets_error(answer: bytearray, start: int, topic: bytes) -> int:
    """The error code of the one partition."""
    return int(struct.unpack_from(">h", answer, start + BODY + 4 + 4 + 2 + len(topic) + 4 + 4)[0])
