"""Validate long produced batches in steps, between which the broker serves other clients.

Checks, their order and their errors are those of validate.py. The work differs:

    records        are walked piece by piece (long_walk.py); the decompressed payload is never in memory as a whole
    decompression  is done elsewhere, some pieces at a time: if a step is a function, the caller runs it, in another thread if possible, and
                   sends its result
    recompression  needs the whole payload, and is done elsewhere as well
    content        of a compressed payload is bounded by `content_max`: a few kB may not become 100 MB

Memory besides the batch: two megabytes; where the topic recompresses, the content and what it is compressed to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from io import BytesIO
from itertools import islice
from typing import Final

from minibroker.records.batch import COMPRESSION_MASK, HEADER_SIZE, RecordBatch
from minibroker.records.compression import Compression, compress, decompressed_pieces
from minibroker.records.long_walk import Judge, LongWalk
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
    payload = batch.data[HEADER_SIZE:]
    kind = Compression.of(batch.attributes & COMPRESSION_MASK)
    max_bytes = content_max(len(payload), rules) if kind else len(payload)
    pieces = decompressed_pieces(kind, payload, max_bytes=max_bytes)
    while some := (yield from _some_of(pieces, is_elsewhere=kind is not Compression.NONE)):
        for piece in some:
            yield from walk.walk(piece)
            if content is not None:
                content.write(piece)
            yield None
    walk.finish()
    return walk


def _some_of(pieces: Iterator[bytes], *, is_elsewhere: bool) -> Steps[list[bytes]]:
    def take() -> list[bytes]:
        return list(islice(pieces, _PIECES_ELSEWHERE))

    if not is_elsewhere:
        return take()
    taken: list[bytes] = yield take
    return taken


def _judge(batch: RecordBatch, rules: ProduceRules, now_ms: int) -> Steps[None]:
    """Walk again to find the records at fault. Raises KafkaError if there are any."""
    judge = RecordJudge(batch, rules, now_ms)
    append_time_ms = batch.max_timestamp if batch.timestamp_type else None

    def look_at(index: int, timestamp_delta: int, is_keyless: bool) -> None:
        judge.look_at(index, batch.base_timestamp + timestamp_delta if append_time_ms is None else append_time_ms, is_keyless)

    looking: Judge = look_at
    yield from _walked(batch, rules, LongWalk(batch.record_count, deep=True, judge=looking))
    error = judge.error
    if error is not None:
        raise error
