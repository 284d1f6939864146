"""Read the batches of the metadata log and its snapshots, and detect damage."""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Any, NamedTuple

from minibroker.cluster.metadata.frame import decode_frame
from minibroker.errors import ConfigurationError, KafkaError, WireError
from minibroker.records.any_format import decode_records
from minibroker.records.batch import HEADER_SIZE, RecordBatch
from minibroker.records.record import Record

BATCH_BYTES_MAX = 8 * 1024 * 1024  #: limit of the decompressed size of a batch (KafkaRaftClient.MAX_BATCH_SIZE_BYTES)

_HEAD = Struct(">qi")  #: base_offset, batch_length
_LAST_OFFSET_DELTA = Struct(">i")
_LAST_OFFSET_DELTA_POSITION = 23
_HEAD_SIZE = _HEAD.size
_MAGIC_POSITION, _MAGIC = 16, 2


class BatchDamage(NamedTuple):
    """Where whole batches end, and why."""

    position: int
    problem: str
    has_data_after: bool  #: whether other data than zeros follows, or a whole batch if the length is unknown: then it is not a torn tail


def position_before(data: memoryview, offset: int) -> int:
    """Return the position of the last batch that ends at or below `offset`; 0 if there is none. Stop at garbage."""
    found = position = 0
    while position + HEADER_SIZE <= len(data):
        base_offset, batch_length = _HEAD.unpack_from(data, position)
        (delta,) = _LAST_OFFSET_DELTA.unpack_from(data, position + _LAST_OFFSET_DELTA_POSITION)
        end = position + _HEAD_SIZE + batch_length
        if base_offset + delta >= offset or batch_length < HEADER_SIZE - _HEAD_SIZE or delta < 0 or end > len(data):
            break
        found, position = position, end
    return found


def whole_batches(data: memoryview, position: int, expected_offset: int | None) -> Iterator[RecordBatch | BatchDamage]:
    """Yield batches with a correct CRC that follow each other without a gap, and a BatchDamage where they end early.

    `expected_offset` is the base offset of the first one; None accepts any.
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
            yield BatchDamage(position, problem, any(data[position + size :]) if size else _has_whole_batch(data, position + 1))
            return
        yield batch
        expected_offset = batch.next_offset
        position += size


def _has_whole_batch(data: memoryview, start: int) -> bool:
    """Whether a whole batch follows anywhere from `start` on. Then the damage is in the middle of the log."""
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
    """Yield the records of a batch whose CRC is correct. Raise ConfigurationError if they cannot be decoded."""
    try:
        yield from decode_records(batch, max_bytes=BATCH_BYTES_MAX)
    except (WireError, KafkaError) as error:
        raise ConfigurationError(f"{path}: offset {batch.base_offset}: {error}") from error


def metadata_of(record: Record, path: str) -> Any:
    """Return the metadata record in a record. Raise ConfigurationError for an invalid or unknown one."""
    try:
        return decode_frame(bytes(record.value or b""))
    except WireError as error:
        raise ConfigurationError(f"{path}: offset {record.offset}: {error}") from error
