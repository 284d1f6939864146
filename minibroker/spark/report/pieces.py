"""Turn bytes of a log into pieces to count: check the batches of a chunk, decompress wanted ones, measure their fields."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from minibroker.errors import CorruptLogError, KafkaError
from minibroker.records.any_format import decode_records, read_batch
from minibroker.records.batch import (
    ATTRIBUTES_POSITION,
    COMPRESSION_MASK,
    CONTROL_FLAG,
    HEADER_SIZE,
    LOG_APPEND_TIME_FLAG,
    LOG_OVERHEAD,
    MAGIC_V2,
)
from minibroker.records.checksum import crc32c
from minibroker.records.compression import Compression, decompress
from minibroker.records.record import Record
from minibroker.spark.kafka_log.fields import PADDING, Fields, MalformedBatchError, Payloads, read_fields
from minibroker.spark.kafka_log.frames import frame_positions, read_frame_headers, read_head
from minibroker.spark.report.counting import Piece, Records

GROUP_BYTES = 8 << 20  #: of records measured at once; a larger batch is its own group

#: Return from headers and whole batches which batches belong to aborted transactions.
IsAborted = Callable[[np.ndarray, Sequence[memoryview]], np.ndarray]


class Chunk(NamedTuple):
    """Bytes of a log that start with a batch and may end within one."""

    data: bytes
    where: Callable[[int], str]  #: describes a position in `data`
    is_aborted: IsAborted
    start_offset: int  #: skip batches that end below it
    end_offset: int  #: skip batches that start at or above it


class ReadChunk(NamedTuple):
    """The readable part of a chunk: `size` bytes of whole batches, the offset after them, and their pieces."""

    size: int
    next_offset: int
    pieces: Iterator[Piece]


def nothing_aborted(headers: np.ndarray, batches: Sequence[memoryview]) -> np.ndarray:  # noqa: ARG001  an IsAborted
    """Return that no batch is aborted, for read_uncommitted."""
    return np.zeros(len(headers), bool)


def read_chunk(chunk: Chunk) -> ReadChunk:
    """Return the whole batches at the start of a chunk, of one format; size 0 if there is none.

    They are decoded when `pieces` is iterated, which raises CorruptLogError for a corrupt batch.
    """
    positions, size = frame_positions(chunk.data)
    if positions:
        headers = read_frame_headers(chunk.data, positions)
        next_offset = int(headers["base_offset"][-1]) + int(headers["last_offset_delta"][-1]) + 1
        return ReadChunk(size, next_offset, _pieces(chunk, headers, positions))
    return _read_old(chunk)


def _pieces(chunk: Chunk, headers: np.ndarray, positions: list[int]) -> Iterator[Piece]:
    starts = headers["base_offset"].astype(np.int64)
    stops = starts + headers["last_offset_delta"] + 1
    wanted = np.flatnonzero((stops > chunk.start_offset) & (starts < chunk.end_offset))
    headers, starts, stops = headers[wanted], starts[wanted], stops[wanted]
    view = memoryview(chunk.data)
    sizes = headers["batch_length"].astype(np.int64) + LOG_OVERHEAD
    places = [positions[index] for index in wanted.tolist()]
    batches = [view[place : place + size] for place, size in zip(places, sizes.tolist(), strict=True)]
    _check(chunk, headers, places, batches)
    is_control = (headers["attributes"] & CONTROL_FLAG) != 0
    is_hidden = is_control | chunk.is_aborted(headers, batches)
    first = 0
    while first < len(places):
        payloads, last = _payloads(chunk, headers, _Group(places, batches, is_hidden, first))
        part = slice(first, last)
        shown = np.flatnonzero(~is_hidden[part]) + first
        records = _records(chunk, headers[shown], [places[index] for index in shown.tolist()], payloads)
        hidden = np.flatnonzero(is_hidden[part]) + first
        yield Piece(
            int(starts[first]),
            int(stops[last - 1]),
            records,
            starts[hidden],
            stops[hidden],
            is_control[hidden],
            starts[part],
            sizes[part],
            (headers["attributes"][part] & COMPRESSION_MASK).astype(np.int64),
        )
        first = last


def _check(chunk: Chunk, headers: np.ndarray, places: list[int], batches: list[memoryview]) -> None:
    """Check CRC and order of the wanted batches; CorruptLogError."""
    for expected, place, batch in zip(headers["crc"].tolist(), places, batches, strict=True):
        if crc32c(batch[ATTRIBUTES_POSITION:]) != expected:
            raise CorruptLogError(f"{chunk.where(place)}: corrupt batch: its CRC is wrong")
    starts = headers["base_offset"].astype(np.int64)
    stops = starts + headers["last_offset_delta"] + 1
    falls = np.flatnonzero(np.concatenate([[False], starts[1:] < stops[:-1]]) | (stops <= starts))
    if falls.size:
        raise CorruptLogError(f"{chunk.where(places[int(falls[0])])}: corrupt batch: its offsets do not follow those of the batch before")


class _Group(NamedTuple):
    """The batches of a chunk, and the number of the first one that is not decoded yet."""

    places: list[int]
    batches: list[memoryview]
    is_hidden: np.ndarray
    first: int


def _payloads(chunk: Chunk, headers: np.ndarray, group: _Group) -> tuple[list[memoryview | bytes], int]:
    """Return the uncompressed records of wanted batches from the first on, and the number of the batch after the group."""
    places, batches, is_hidden, first = group
    payloads: list[memoryview | bytes] = []
    size = 0
    for index in range(first, len(places)):
        if size >= GROUP_BYTES:
            return payloads, index
        if is_hidden[index]:
            continue
        payload: memoryview | bytes = batches[index][HEADER_SIZE:]
        codec = int(headers["attributes"][index]) & COMPRESSION_MASK
        if codec:
            try:
                payload = decompress(Compression.of(codec), payload)
            except KafkaError as error:
                raise CorruptLogError(f"{chunk.where(places[index])}: corrupt batch: {error}") from error
        payloads.append(payload)
        size += len(payload)
    return payloads, len(places)


def _records(chunk: Chunk, headers: np.ndarray, places: list[int], payloads: list[memoryview | bytes]) -> Records:
    """Measure all records of these batches."""
    lengths = np.array([len(payload) for payload in payloads], np.int64)
    stops = np.cumsum(lengths)
    counts, last_deltas = headers["record_count"].astype(np.int64), headers["last_offset_delta"].astype(np.int64)
    data = b"".join([*payloads, bytes(PADDING)])
    try:
        fields = read_fields(Payloads(data, stops - lengths, stops, counts, last_deltas))
    except MalformedBatchError as error:
        raise CorruptLogError(f"{chunk.where(places[error.batch])}: corrupt batch: {error}") from error
    offsets = headers["base_offset"].astype(np.int64)[fields.batches] + fields.offset_deltas
    timestamps = headers["base_timestamp"].astype(np.int64)[fields.batches] + fields.timestamp_deltas
    is_append_time = (headers["attributes"] & LOG_APPEND_TIME_FLAG) != 0
    if is_append_time.any():
        largest = headers["max_timestamp"].astype(np.int64)
        timestamps = np.where(is_append_time[fields.batches], largest[fields.batches], timestamps)
    key_sizes, value_sizes = fields.key_stops - fields.key_starts, fields.value_stops - fields.value_starts
    return Records(offsets, timestamps, key_sizes, value_sizes, _header_sizes(fields))


def _header_sizes(fields: Fields) -> np.ndarray:
    sizes = np.zeros(len(fields.batches), np.int64)
    headers = fields.headers
    if headers.rows.size:
        np.add.at(sizes, headers.rows, headers.key_stops - headers.key_starts + headers.value_stops - headers.value_starts)
    return sizes


# Formats v0 and v1 are rare, so their records are read one by one.


def _read_old(chunk: Chunk) -> ReadChunk:
    records: list[Record] = []
    spans: list[tuple[int, int, int]] = []  # base offset, size, codec
    index, next_offset = 0, chunk.start_offset
    while (head := read_head(chunk.data, index)) is not None:
        if not head.is_possible:
            raise CorruptLogError(f"{chunk.where(index)}: no batch starts there")
        if head.magic == MAGIC_V2 or index + head.size > len(chunk.data):
            break
        try:
            batch = read_batch(chunk.data, index)
            if not batch.check_crc():
                raise CorruptLogError(f"{chunk.where(index)}: corrupt message: its CRC is wrong")
            found = list(decode_records(batch))
        except KafkaError as error:
            raise CorruptLogError(f"{chunk.where(index)}: corrupt message: {error}") from error
        index += head.size
        next_offset = head.offset + 1
        if next_offset > chunk.start_offset and (not found or found[0].offset < chunk.end_offset):
            records += found
            spans.append((found[0].offset if found else head.offset, head.size, int(batch.compression)))
    return ReadChunk(index, next_offset, iter([_old_piece(records, spans, next_offset)] if spans else []))


def _old_piece(records: list[Record], spans: list[tuple[int, int, int]], end_offset: int) -> Piece:
    nothing = np.empty(0, np.int64)
    found = Records(
        np.array([record.offset for record in records], np.int64),
        np.array([record.timestamp for record in records], np.int64),
        np.array([len(record.key or b"") for record in records], np.int64),
        np.array([len(record.value or b"") for record in records], np.int64),
        np.zeros(len(records), np.int64),
    )
    base_offsets, sizes, codecs = (np.array(column, np.int64) for column in zip(*spans, strict=True))
    return Piece(spans[0][0], end_offset, found, nothing, nothing, nothing.astype(bool), base_offsets, sizes, codecs)
