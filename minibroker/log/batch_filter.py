"""What compaction leaves of one batch: all of it as it is, nothing, fewer records, or a header without any.

A record stays when it has the last offset of its key, and

    its value is null (a tombstone)   only until the delete horizon of its batch: base_timestamp, where attribute bit 6 says so. The first
                                      compaction that meets a tombstone sets it to now + delete.retention.ms
    its transaction was aborted       it goes; markers: see cleaned_transactions.py, with the horizon as for tombstones
    it has no key                     it goes
    it lies beyond the offset map     it stays for now

A batch without records stays as a header when a producer that is still known wrote its last sequence in it, or when it is the last one
of the round, so that offsets and sequences go on behind it.

Offsets, sequences, epochs, the codec and the timestamp type of a batch stay. What loses records keeps base_timestamp, so that records are
copied as they are, and gets the largest timestamp of those that are left. Batches of formats v0 and v1 become v2 when they lose a record
or hold a tombstone. A batch with a wrong CRC raises CorruptMessage: summing it anew would hide the damage.
Source: Cleaner and MemoryRecords.filterTo of Apache Kafka, which sets base_timestamp to the first record's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from minibroker.errors import CorruptMessage
from minibroker.log.cleaned_transactions import CleanedTransactions
from minibroker.log.log_config import LONG_MAX
from minibroker.log.offset_map import OffsetMap
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
from minibroker.records.key_walk import Span, join_spans, map_key, shift_timestamps, spans_at, spans_without, timestamp_deltas, walk_keys
from minibroker.storage.raw_batches import RawBatch

_TRANSACTION_FLAGS: Final = TRANSACTIONAL_FLAG | CONTROL_FLAG
_KEPT_ATTRIBUTES: Final = COMPRESSION_MASK | LOG_APPEND_TIME_FLAG | _TRANSACTION_FLAGS


class LastRecord(NamedTuple):
    """What is known of an active producer's last record: `last_data_offset` is -1 when only a marker has its epoch."""

    last_data_offset: int
    producer_epoch: int


class Left(NamedTuple):
    """What is left of a batch, as bytes, and what an index wants to know of it."""

    data: bytes | bytearray | memoryview
    max_timestamp: int
    record_count: int
    is_same: bool = False  #: not a byte was changed


class BatchFilter:
    """The decisions of one round; batches come in offset order."""

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
        """What is left; None for nothing. CorruptMessage, InvalidRecord for a batch that cannot be read."""
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
        """All its records are in the map: which of them are last is known without a look at them."""
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
            wanted = set(live)
            walk = walk_keys(data, position, stop, batch.record_count, base_offset)
            spans = [span for span, code, _ in walk if code in wanted]
        return self._rewrite(batch, data, spans, needs_horizon=needs_horizon)

    def _filter_clean(self, batch: RawBatch) -> Left | None:
        """It lies below the map: a record whose key is in there has a later one."""
        data, position, stop = batch.records()
        kept, tombstones = spans_without(self._map.latest, data, position, stop, batch.record_count)
        if tombstones and not self._is_expired(batch):
            kept = sorted(kept + tombstones)
        else:
            tombstones = []
        return self._of_spans(batch, data, kept, has_tombstones=bool(tombstones))

    def _filter_one_by_one(self, batch: RawBatch) -> Left | None:
        """It reaches across an end of the map."""
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
            return Left(batch.data, legacy.max_timestamp, len(kept), is_same=True)
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
        return Left(data, max_timestamp, len(kept))

    # What is written

    def _of_spans(self, batch: RawBatch, data: bytes, spans: list[Span], *, has_tombstones: bool) -> Left | None:
        if not spans:
            return self._empty(batch)
        needs_horizon = has_tombstones and not batch.attributes & DELETE_HORIZON_FLAG
        if len(spans) == batch.record_count and not needs_horizon:
            return _whole(batch)
        return self._rewrite(batch, data, spans, needs_horizon=needs_horizon)

    def _rewrite(self, batch: RawBatch, data: bytes, spans: Sequence[Span], *, needs_horizon: bool) -> Left:
        """The batch with these of its records."""
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
        return Left(_with_header(batch, attributes, base_timestamp, max_timestamp, len(spans), records), max_timestamp, len(spans))

    def _empty(self, batch: RawBatch) -> Left | None:
        """No record stays: a header, or nothing."""
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
        return Left(_with_header(batch, attributes, NO_TIMESTAMP, batch.max_timestamp, 0, b""), batch.max_timestamp, 0)


def control_type_of(batch: RawBatch) -> ControlType | None:
    """What a control batch says; None when it has lost its record."""
    if not batch.record_count:
        return None
    data, position, stop = batch.records()
    for _, _, key in walk_keys(data, position, stop, batch.record_count, batch.base_offset):
        return parse_control_key(key)
    raise CorruptMessage(f"{batch}: a control batch that cannot be read")


def _whole(batch: RawBatch) -> Left:
    batch.check_crc()
    return Left(batch.data, batch.max_timestamp, batch.record_count, is_same=True)


def _with_header(batch: RawBatch, attributes: int, base_timestamp: int, max_timestamp: int, count: int, records: bytes) -> bytearray:  # noqa: PLR0917  all numbers of one batch
    """A batch of these records with everything else as in `batch`."""
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
