"""Batches of the metadata log and of its snapshots, read whole from memory and told apart from damage."""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Any, NamedTuple

from minibroker.cluster.metadata.frame import decode_frame
from minibroker.errors import ConfigurationError, KafkaError, WireError
from minibroker.records.any_format import decode_records
from minibroker.records.batch import HEADER_SIZE, RecordBatch
from minibroker.records.record import Record

BATCH_BYTES_MAX = 8 * 1024 * 1024  #: decompression bound of a batch of Kafka's (KafkaRaftClient.MAX_BATCH_SIZE_BYTES)

_HEAD = Struct(">qi")  #: base_offset, batch_length
_LAST_OFFSET_DELTA = Struct(">i")
_LAST_OFFSET_DELTA_POSITION = 23
_HEAD_SIZE = _HEAD.size
_MAGIC_POSITION, _MAGIC = 16, 2


class Damage(NamedTuple):
    """Where whole batches end, and why."""

    position: int
    problem: str
    has_data_behind: bool  #: data other than zeros, or where its length says nothing a whole batch: then it is no torn tail


def position_before(data: memoryview, offset: int) -> int:
    """Position of the last batch that ends at or below `offset`, found by hopping; 0 when there is none. Garbage ends the hop."""
    found = position = 0
    while position + HEADER_SIZE <= len(data):
        base_offset, batch_length = _HEAD.unpack_from(data, position)
        (delta,) = _LAST_OFFSET_DELTA.unpack_from(data, position + _LAST_OFFSET_DELTA_POSITION)
        end = position + _HEAD_SIZE + batch_length
        if base_offset + delta >= offset or batch_length < HEADER_SIZE - _HEAD_SIZE or delta < 0 or end > len(data):
            break
        found, position = position, end
    return found


def whole_batches(data: memoryview, position: int, expected_offset: int | None) -> Iterator[RecordBatch | Damage]:
    """Batches with a right CRC that follow each other without a gap; the last thing is a Damage when something else comes.

    `expected_offset`: the first one's base offset; None takes what is there.
    """
    while position < len(data):
        problem, size = None, 0
        try:
            batch = RecordBatch(data, position)
            size = batch.size
            if not batch.check_crc():
                problem = "a wrong CRC"
            elif expected_offset not in {None, batch.base_offset}:
                problem = f"offset {batch.base_offset} where {expected_offset} comes next"
        except KafkaError as error:
            problem = str(error)
        if problem is not None:
            yield Damage(position, problem, any(data[position + size :]) if size else _has_whole_batch(data, position + 1))
            return
        yield batch
        expected_offset = batch.next_offset
        position += size


def _has_whole_batch(data: memoryview, start: int) -> bool:
    """Whether a batch with a right CRC begins anywhere from `start` on: what lies before it is damage in the middle of a log."""
    for position in range(start, len(data) - HEADER_SIZE + 1):
        if data[position + _MAGIC_POSITION] == _MAGIC and _fits(data, position):
            try:
                if RecordBatch(data, position).check_crc():
                    return True
            except KafkaError:
                continue
    return False


def _fits(data: memoryview, position: int) -> bool:
    batch_length: int = _HEAD.unpack_from(data, position)[1]
    return HEADER_SIZE - _HEAD_SIZE <= batch_length <= len(data) - position - _HEAD_SIZE


def records_of(batch: RecordBatch, path: str) -> Iterator[Record]:
    """The records of a batch whose CRC is right; ConfigurationError when it does not hold any."""
    try:
        yield from decode_records(batch, max_bytes=BATCH_BYTES_MAX)
    except (WireError, KafkaError) as error:
        raise ConfigurationError(f"{path}: offset {batch.base_offset}: {error}") from error


def metadata_of(record: Record, path: str) -> Any:
    """The metadata record in a record; ConfigurationError for one that only a newer Kafka knows, or that is none."""
    try:
        return decode_frame(bytes(record.value or b""))
    except WireError as error:
        raise ConfigurationError(f"{path}: offset {record.offset}: {error}") from error
