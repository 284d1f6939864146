"""Read the records of a LogRange as Arrow record batches, a megabyte of the file at a time."""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterator

import numpy as np
import pyarrow as pa

from minibroker.errors import CorruptLogError, CorruptMessage, KafkaError
from minibroker.records.any_format import decode_records, read_batch
from minibroker.records.batch import ATTRIBUTES_POSITION, COMPRESSION_MASK, CONTROL_FLAG, HEADER_SIZE, LOG_OVERHEAD, MAGIC_V2, RecordBatch
from minibroker.records.checksum import crc32c
from minibroker.records.record import Record
from minibroker.spark.kafka_log.columns import NO_TIMESTAMP_TYPE, TableBuilder, timestamp_array
from minibroker.spark.kafka_log.decoder import DECODER, MAX_TIMESTAMP, Group, PayloadBuffer
from minibroker.spark.kafka_log.fields import MalformedBatchError
from minibroker.spark.kafka_log.frames import AbortedBatches, find_batch, frame_positions, read_frame_headers, read_head
from minibroker.spark.kafka_log.options import CORRUPT_RECORD, LogRange, LogSlice
from minibroker.storage.files import READ_ONLY, FileHandle, Files

logger = logging.getLogger(__name__)

CHUNK_BYTES = 1 << 20  #: of a file read at once; what is made of it fits into the processor's caches
LEGACY_GROUP = 10_000  #: records of formats v0 and v1 in one record batch


