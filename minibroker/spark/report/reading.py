"""Read the batches of a LogRange of `kafka-log` from files, a few megabytes at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from minibroker.errors import CorruptLogError
from minibroker.spark.kafka_log.frames import AbortedBatches, read_head
from minibroker.spark.kafka_log.options import AbortedRange, LogRange, LogSlice
from minibroker.spark.report.counting import Piece
from minibroker.spark.report.pieces import Chunk, IsAborted, read_chunk
from minibroker.storage.files import READ_ONLY, FileHandle, Files, RealFiles

CHUNK_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class ReadTask:
    """A task that reads a LogRange."""

    range: LogRange

    def pieces(self) -> Iterator[Piece]:
        """Yield the pieces of the range, in order. CorruptLogError."""
        return pieces_of(RealFiles(), self.range)


def pieces_of(files: Files, wanted: LogRange) -> Iterator[Piece]:
    """Yield the pieces of a LogRange."""
    is_aborted = aborted_by_ranges(wanted.aborted)
    for part in wanted.slices:
        handle = files.handles.handle(part.path, READ_ONLY)
        try:
            yield from _slice_pieces(files, handle, part, wanted, is_aborted)
        finally:
            handle.close()


def _slice_pieces(files: Files, handle: FileHandle, part: LogSlice, wanted: LogRange, is_aborted: IsAborted) -> Iterator[Piece]:
    position, size = part.start_position, CHUNK_BYTES
    while position < part.end_position:
        data = files.read_at(handle.opened(), min(size, part.end_position - position), position)
        chunk = Chunk(data, partial(_where, handle.path, position), is_aborted, wanted.start_offset, wanted.end_offset)
        read = read_chunk(chunk)
        if read.size:
            yield from read.pieces
            if read.next_offset >= wanted.end_offset:
                return
            position += read.size
            size = CHUNK_BYTES
            continue
        head = read_head(data)
        if head is None or not head.is_possible or position + head.size > part.end_position or head.size <= len(data):
            raise CorruptLogError(f"{_where(handle.path, position, 0)}: no batch starts there")
        size = head.size


def _where(path: str, base: int, position: int) -> str:
    return f"{path}, position {base + position}"


def aborted_by_ranges(ranges: Sequence[AbortedRange]) -> IsAborted:
    """Return a function that tells aborted batches, in any order."""
    aborted = AbortedBatches(ranges)
    return lambda headers, _: aborted.among(headers)
