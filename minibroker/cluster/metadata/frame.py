"""Encode and decode metadata records, which are the values of records in batches.

    value of a record    frame version 1 | record id | record version | struct, flexible     the three are unsigned varints

The finalized metadata.version decides the version in which a record is written, so that an older Kafka can still read its log.

A `MetadataOperation` is written as one batch. To encode thousands of records takes far longer than to write them, so it is done in steps,
between which other requests are served. The header of the batch is added last, because its offset and epoch are known only when the batch
is written.

Source: MetadataRecordSerde, MetadataVersion of Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from itertools import groupby
from typing import Any, Final, TypeVar

from minibroker.errors import WireError
from minibroker.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE
from minibroker.records.builder import frame_batch
from minibroker.records.record import Record, encode_record
from minibroker.schemas.internal.broker_records import RegisterBrokerRecord
from minibroker.schemas.internal.metadata_records import BY_ID, BY_STRUCT
from minibroker.schemas.internal.topic_records import PartitionChangeRecord, PartitionRecord
from minibroker.wire.codec import encode
from minibroker.wire.compiled import decode_all, encoder
from minibroker.wire.primitives import read_unsigned_varint, unsigned_varint

FRAME_VERSION = 1
METADATA_VERSION_FEATURE = "metadata.version"
METADATA_VERSION = 30  #: 4.3-IV0, the newest that Kafka 4.3.1 finalizes
MIN_METADATA_VERSION = 7  #: 3.3-IV3, the oldest that Kafka 4 reads

_DIRECTORIES_SINCE = 17  #: metadata.version 3.7-IV2
_ELIGIBLE_LEADERS_SINCE = 23  #: metadata.version 4.0-IV1
_MIGRATION_SINCE = 8  #: metadata.version 3.4-IV0
_CORDONED_SINCE = 30  #: metadata.version 4.3-IV0
#: Kafka's names of metadata.version, from MIN_METADATA_VERSION on
_NAMES = (
    "3.3-IV3", "3.4-IV0", "3.5-IV0", "3.5-IV1", "3.5-IV2", "3.6-IV0", "3.6-IV1", "3.6-IV2", "3.7-IV0", "3.7-IV1", "3.7-IV2", "3.7-IV3",
    "3.7-IV4", "3.8-IV0", "3.9-IV0", "4.0-IV0", "4.0-IV1", "4.0-IV2", "4.0-IV3", "4.1-IV0", "4.1-IV1", "4.2-IV0", "4.2-IV1", "4.3-IV0",
)  # fmt: skip


def metadata_version_name(level: int) -> str:
    """Return the name of a metadata.version that Kafka's tools print, or "unknown"."""
    known = MIN_METADATA_VERSION <= level <= METADATA_VERSION
    return _NAMES[level - MIN_METADATA_VERSION] if known else "unknown"


def record_version(struct_type: type[Any], metadata_version: int) -> int:
    """Return the version in which records of a type are written."""
    if struct_type in {PartitionRecord, PartitionChangeRecord}:
        return 2 if metadata_version >= _ELIGIBLE_LEADERS_SINCE else int(metadata_version >= _DIRECTORIES_SINCE)
    if struct_type is RegisterBrokerRecord:
        directories = 3 if metadata_version >= _DIRECTORIES_SINCE else 2 if metadata_version >= _MIGRATION_SINCE else 1
        return 4 if metadata_version >= _CORDONED_SINCE else directories
    return 0


def encode_frame(record: object, metadata_version: int) -> bytes:
    """Encode a metadata record as the value of a record."""
    version = record_version(type(record), metadata_version)
    return _head(type(record), version) + encode(record, version, flexible=True)


def frame_encoder(struct_type: type[Any], metadata_version: int) -> Callable[[Any], bytes]:
    """Return a fast `encode_frame` for many records of one type. The first call for a type compiles its encoder."""
    version = record_version(struct_type, metadata_version)
    encode_chunks, head = encoder(struct_type, version, flexible=True), _head(struct_type, version)

    def encode_fast(record: Any) -> bytes:
        return b"".join((head, *encode_chunks(record)))

    return encode_fast


def _head(struct_type: type[Any], version: int) -> bytes:
    record_id = BY_STRUCT[struct_type].record_id
    return unsigned_varint(FRAME_VERSION) + unsigned_varint(record_id) + unsigned_varint(version)


def decode_frame(value: bytes) -> Any:
    """Decode a metadata record. Raise WireError if it is invalid or unknown."""
    frame_version, position = read_unsigned_varint(value, 0)
    record_id, position = read_unsigned_varint(value, position)
    version, position = read_unsigned_varint(value, position)
    if frame_version != FRAME_VERSION:
        raise WireError(f"frame version {frame_version} is not known")
    record_type = BY_ID.get(record_id)
    if record_type is None or version > record_type.max_version:
        raise WireError(f"record type {record_id} version {version} is not known")
    return decode_all(record_type.struct, value, position, version, flexible=True)


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