class RangeReader:
    """Reads one LogRange; `corrupt_count` is the number of corrupt batches skipped so far, if `is_permissive`."""

    def __init__(self, files: Files, wanted: LogRange, builder: TableBuilder, *, is_permissive: bool = False) -> None:
        self._files = files
        self._wanted = wanted
        self._builder = builder
        self._is_permissive = is_permissive
        self._aborted = AbortedBatches(wanted.aborted)
        self._corrupt: list[tuple[int, str]] = []
        self._next_offset = 0
        self._payloads = PayloadBuffer()
        self.corrupt_count = 0

    def record_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield all record batches by offset. CorruptLogError with file and position for a corrupt batch, unless permissive."""
        for part in self._wanted.slices:
            handle = self._files.handles.handle(part.path, READ_ONLY)
            try:
                for found in self._read_slice(handle, part):
                    if found.num_rows:
                        yield found
                    yield from self._corrupt_rows()
            finally:
                handle.close()
            yield from self._corrupt_rows()
        if self.corrupt_count:
            logger.warning("%s-%d: skipped %d corrupt batches", self._wanted.topic, self._wanted.partition, self.corrupt_count)

    def _read_slice(self, handle: FileHandle, part: LogSlice) -> Iterator[pa.RecordBatch]:
        position, size = part.start_position, CHUNK_BYTES
        while position < part.end_position and self._next_offset < self._wanted.end_offset:
            chunk = self._files.read_at(handle.opened(), min(size, part.end_position - position), position)
            positions, stop = frame_positions(chunk)
            if positions:
                stop = yield from self._read_frames(handle, part, chunk, position, positions)
                position += stop
                size = CHUNK_BYTES
                continue
            head = read_head(chunk)
            if head is not None and head.is_possible and position + head.size <= part.end_position:
                if head.size > len(chunk):
                    size = head.size
                    continue
                if head.magic < MAGIC_V2:
                    records, stop = self._read_legacy(handle, chunk, position)
                    yield self._table_of(records)
                    position = stop
                    size = CHUNK_BYTES
                    continue
            position = self._skip(handle, part, position, "no batch starts there")

    def _read_frames(
        self, handle: FileHandle, part: LogSlice, chunk: bytes, base: int, positions: list[int]
    ) -> Generator[pa.RecordBatch, None, int]:
        """Yield the batches of format v2 that are whole in `chunk`, read at `base`; return the start of the next chunk in it."""
        headers = read_frame_headers(chunk, positions)
        stop = positions[-1] + LOG_OVERHEAD + int(headers["batch_length"][-1])
        good = self._check(memoryview(chunk), headers, positions, _next_base_offset(chunk, stop))
        bad = np.flatnonzero(~good)
        if bad.size:  # decode what is before it, then search after it, since its length may be wrong
            first = int(bad[0])
            yield from self._decode(handle, chunk, base, positions[:first], headers[:first])
            reason = "its CRC is wrong, or its offsets do not follow those before"
            return self._skip(handle, part, base + positions[first], reason) - base
        yield from self._decode(handle, chunk, base, positions, headers)
        return stop

    def _check(self, view: memoryview, headers: np.ndarray, positions: list[int], next_base_offset: int) -> np.ndarray:
        """Return which batches are intact, by CRC and offsets. The CRC is computed only for wanted batches.

        The CRC does not cover the base offset. A base offset that goes back is wrong, and so is one that only the
        next batch contradicts.
        """
        base_offsets = headers["base_offset"].astype(np.int64)
        last_offsets = base_offsets + headers["last_offset_delta"]
        before = np.concatenate([[self._next_offset], last_offsets[:-1] + 1])
        after = np.concatenate([base_offsets[1:], [next_base_offset]])
        good = (headers["last_offset_delta"] >= 0) & (base_offsets >= before)
        good &= (last_offsets < after) | (after < before)
        wanted = np.flatnonzero((last_offsets >= self._wanted.start_offset) & (base_offsets < self._wanted.end_offset))
        sizes = (headers["batch_length"] + LOG_OVERHEAD).tolist()
        sums = [crc32c(view[positions[i] + ATTRIBUTES_POSITION : positions[i] + sizes[i]]) for i in wanted.tolist()]
        good[wanted] &= headers["crc"][wanted] == np.array(sums, np.uint32)
        return good

    def _decode(self, handle: FileHandle, chunk: bytes, base: int, positions: list[int], headers: np.ndarray) -> Iterator[pa.RecordBatch]:
        """Decompress and decode the wanted batches, in groups."""
        if not positions:
            return
        self._next_offset = int(headers["base_offset"][-1]) + int(headers["last_offset_delta"][-1]) + 1
        payloads, members = self._payloads, []
        payloads.clear()
        codecs = (headers["attributes"] & COMPRESSION_MASK).tolist()
        lengths = headers["batch_length"].tolist()
        for index in np.flatnonzero(self._has_records(headers)).tolist():
            position = positions[index]
            try:
                payloads.append(codecs[index], chunk, position + HEADER_SIZE, position + LOG_OVERHEAD + lengths[index])
            except KafkaError as error:
                self._note_corrupt(handle, base + position, str(error))
                continue
            members.append(index)
            if payloads.is_full:
                yield from self._decode_group(handle, base, positions, headers, members)
                members = []
                payloads.clear()
        if members:
            yield from self._decode_group(handle, base, positions, headers, members)

    def _has_records(self, headers: np.ndarray) -> np.ndarray:
        """Return which batches have records for the reader."""
        base_offsets = headers["base_offset"]
        attributes = headers["attributes"]
        found: np.ndarray = (base_offsets + headers["last_offset_delta"] >= self._wanted.start_offset) & (
            base_offsets < self._wanted.end_offset
        )
        found &= ((attributes & CONTROL_FLAG) == 0) & ~self._aborted.among(headers)
        return found

    def _decode_group(
        self, handle: FileHandle, base: int, positions: list[int], headers: np.ndarray, members: list[int]
    ) -> Iterator[pa.RecordBatch]:
        """Decode the payloads in the buffer; skip batches whose records do not match their headers."""
        payloads = self._payloads
        group = Group(payloads.data, headers[members], np.array(payloads.starts, np.int64), np.array(payloads.stops, np.int64))
        while members:
            try:
                columns = DECODER.columns(group, self._wanted.start_offset, self._wanted.end_offset)
            except MalformedBatchError as error:
                self._note_corrupt(handle, base + positions[members.pop(error.batch)], str(error))
                group = group.without(error.batch)
                continue
            yield self._builder.record_batch(columns)
            return

    # Formats v0 and v1 are rare, so their records are read one by one.

    def _read_legacy(self, handle: FileHandle, chunk: bytes, base: int) -> tuple[list[tuple[Record, int]], int]:
        """Return records of formats v0 and v1 with their timestamp types, from at least one message, and their end in the file."""
        records: list[tuple[Record, int]] = []
        index = 0
        while len(records) < LEGACY_GROUP:
            head = read_head(chunk, index)
            if head is None or not head.is_possible or head.magic == MAGIC_V2 or index + head.size > len(chunk):
                break
            try:
                batch = read_batch(chunk, index)
                if not batch.check_crc():
                    raise CorruptMessage("its CRC is wrong")
                if abs(batch.max_timestamp) > MAX_TIMESTAMP:
                    raise CorruptMessage("a timestamp that Spark cannot hold")
                if batch.last_offset >= self._wanted.start_offset:
                    records += [(record, _timestamp_type(batch)) for record in decode_records(batch)]
            except KafkaError as error:
                self._note_corrupt(handle, base + index, str(error))
            index += head.size
            self._next_offset = max(self._next_offset, head.offset + 1)
            if head.offset + 1 >= self._wanted.end_offset:
                break
        return records, base + index

    def _table_of(self, records: list[tuple[Record, int]]) -> pa.RecordBatch:
        wanted = [each for each in records if self._wanted.start_offset <= each[0].offset < self._wanted.end_offset]
        columns = {
            "key": pa.array([record.key for record, _ in wanted], pa.binary()),
            "value": pa.array([record.value for record, _ in wanted], pa.binary()),
            "offset": pa.array([record.offset for record, _ in wanted], pa.int64()),
            "timestamp": timestamp_array(np.array([record.timestamp for record, _ in wanted], np.int64)),
            "timestampType": pa.array([kind for _, kind in wanted], pa.int32()),
        }
        return self._builder.of_values(columns, len(wanted))

    # Damage

    def _skip(self, handle: FileHandle, part: LogSlice, position: int, reason: str) -> int:
        """Note a corrupt batch; return the position of the next one."""
        self._note_corrupt(handle, position, reason)
        return find_batch(self._files, handle, position, part.end_position, self._next_offset)

    def _note_corrupt(self, handle: FileHandle, position: int, reason: str) -> None:
        text = f"{handle.path}: corrupt batch at position {position}: {reason}"
        if not self._is_permissive:
            raise CorruptLogError(text)
        logger.warning("%s; skipped", text)
        self.corrupt_count += 1
        head = read_head(self._files.read_at(handle.opened(), HEADER_SIZE, position))
        self._corrupt.append((head.offset if head is not None else -1, text))

    def _corrupt_rows(self) -> Iterator[pa.RecordBatch]:
        """Yield a row for each corrupt batch since the last call, if the schema has a column for them."""
        corrupt, self._corrupt = self._corrupt, []
        if corrupt and CORRUPT_RECORD in self._builder.roles:
            columns = {CORRUPT_RECORD: pa.array([text for _, text in corrupt], pa.string())}
            columns["offset"] = pa.array([offset for offset, _ in corrupt], pa.int64())
            yield self._builder.of_values(columns, len(corrupt))


def _next_base_offset(chunk: bytes, position: int) -> int:
    """Return the base offset of the batch at `position`, of which only the first bytes are needed; a huge one if it is missing."""
    return int.from_bytes(chunk[position : position + 8], signed=True) if position + 8 <= len(chunk) else 1 << 62


def _timestamp_type(batch: RecordBatch) -> int:
    return int(batch.timestamp_type) if batch.magic else NO_TIMESTAMP_TYPE
