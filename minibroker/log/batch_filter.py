"""What compaction keeps of one batch: all of it unchanged, nothing, fewer records, or a header without records.

A record stays if it has the last offset of its key. Exceptions:

    its value is null (a tombstone)   stays only until the delete horizon of its batch, which is base_timestamp if attribute bit 6 is set.
                                      The first compaction that meets a tombstone sets it to now + delete.retention.ms
    its transaction was aborted       is removed
    it has no key                     is removed
    it is beyond the offset map       stays until a later round

A marker is removed after the last batch of its transaction. The round that removes the last of these batches keeps the marker, and gives it
a delete horizon as for tombstones, so that readers have time to see it. An abort marker that stays keeps its entry in `.txnindex`. Aborted
transactions come from the `.txnindex` files and are known before the walk begins.

A batch without records stays as a header if a producer that is still known wrote its last sequence in it, or if it is the last one of the
round, so that offsets and sequences continue after it.

Offsets, sequences, epochs, the codec and the timestamp type of a batch do not change. A batch that loses records keeps base_timestamp, so
that the other records are copied unchanged, and gets their largest timestamp. Batches of formats v0 and v1 become v2 if they lose a record
or hold a tombstone. A batch with a wrong CRC raises CorruptMessage: a new CRC would hide the damage.

Source: Cleaner, CleanedTransactionMetadata and MemoryRecords.filterTo of Apache Kafka, which sets base_timestamp to the first record's.

`OffsetMap` has the offset of the last record of each key in a range of a log, within bounded memory:

    fill     batch by batch, in offset order, from `first_offset` on. The map is full when the next key would be one too many;
             `end_offset` is where it ends, and the next round starts there
    freeze   afterwards `live` has the codes (offset and tombstone bit, see records/key_walk.py) of all last records, in order

A key of up to 47 bytes is kept as it is, a longer one as its digest of 48 bytes, so that two keys collide only with a probability of
2^-384. Apache Kafka's SkimpyOffsetMap keeps 24 bytes for each key, MD5 and offset; a dict takes more memory and a tenth of the time.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from minibroker.errors import CorruptMessage
from minibroker.log.log_config import LONG_MAX
from minibroker.records.any_format import decode_records
from minibroker.records.batch import (
    COMPRESSION_MASK,
    CONTROL_FLAG,
    DELETE_HORIZON_FLAG,
    HEADER,
    HEADER_SIZE,
    LOG_APPEND_TIME_FLAG,
    LOG_OVERHEAD,
    MAGIC_V2,
    NO_TIMESTAMP,
    TRANSACTIONAL_FLAG,
)
from minibroker.records.builder import build_batch, sum_batch
from minibroker.records.compression import compress
from minibroker.records.control import ControlType, parse_control_key
from minibroker.records.key_walk import (
    Span,
    join_spans,
    map_key,
    note_keys,
    shift_timestamps,
    spans_at,
    spans_without,
    timestamp_deltas,
    walk_keys,
)
from minibroker.records.record import Record
from minibroker.storage.raw_batches import RawBatch
from minibroker.storage.transaction_index import AbortedTxn

#: Bytes for a key of up to 15 bytes: its object (48; 80 for one of 47), the code (32), its places in the dict (50) and in `live` (8).
BYTES_A_KEY: Final = 138


class OffsetMap:
    """The offset of the last record of each key; the module's docstring explains it. Callers only read `latest`."""

    __slots__ = ("_max_keys", "end_offset", "first_offset", "has_tombstones", "is_full", "latest", "live")

    def __init__(self, first_offset: int, max_bytes: int) -> None:
        self._max_keys = max(max_bytes // BYTES_A_KEY, 1)
        self.latest: dict[bytes, int] = {}  #: key to code
        self.live = array("q")
        self.has_tombstones = False  #: some last record is one; known once frozen
        self.first_offset = first_offset
        self.end_offset = first_offset  #: records below it, from first_offset on, are in the map
        self.is_full = False

    def add(self, data: bytes, position: int, stop: int, *, count: int, base_offset: int, last_offset: int) -> None:
        """Add the batch whose records are data[position:stop]. Raises InvalidRecord."""
        if base_offset >= self.first_offset and len(self.latest) + count <= self._max_keys:
            note_keys(self.latest, data, position, stop, count, base_offset)
            self.end_offset = last_offset + 1
        else:
            self._add_slowly(((code, key) for _, code, key in walk_keys(data, position, stop, count, base_offset)), last_offset)

    def add_records(self, records: Iterable[Record], last_offset: int) -> None:
        """Add a batch of an old format, decoded."""
        codes = ((2 * each.offset | (each.value is None), None if each.key is None else map_key(each.key)) for each in records)
        self._add_slowly(codes, last_offset)

    def _add_slowly(self, records: Iterable[tuple[int, bytes | None]], last_offset: int) -> None:
        latest = self.latest
        for code, key in records:
            if key is None or code >> 1 < self.first_offset:
                continue
            if len(latest) >= self._max_keys and key not in latest:
                self.is_full = True
                return
            latest[key] = code
            self.end_offset = (code >> 1) + 1
        self.pass_over(last_offset)

    def pass_over(self, last_offset: int) -> None:
        """Skip up to and including `last_offset`: a control batch, an aborted batch, a gap."""
        self.end_offset = max(self.end_offset, last_offset + 1)

    def freeze(self) -> None:
        """Compute `live`, after everything was added."""
        self.live = array("q", sorted(self.latest.values()))
        self.has_tombstones = any(code & 1 for code in self.live)

    def live_codes(self, base_offset: int, last_offset: int) -> array[int]:
        """Return the codes of last records within these offsets, both included."""
        low = bisect_left(self.live, 2 * base_offset)
        return self.live[low : bisect_left(self.live, 2 * last_offset + 2, low)]


_TRANSACTION_FLAGS: Final = TRANSACTIONAL_FLAG | CONTROL_FLAG
_KEPT_ATTRIBUTES: Final = COMPRESSION_MASK | LOG_APPEND_TIME_FLAG | _TRANSACTION_FLAGS


class LastRecord(NamedTuple):
    """The last record of an active producer; `last_data_offset` is -1 if only a marker has its epoch."""

    last_data_offset: int
    producer_epoch: int


class Left(NamedTuple):
    """The bytes that remain of a batch, and what its index entries need."""

    data: bytes | bytearray | memoryview
    max_timestamp: int
    is_same: bool = False  #: the bytes are unchanged


class CleanedTransactions:
    """Tracks transactions while compaction walks the log in offset order, to decide which batches and markers are removed."""

    __slots__ = ("_aborted", "_ongoing_aborted", "_ongoing_committed", "retained")

    def __init__(self, aborted: Iterable[AbortedTxn]) -> None:
        self._aborted = sorted(set(aborted), key=lambda entry: entry.first_offset, reverse=True)
        self._ongoing_aborted: dict[int, tuple[AbortedTxn, bool]] = {}  #: by producer id; whether the walk met one of its batches
        self._ongoing_committed: set[int] = set()
        self.retained: list[AbortedTxn] = []  #: entries of markers that stay, for the segment being written

    def _pass_to(self, offset: int) -> None:
        while self._aborted and self._aborted[-1].first_offset <= offset:
            entry = self._aborted.pop()
            self._ongoing_aborted.setdefault(entry.producer_id, (entry, False))

    def on_batch(self, producer_id: int, last_offset: int) -> bool:
        """Note a transactional batch. Returns whether it is aborted."""
        self._pass_to(last_offset)
        ongoing = self._ongoing_aborted.get(producer_id)
        if ongoing is None:
            self._ongoing_committed.add(producer_id)
            return False
        self._ongoing_aborted[producer_id] = (ongoing[0], True)
        return True

    def on_marker(self, producer_id: int, last_offset: int, control_type: ControlType | None) -> bool:
        """Note a control batch; its type is None if it has lost its record. Returns whether it may be removed."""
        self._pass_to(last_offset)
        if control_type is None:
            return True
        if control_type is ControlType.ABORT:
            entry, was_seen = self._ongoing_aborted.pop(producer_id, (None, False))
            if entry is not None and was_seen:
                self.retained.append(entry)
            return not was_seen
        if control_type is ControlType.COMMIT:
            was_seen = producer_id in self._ongoing_committed
            self._ongoing_committed.discard(producer_id)
            return not was_seen
        return False


class BatchFilter:
    """Filters the batches of one round, in offset order."""

    def __init__(
        self,
        offset_map: OffsetMap,
        transactions: CleanedTransactions,
        *,
        round_end_offset: int,
        last_records: Mapping[int, LastRecord],
        now_ms: int,
        delete_retention_ms: int,
    ) -> None:
        self._map = offset_map
        self._transactions = transactions
        self._round_end_offset = round_end_offset
        self._last_records = last_records
        self._now_ms = now_ms
        self._horizon_ms = min(now_ms + delete_retention_ms, LONG_MAX)

    def apply(self, batch: RawBatch) -> Left | None:
        """Return what remains of `batch`, or None. Raises CorruptMessage or InvalidRecord for a batch that cannot be read."""
        if batch.magic != MAGIC_V2:
            return self._filter_legacy(batch)
        attributes = batch.attributes
        if attributes & _TRANSACTION_FLAGS:
            is_void = self._is_void(batch)
            if attributes & CONTROL_FLAG:
                return self._filter_control(batch, is_void=is_void)
            if is_void:
                return self._empty(batch)
        in_map = self._map.first_offset <= batch.base_offset and batch.last_offset < self._map.end_offset
        if in_map:
            return self._filter_mapped(batch)
        if batch.last_offset < self._map.first_offset and batch.last_offset < self._map.end_offset:
            return self._filter_clean(batch)
        return self._filter_one_by_one(batch)

    def _is_void(self, batch: RawBatch) -> bool:
        if batch.attributes & CONTROL_FLAG:
            return self._transactions.on_marker(batch.producer_id, batch.last_offset, control_type_of(batch))
        return self._transactions.on_batch(batch.producer_id, batch.last_offset)

    def _is_expired(self, batch: RawBatch) -> bool:
        return bool(batch.attributes & DELETE_HORIZON_FLAG) and batch.base_timestamp <= self._now_ms

    # The kinds of batches

    def _filter_control(self, batch: RawBatch, *, is_void: bool) -> Left | None:
        if not batch.record_count or (is_void and self._is_expired(batch)):
            return self._empty(batch)
        if not is_void or batch.attributes & DELETE_HORIZON_FLAG:
            return _whole(batch)
        data, position, stop = batch.records()
        return self._rewrite(batch, data, [(position, stop)], needs_horizon=True)

    def _filter_mapped(self, batch: RawBatch) -> Left | None:
        """Filter a batch whose records are all in the map: the map has the last ones, so records need not be read to find them."""
        live: Sequence[int] = self._map.live_codes(batch.base_offset, batch.last_offset)
        has_tombstones = False
        if self._map.has_tombstones and any(code & 1 for code in live):
            if self._is_expired(batch):
                live = [code for code in live if not code & 1]
            else:
                has_tombstones = True
        if not live:
            return self._empty(batch)
        needs_horizon = has_tombstones and not batch.attributes & DELETE_HORIZON_FLAG
        if len(live) == batch.record_count and not needs_horizon:
            return _whole(batch)
        data, position, stop = batch.records()
        base_offset = batch.base_offset
        if batch.record_count == batch.last_offset - base_offset + 1:
            spans = spans_at(data, position, stop, batch.record_count, [(code >> 1) - base_offset for code in live])
        else:
            positions = set(live)
            walk = walk_keys(data, position, stop, batch.record_count, base_offset)
            spans = [span for span, code, _ in walk if code in positions]
        return self._rewrite(batch, data, spans, needs_horizon=needs_horizon)

    def _filter_clean(self, batch: RawBatch) -> Left | None:
        """Filter a batch below the map: a record whose key is in the map has a later record."""
        data, position, stop = batch.records()
        kept, tombstones = spans_without(self._map.latest, data, position, stop, batch.record_count)
        if tombstones and not self._is_expired(batch):
            kept = sorted(kept + tombstones)
        else:
            tombstones = []
        return self._of_spans(batch, data, kept, has_tombstones=bool(tombstones))

    def _filter_one_by_one(self, batch: RawBatch) -> Left | None:
        """Filter a batch that reaches across the start or the end of the map."""
        data, position, stop = batch.records()
        is_expired = self._is_expired(batch)
        has_tombstones = False
        spans = []
        for span, code, key in walk_keys(data, position, stop, batch.record_count, batch.base_offset):
            if self._stays(code, key, is_expired=is_expired):
                spans.append(span)
                has_tombstones |= bool(code & 1)
        return self._of_spans(batch, data, spans, has_tombstones=has_tombstones)

    def _stays(self, code: int, key: bytes | None, *, is_expired: bool) -> bool:
        if code >> 1 >= self._map.end_offset:
            return True
        if key is None or (code & 1 and is_expired):
            return False
        return code >> 1 >= self._map.latest.get(key, -1) >> 1

    def _filter_legacy(self, batch: RawBatch) -> Left | None:
        legacy = batch.checked()
        records = list(decode_records(legacy))
        kept = []
        has_tombstones = False
        for record in records:
            code = 2 * record.offset | (record.value is None)
            if self._stays(code, None if record.key is None else map_key(record.key), is_expired=False):
                kept.append(record)
                has_tombstones |= record.value is None
        if len(kept) == len(records) and not has_tombstones:
            return Left(batch.data, legacy.max_timestamp, is_same=True)
        if not kept and legacy.last_offset + 1 != self._round_end_offset:
            return None
        base_offset = kept[0].offset if kept else legacy.base_offset
        max_timestamp = legacy.max_timestamp if legacy.timestamp_type else max((each.timestamp for each in kept), default=NO_TIMESTAMP)
        data = build_batch(
            kept,
            base_offset=base_offset,
            keep_offsets=True,
            last_offset_delta=legacy.last_offset - base_offset,
            compression=legacy.compression,
            timestamp_type=legacy.timestamp_type,
            max_timestamp=max_timestamp,
            delete_horizon_ms=self._horizon_ms if has_tombstones else None,
        )
        return Left(data, max_timestamp)

    # Writing

    def _of_spans(self, batch: RawBatch, data: bytes, spans: list[Span], *, has_tombstones: bool) -> Left | None:
        if not spans:
            return self._empty(batch)
        needs_horizon = has_tombstones and not batch.attributes & DELETE_HORIZON_FLAG
        if len(spans) == batch.record_count and not needs_horizon:
            return _whole(batch)
        return self._rewrite(batch, data, spans, needs_horizon=needs_horizon)

    def _rewrite(self, batch: RawBatch, data: bytes, spans: Sequence[Span], *, needs_horizon: bool) -> Left:
        """Return the batch with only the records of these spans."""
        base_timestamp, max_timestamp = batch.base_timestamp, batch.max_timestamp
        attributes = batch.attributes & (_KEPT_ATTRIBUTES | DELETE_HORIZON_FLAG)
        if not attributes & LOG_APPEND_TIME_FLAG:
            max_timestamp = base_timestamp + max(timestamp_deltas(data, spans))
        if needs_horizon:
            records = shift_timestamps(data, spans, base_timestamp - self._horizon_ms)
            base_timestamp = self._horizon_ms
            attributes |= DELETE_HORIZON_FLAG
        else:
            records = join_spans(data, spans)
        if attributes & COMPRESSION_MASK:
            records = compress(batch.compression, records)
        return Left(_with_header(batch, attributes, base_timestamp, max_timestamp, len(spans), records), max_timestamp)

    def _empty(self, batch: RawBatch) -> Left | None:
        """Return a header for a batch that loses all its records, or None if it is removed."""
        last = self._last_records.get(batch.producer_id) if batch.producer_id >= 0 else None
        if last is None:
            is_last_of_producer = False
        elif last.last_data_offset >= 0:
            is_last_of_producer = batch.last_offset == last.last_data_offset
        else:
            is_last_of_producer = bool(batch.attributes & CONTROL_FLAG) and batch.producer_epoch == last.producer_epoch
        if not is_last_of_producer and batch.last_offset + 1 != self._round_end_offset:
            return None
        batch.check_crc()
        attributes = batch.attributes & _KEPT_ATTRIBUTES & ~COMPRESSION_MASK
        return Left(_with_header(batch, attributes, NO_TIMESTAMP, batch.max_timestamp, 0, b""), batch.max_timestamp)


def control_type_of(batch: RawBatch) -> ControlType | None:
    """Return the type of a control batch; None if it has lost its record."""
    if not batch.record_count:
        return None
    data, position, stop = batch.records()
    for _, _, key in walk_keys(data, position, stop, batch.record_count, batch.base_offset):
        return parse_control_key(key)
    raise CorruptMessage(f"{batch}: a control batch that cannot be read")


def _whole(batch: RawBatch) -> Left:
    batch.check_crc()
    return Left(batch.data, batch.max_timestamp, is_same=True)


def _with_header(batch: RawBatch, attributes: int, base_timestamp: int, max_timestamp: int, count: int, records: bytes) -> bytearray:  # noqa: PLR0917  all numbers of one batch
    """Return a batch of these records; everything else is as in `batch`."""
    data = bytearray(HEADER_SIZE)
    HEADER.pack_into(
        data,
        0,
        batch.base_offset,
        HEADER_SIZE - LOG_OVERHEAD + len(records),
        batch.leader_epoch,
        MAGIC_V2,
        0,
        attributes,
        batch.last_offset - batch.base_offset,
        base_timestamp,
        max_timestamp,
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        count,
    )
    data += records
    sum_batch(data)
    return data
