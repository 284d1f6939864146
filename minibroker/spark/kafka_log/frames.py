"""Find batches in a part of a `.log`: their positions, their headers as one array, and the next batch after damage."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from struct import Struct
from typing import NamedTuple

import numpy as np

from minibroker.errors import KafkaError
from minibroker.records.any_format import read_batch
from minibroker.records.batch import CONTROL_FLAG, HEADER_SIZE, LOG_OVERHEAD, MAGIC_POSITION, MAGIC_V2, MIN_LEGACY_SIZE, TRANSACTIONAL_FLAG
from minibroker.spark.kafka_log.options import AbortedRange
from minibroker.storage.files import FileHandle, Files
from minibroker.storage.indexes import OffsetPosition

#: the header of a batch of format v2; see records/batch.py
HEADER = np.dtype(
    [
        ("base_offset", ">i8"),
        ("batch_length", ">i4"),
        ("partition_leader_epoch", ">i4"),
        ("magic", "i1"),
        ("crc", ">u4"),
        ("attributes", ">i2"),
        ("last_offset_delta", ">i4"),
        ("base_timestamp", ">i8"),
        ("max_timestamp", ">i8"),
        ("producer_id", ">i8"),
        ("producer_epoch", ">i2"),
        ("base_sequence", ">i4"),
        ("record_count", ">i4"),
    ]
)
SEARCH_CHUNK = 1 << 20
MAX_GAP = 1 << 31  #: a search after damage ignores offsets further away

LARGE_BATCH = 1024  #: of batches this large, only the heads are read
SEEN_INTERVAL_BYTES = 1 << 20

_skimmed = Struct(">qi4xb6xi")  # base_offset, batch_length, magic, last_offset_delta
_unpack_skimmed = _skimmed.unpack_from
SKIM_HEAD = _skimmed.size
SKIM_CHUNK = 4096

_unpack_length = Struct(">8xi4xb").unpack_from
_unpack_head = Struct(">qi4xb").unpack_from


class Head(NamedTuple):
    """The first 17 bytes of a batch of any format."""

    offset: int
    size: int
    magic: int

    @property
    def is_possible(self) -> bool:
        """Whether these can be the first bytes of a batch."""
        return (
            0 <= self.magic <= MAGIC_V2 and self.size >= (HEADER_SIZE if self.magic == MAGIC_V2 else MIN_LEGACY_SIZE) and self.offset >= 0
        )


def read_head(data: bytes, index: int = 0) -> Head | None:
    """Return the head at `index`; None if too few bytes are left."""
    if len(data) - index <= MAGIC_POSITION:
        return None
    offset, batch_length, magic = _unpack_head(data, index)
    return Head(offset, LOG_OVERHEAD + batch_length, magic)


def frame_positions(chunk: bytes) -> tuple[list[int], int]:
    """Return the positions of the whole batches of format v2 from the start of `chunk` on, and their end."""
    positions = []
    index, size = 0, len(chunk)
    last_head = size - HEADER_SIZE
    while index <= last_head:
        length, magic = _unpack_length(chunk, index)
        stop = index + LOG_OVERHEAD + length
        if magic != MAGIC_V2 or stop > size or length < HEADER_SIZE - LOG_OVERHEAD:
            break
        positions.append(index)
        index = stop
    return positions, index


def read_frame_headers(chunk: bytes, positions: list[int]) -> np.ndarray:
    """Return the headers at these positions, as an array of HEADER."""
    data = np.frombuffer(chunk, np.uint8)
    found = data[np.array(positions, np.int64)[:, None] + np.arange(HEADER_SIZE)]
    headers: np.ndarray = found.view(HEADER).reshape(-1)
    return headers


class Skimmed(NamedTuple):
    """Adjacent batches: the last one, its end, and about one batch per megabyte, like entries of an index."""

    last_offset: int
    last_position: int
    end_position: int
    seen: list[OffsetPosition]


def skim(files: Files, handle: FileHandle, position: int, end: int) -> Skimmed | None:
    """Walk over whole batches of format v2 from `position` up to `end`; None if there is none.

    This takes a microsecond per batch, and `read_headers` four. If a broker has not written its index yet, the
    walk covers a whole segment.
    """
    last_offset, last_position, noted = -1, -1, position
    seen = []
    chunk, chunk_position = b"", position
    size = LARGE_BATCH
    while position + HEADER_SIZE <= end:
        if position + SKIM_HEAD > chunk_position + len(chunk):
            chunk = files.read_at(handle.opened(), SKIM_HEAD if size > LARGE_BATCH else SKIM_CHUNK, position)
            chunk_position = position
            if len(chunk) < SKIM_HEAD:
                break
        base_offset, batch_length, magic, last_offset_delta = _unpack_skimmed(chunk, position - chunk_position)
        size = LOG_OVERHEAD + batch_length
        if magic != MAGIC_V2 or size < HEADER_SIZE or position + size > end or last_offset_delta < 0:
            break
        last_offset, last_position = base_offset + last_offset_delta, position
        if position - noted >= SEEN_INTERVAL_BYTES:
            seen.append(OffsetPosition(last_offset, position))
            noted = position
        position += size
    return Skimmed(last_offset, last_position, position, seen) if last_position >= 0 else None


def find_batch(files: Files, handle: FileHandle, position: int, end: int, least_offset: int) -> int:
    """Return the position of the next batch after a corrupt one at `position`, or `end`.

    The next batch has a correct CRC and an offset of at least `least_offset`. It is looked for first at the end
    that the corrupt batch announces, then at every byte.
    """
    head = read_head(files.read_at(handle.opened(), MAGIC_POSITION + 1, position))
    if head is not None and head.is_possible:
        stop = position + head.size
        if stop == end or is_batch(files, handle, stop, end, least_offset):
            return stop
    position += 1
    while position < end:
        chunk = files.read_at(handle.opened(), min(SEARCH_CHUNK, end - position), position)
        for index in _candidates(chunk, least_offset):
            if is_batch(files, handle, position + index, end, least_offset):
                return position + index
        if len(chunk) < SEARCH_CHUNK:
            break
        position += len(chunk) - MAGIC_POSITION
    return end


def _candidates(chunk: bytes, least_offset: int) -> list[int]:
    """Return the positions at which offset, size and magic are possible values."""
    data = np.frombuffer(chunk, np.uint8)
    count = len(data) - MAGIC_POSITION
    if count <= 0:
        return []
    likely = np.flatnonzero(data[MAGIC_POSITION:] <= MAGIC_V2)
    heads = data[likely[:, None] + np.arange(LOG_OVERHEAD)].view(np.dtype([("offset", ">i8"), ("length", ">i4")])).reshape(-1)
    offsets, lengths = heads["offset"].astype(np.int64), heads["length"].astype(np.int64)
    possible = (offsets >= least_offset) & (offsets < least_offset + MAX_GAP) & (lengths >= MIN_LEGACY_SIZE - LOG_OVERHEAD)
    return [int(index) for index in likely[possible]]


def is_batch(files: Files, handle: FileHandle, position: int, end: int, least_offset: int) -> bool:
    """Return whether a whole batch with a correct CRC and an offset of at least `least_offset` is at `position`."""
    head = read_head(files.read_at(handle.opened(), MAGIC_POSITION + 1, position))
    if head is None or not head.is_possible or head.offset < least_offset or position + head.size > end:
        return False
    try:
        return read_batch(files.read_at(handle.opened(), head.size, position)).check_crc()
    except KafkaError:
        return False


class AbortedBatches:
    """Decides which batches belong to aborted transactions; ranges and batches may come in any order."""

    def __init__(self, ranges: Iterable[AbortedRange]) -> None:
        self._by_producer: dict[int, list[tuple[int, int]]] = {}
        for each in sorted(ranges, key=lambda each: each.first_offset):
            self._by_producer.setdefault(each.producer_id, []).append((each.first_offset, each.last_offset))

    def among(self, headers: np.ndarray) -> np.ndarray:
        """Return for each of `headers` (read_frame_headers) whether its transaction was aborted; False for markers."""
        found = np.zeros(len(headers), bool)
        if self._by_producer:
            flags = headers["attributes"] & (TRANSACTIONAL_FLAG | CONTROL_FLAG)
            for index in np.flatnonzero(flags == TRANSACTIONAL_FLAG).tolist():
                found[index] = self._is_aborted(int(headers["producer_id"][index]), int(headers["base_offset"][index]))
        return found

    def _is_aborted(self, producer_id: int, base_offset: int) -> bool:
        ranges = self._by_producer.get(producer_id, ())
        number = bisect_right(ranges, base_offset, key=lambda each: each[0]) - 1
        return number >= 0 and base_offset <= ranges[number][1]
