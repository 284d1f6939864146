"""Validate long produced batches in steps, between which the broker serves other clients.

Checks, their order and their errors are those of validate.py. The work differs:

    records        are walked piece by piece (`LongWalk`); the decompressed payload is never in memory as a whole
    decompression  is done by the caller, some pieces at a time: if a step is a function, the caller runs it, in another thread if possible,
                   and sends its result
    recompression  needs the whole payload, and is done by the caller as well
    content        of a compressed payload is bounded by `content_max`: a few kB may not become 100 MB

Memory besides the batch: two megabytes; where the topic recompresses, the content and the new payload.

`LongWalk` makes the same checks as walk.py, on pieces of the payload. A piece ends anywhere, also within a record. Of a record that is not
whole only the head is needed. A deep walk waits for the rest of it, unless it is longer than `DEEP_BYTES`: then it is checked only up to
its key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from io import BytesIO
from itertools import islice
from typing import Final

from minibroker.errors import InvalidRecord
from minibroker.records.batch import COMPRESSION_MASK, HEADER_SIZE, RecordBatch
from minibroker.records.compression import Compression, compress, decompressed_pieces
from minibroker.records.record import MAX_VARLONG_BITS
from minibroker.records.steps import Steps
from minibroker.records.validate import (
    DEEP_RECORD_COUNT,
    V2_SINCE_PRODUCE,
    ProduceRules,
    RecordJudge,
    fits,
    is_legacy,
    only_batch,
    repacked,
    stamped,
    why_unsound,
)
from minibroker.records.walk import MIN_FIELDS_BYTES, check_fields, read_number

STEP_RECORDS: Final = 1024  #: between two pauses: less than a millisecond
DEEP_BYTES: Final = 1024 * 1024  #: of a record that a deep walk waits for
HEAD_BYTES: Final = 32  #: enough for a length, attributes, two deltas and the length of a key
_NULL: Final = 1  #: a length of -1, as it is encoded

Judge = Callable[[int, int, bool], object]  #: given a record's index, its timestamp delta, and whether its key is null


class LongWalk:
    """The state of a walk over `record_count` records."""

    __slots__ = ("_count", "_deep", "_index", "_judge", "_least", "_most", "_rest", "_skip", "keyless")

    def __init__(self, record_count: int, *, deep: bool, judge: Judge | None = None) -> None:
        self.keyless = False  #: whether some record has no key; only a deep walk finds out
        self._count = record_count
        self._deep = deep
        self._judge = judge
        self._index = 0
        self._least: int | None = None
        self._most = 0
        self._skip = 0  #: bytes at the beginning of the next piece that belong to the last record
        self._rest = b""  #: the beginning of a record that was not whole enough

    @property
    def extremes(self) -> tuple[int, int]:
        """The least and the largest timestamp delta so far, in ms."""
        return self._least or 0, self._most

    def walk(self, piece: bytes) -> Iterator[None]:
        """Walk the records that `piece` completes, with pauses. Raises InvalidRecord as walk.py does."""
        skip = self._skip
        if skip >= len(piece):
            self._skip -= len(piece)
            return
        data = self._rest + piece if self._rest else piece
        self._skip, self._rest = 0, b""
        yield from self._walk(data, skip, len(data) - HEAD_BYTES, is_last=False)

    def finish(self) -> None:
        """Walk the rest after the last piece. Raises InvalidRecord when it is not the end of the last record."""
        data, self._rest = self._rest, b""
        try:
            for _ in self._walk(data, 0, len(data), is_last=True):
                pass
        except IndexError:
            raise InvalidRecord(f"the payload ends within record {self._index} of {self._count}") from None
        if self._skip or self._rest or self._index < self._count:
            raise InvalidRecord(f"{self._count} records do not end where the payload does")

    def _walk(self, data: bytes, position: int, end: int, *, is_last: bool) -> Iterator[None]:  # noqa: C901, PLR0912, PLR0915  as in walk.py
        index, count, deep, judge = self._index, self._count, self._deep, self._judge
        least, most, delta = self._least, self._most, 0
        previous = -1
        while position < end and index < count:
            start = position
            number = data[position]
            position += 1
            if number >= 0x80:
                number, position = read_number(data, start)
            if number & 1:
                raise InvalidRecord(f"record {index} has a negative length")
            stop = position + (number >> 1)
            number = data[position + 1]
            position += 2
            if number >= 0x80:
                number, position = read_number(data, position - 1, MAX_VARLONG_BITS)
            if number != previous:
                previous = number
                delta = (number >> 1) ^ -(number & 1)
                if least is None:
                    least = most = delta
                elif delta > most:
                    most = delta
                elif delta < least:
                    least = delta
            number = data[position]
            position += 1
            if number >= 0x80:
                number = number & 0x7F | data[position] << 7
                position += 1
                if number >= 0x4000:
                    number = number & 0x3FFF | data[position] << 14
                    position += 1
                    if number >= 0x200000:
                        number, position = read_number(data, position - 3)
            if number != index << 1:
                raise InvalidRecord(f"record {index} has the offset delta {(number >> 1) ^ -(number & 1)}")
            if stop - position < MIN_FIELDS_BYTES:
                raise InvalidRecord(f"record {index} is too short for its fields")
            if deep:
                if stop <= len(data):
                    is_keyless = check_fields(data, position, stop)
                elif stop - start > DEEP_BYTES or is_last:
                    is_keyless = data[position] == _NULL
                else:
                    position = start
                    break
                if is_keyless:
                    self.keyless = True
                if judge is not None:
                    judge(index, delta, is_keyless)
            position = stop
            index += 1
            if not index % STEP_RECORDS:
                yield
        self._index, self._least, self._most = index, least, most
        if position <= len(data):
            self._rest = data[position:]
            if self._rest and index == count:
                raise InvalidRecord(f"{count} records end {len(self._rest)} bytes or more before the payload does")
        else:
            self._skip = position - len(data)


SMALL_CONTENT: Final = 16 * 1024 * 1024  #: bytes of content that any compressed payload may have
MAX_RATIO: Final = 1040  #: the largest ratio of content to payload beyond that: gzip reaches 1032
_PIECES_ELSEWHERE: Final = 4  #: pieces that are decompressed at a time


def content_max(payload_size: int, rules: ProduceRules) -> int:
    """Return the bound of the content of a compressed payload of `payload_size` bytes."""
    return min(rules.max_decompressed_bytes, max(SMALL_CONTENT, payload_size * MAX_RATIO))


def validate_in_steps(
    data: memoryview, rules: ProduceRules, *, now_ms: Callable[[], int], produce_version: int | None = None
) -> Steps[RecordBatch]:
    """Validate as `validate_at_once` a batch of any length, or a message set of format v0 or v1. Raises KafkaError."""
    if produce_version is not None and produce_version < V2_SINCE_PRODUCE and is_legacy(data):
        from minibroker.records.convert import upgrade_in_steps  # noqa: PLC0415  only clients older than Kafka 0.11 need it

        return (yield from upgrade_in_steps(data, rules, now_ms=now_ms))
    batch = only_batch(data, produce_version)
    error = why_unsound(batch, rules)
    if error is not None:
        raise error
    recompresses = rules.compression is not None and rules.compression is not batch.compression
    content = BytesIO() if recompresses and batch.is_compressed else None
    deep = batch.record_count <= DEEP_RECORD_COUNT or rules.deep or rules.is_compacted
    walk = yield from _walked(batch, rules, LongWalk(batch.record_count, deep=deep), content)
    least, most = (batch.base_timestamp + delta for delta in walk.extremes)
    if not fits(batch, least, most, rules, now_ms()) or (walk.keyless and rules.is_compacted):
        yield from _judge(batch, rules, now_ms())
    if rules.compression is not None and recompresses:
        payload = batch.data[HEADER_SIZE:] if content is None else content.getvalue()
        if rules.compression is not Compression.NONE:
            payload = yield partial(compress, rules.compression, payload, rules.compression_level)
        batch = repacked(batch, payload, rules.compression, rules)
    if rules.timestamp_type or most != batch.max_timestamp or most < -1 or batch.timestamp_type:
        return stamped(batch, most, rules, now_ms())
    return batch


def _walked(batch: RecordBatch, rules: ProduceRules, walk: LongWalk, content: BytesIO | None = None) -> Steps[LongWalk]:
    """Walk all records of a batch; adds decompressed pieces to `content`."""

    def look_at(piece: bytes) -> Iterator[None]:
        yield from walk.walk(piece)
        if content is not None:
            content.write(piece)
        yield None

    yield from read_pieces(batch, rules, look_at)
    walk.finish()
    return walk


def read_pieces(batch: RecordBatch, rules: ProduceRules, look_at: Callable[[bytes], Iterator[None]]) -> Steps[None]:
    """Pass the records of a batch to `look_at` in pieces, in steps. Raises InvalidRecord if its content exceeds the rules' limit."""
    payload = batch.data[HEADER_SIZE:]
    kind = Compression.of(batch.attributes & COMPRESSION_MASK)
    max_bytes = content_max(len(payload), rules) if kind else len(payload)
    pieces = decompressed_pieces(kind, payload, max_bytes=max_bytes)
    while some := (yield from _some_of(pieces, is_elsewhere=kind is not Compression.NONE)):
        for piece in some:
            yield from look_at(piece)


def _some_of(pieces: Iterator[bytes], *, is_elsewhere: bool) -> Steps[list[bytes]]:
    def take() -> list[bytes]:
        return list(islice(pieces, _PIECES_ELSEWHERE))

    if not is_elsewhere:
        return take()
    taken: list[bytes] = yield take
    return taken


def _judge(batch: RecordBatch, rules: ProduceRules, now_ms: int) -> Steps[None]:
    """Walk again to find the invalid records. Raises KafkaError if there are any."""
    judge = RecordJudge(batch, rules, now_ms)
    append_time_ms = batch.max_timestamp if batch.timestamp_type else None

    def look_at(index: int, timestamp_delta: int, is_keyless: bool) -> None:
        judge.look_at(index, batch.base_timestamp + timestamp_delta if append_time_ms is None else append_time_ms, is_keyless)

    looking: Judge = look_at
    yield from _walked(batch, rules, LongWalk(batch.record_count, deep=True, judge=looking))
    error = judge.error
    if error is not None:
        raise error
