"""Requests of transactions as bytes: as clients before Kafka 4 sent them (version 1), and as newer ones do (version 2, KIP-890).

Version 1 is AddPartitionsToTxn 1, Produce 7, EndTxn 1. Version 2 is Produce 12, which adds the partition itself, and EndTxn 5, which
raises the epoch; both are flexible. Besides FindCoordinator 1, InitProducerId 1 and DescribeTransactions 0.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

from frames import BODY, CLIENT_ID, Ids, frame, string

TRANSACTION = 1  #: the key_type of FindCoordinator
NO_TAGS = b"\0"


def unsigned(number: int) -> bytes:
    """A number of at most 28 bits, base 128."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def compact(data: bytes) -> bytes:
    """Bytes or a string with their length + 1."""
    return unsigned(len(data) + 1) + data


def flexible(api_key: int, version: int, body: bytes) -> bytes:
    """Return a complete request with its size and a header of version 2."""
    message = struct.pack(">hhi", api_key, version, 1) + string(CLIENT_ID) + NO_TAGS + body
    return struct.pack(">i", len(message)) + message


def find_coordinator(transactional_id: bytes) -> bytes:
    """FindCoordinator v1."""
    return frame(10, 1, string(transactional_id) + struct.pack(">b", TRANSACTION))


def find_coordinator_error(answer: bytearray) -> int:
    """The error code in the answer."""
    return int(struct.unpack_from(">h", answer, BODY + 4)[0])


def init_producer_id(transactional_id: bytes, timeout_ms: int = 600_000) -> bytes:
    """InitProducerId v1."""
    return frame(22, 1, string(transactional_id) + struct.pack(">i", timeout_ms))


def producer_ids(answer: bytearray, start: int) -> tuple[int, Ids]:
    """Return the error code, and the producer's new id and epoch."""
    error, producer_id, producer_epoch = struct.unpack_from(">hqh", answer, start + BODY + 4)
    return int(error), Ids(producer_id, producer_epoch)


def add_partitions(transactional_id: bytes, ids: Ids, topic: bytes, partitions: list[int]) -> bytes:
    """AddPartitionsToTxn v1: partitions of one topic."""
    numbers = struct.pack(f">i{len(partitions)}i", len(partitions), *partitions)
    return frame(24, 1, string(transactional_id) + struct.pack(">qhi", *ids, 1) + string(topic) + numbers)


def add_partitions_error(answer: bytearray, start: int, topic: bytes) -> int:
    """The error code of the first partition."""
    return int(struct.unpack_from(">h", answer, start + BODY + 4 + 4 + 2 + len(topic) + 4 + 4)[0])


def end(transactional_id: bytes, ids: Ids, *, commit: bool) -> bytes:
    """EndTxn v1."""
    return frame(26, 1, string(transactional_id) + struct.pack(">qhb", *ids, commit))


def end_error(answer: bytearray, start: int) -> int:
    """The error code in the answer."""
    return int(struct.unpack_from(">h", answer, start + BODY + 4)[0])


def end_v2(transactional_id: bytes, ids: Ids, *, commit: bool) -> bytes:
    """EndTxn v5."""
    return flexible(26, 5, compact(transactional_id) + struct.pack(">qhb", *ids, commit) + NO_TAGS)


def ended_v2(answer: bytearray, start: int) -> tuple[int, Ids]:
    """Return the error code, and the producer's id and epoch for its next transaction."""
    error, producer_id, producer_epoch = struct.unpack_from(">hqh", answer, start + BODY + 1 + 4)
    return int(error), Ids(producer_id, producer_epoch)


def produce(transactional_id: bytes, topic: bytes, partition: int, batch: bytes) -> bytes:
    """Produce v7, acks=all."""
    head = string(transactional_id) + struct.pack(">hii", -1, 30_000, 1) + string(topic)
    return frame(0, 7, head + struct.pack(">iii", 1, partition, len(batch)) + batch)


def produce_v2(transactional_id: bytes, topic: bytes, partition: int, batch: bytes) -> bytes:
    """Produce v12, acks=all."""
    head = compact(transactional_id) + struct.pack(">hi", -1, 30_000) + unsigned(2) + compact(topic)
    return flexible(0, 12, head + unsigned(2) + struct.pack(">i", partition) + compact(batch) + NO_TAGS * 3)


def produce_v2_error(answer: bytearray, start: int, topic: bytes) -> int:
    """The error code of the one partition."""
    return int(struct.unpack_from(">h", answer, start + BODY + 1 + 1 + len(compact(topic)) + 1 + 4)[0])


def describe(transactional_ids: Iterable[bytes]) -> bytes:
    """DescribeTransactions v0."""
    named = [compact(each) for each in transactional_ids]
    return flexible(65, 0, unsigned(len(named) + 1) + b"".join(named) + NO_TAGS)


def described(answer: bytearray) -> Iterator[tuple[int, bytes]]:
    """Return (error code, state) of each transactional id."""
    count, position = _unsigned_at(answer, BODY + 1 + 4)
    for _ in range(count - 1):
        (error,) = struct.unpack_from(">h", answer, position)
        _, position = _compact_at(answer, position + 2)
        state, position = _compact_at(answer, position)
        topics, position = _unsigned_at(answer, position + 4 + 8 + 8 + 2)
        for _topic in range(topics - 1):
            _, position = _compact_at(answer, position)
            partitions, position = _unsigned_at(answer, position)
            position += 4 * (partitions - 1) + 1
        position += 1
        yield error, state


def _unsigned_at(data: bytearray, position: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[position]
        position += 1
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return number, position


def _compact_at(data: bytearray, position: int) -> tuple[bytes, int]:
    length, position = _unsigned_at(data, position)
    return bytes(data[position : position + length - 1]), position + length - 1
