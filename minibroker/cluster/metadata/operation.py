"""An operation of the metadata log: records that are written as one batch, and encoded in steps before that.

An operation of thousands of records takes far longer to encode than to write. `encode` works in steps, between which other requests are
served. `batch` adds the header, whose offset and epoch are known only when the batch is written.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from itertools import groupby
from typing import Any, Final, TypeVar

from minibroker.cluster.metadata.frame import encode_frame, frame_encoder
from minibroker.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE
from minibroker.records.builder import frame_batch
from minibroker.records.record import Record, encode_record

T = TypeVar("T")
Steps = Generator[None, None, T]  #: yields where other requests may be served, and returns a result

STEP_RECORDS: Final = 200  #: records created or encoded between two yields, which takes about a millisecond
_COMPILED_FROM: Final = 100  #: for fewer records of a type, compiling takes longer than encoding


class MetadataOperation:
    """Records of which the log gets all or none."""

    __slots__ = ("_count", "_metadata_version", "_payload", "records")

    def __init__(self, records: Sequence[Any]) -> None:
        self.records = records
        self._payload = bytearray()  #: the first `_count` records, encoded
        self._count = 0
        self._metadata_version = -1  #: at which they were encoded

    def encode(self, metadata_version: int) -> Steps[None]:
        """Encode the remaining records, at most STEP_RECORDS between two yields."""
        if metadata_version != self._metadata_version:  # the level may change at a yield
            self._payload, self._count, self._metadata_version = bytearray(), 0, metadata_version
        while self._count < len(self.records):
            if self._count:
                yield
            self._encode_step()

    def batch(self, base_offset: int, *, epoch: int, now_ms: int, metadata_version: int) -> bytearray:
        """Return the batch. Encode what `encode` has not."""
        run(self.encode(metadata_version))
        last = len(self.records) - 1
        return frame_batch(
            self._payload, 0, base_offset, last, now_ms, now_ms, NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE, last + 1, epoch
        )

    def _encode_step(self) -> None:
        level = self._metadata_version
        step = self.records[self._count : self._count + STEP_RECORDS]
        for struct_type, group in groupby(step, type):
            records = list(group)
            if len(records) < _COMPILED_FROM:
                frames = [encode_frame(record, level) for record in records]
            else:
                frames = list(map(frame_encoder(struct_type, level), records))
            for frame in frames:
                encode_record(self._payload, Record(0, 0, None, frame), self._count, 0)
                self._count += 1


def run(steps: Steps[T]) -> T:
    """Run all steps and return their result."""
    try:
        while True:
            next(steps)
    except StopIteration as end:
        result: T = end.value
        return result
