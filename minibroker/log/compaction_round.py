"""One round of compaction, which another process may run: read closed segments, write `.cleaned` files.

A CompactionPlan holds only numbers and paths, no open files, so it can be pickled. compaction.py makes plans and explains what a round
covers; batch_filter.py decides which records stay.

Source: Cleaner of Apache Kafka 4.3.1. It differs: a segment that keeps all its records is not rewritten, and the new segments are swapped
in at the end of the round.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from minibroker.errors import CorruptMessage
from minibroker.log.batch_filter import BatchFilter, CleanedTransactions, LastRecord, OffsetMap, control_type_of
from minibroker.log.log_config import LogConfig
from minibroker.log.swapping import CleanedSegment, Group, Source, remove_cleaned
from minibroker.records.any_format import decode_records
from minibroker.records.batch import CONTROL_FLAG, MAGIC_V2, TRANSACTIONAL_FLAG
from minibroker.storage.files import READ_ONLY, Files
from minibroker.storage.log_file_names import LOG, OFFSET_INDEX, TIME_INDEX, file_name
from minibroker.storage.raw_batches import RawBatch, read_raw
from minibroker.storage.segment import MAX_RELATIVE_OFFSET
from minibroker.storage.transaction_index import AbortedTxn


class Compacted(NamedTuple):
    """The result of a round. `groups` is None if source segments were deleted meanwhile: then nothing can be swapped in."""

    groups: tuple[Group, ...] | None
    next_dirty_offset: int
    key_count: int = 0  #: in the offset map
    bytes_read: int = 0  #: of segments that were filtered
    bytes_left: int = 0  #: of the same segments after the round


class CompactionPlan(NamedTuple):
    """The input of a round. Only one round of a log may run at one time."""

    directory: str
    sources: tuple[Source, ...]  #: from the log's first segment to the end of the round
    first_dirty_offset: int
    first_uncleanable_offset: int
    now_ms: int
    offset_map_bytes: int
    config: LogConfig
    aborted: tuple[AbortedTxn, ...]
    last_records: dict[int, LastRecord]

    def run(self, files: Files) -> Compacted:
        """Run the round.

        Raises:
            OSError: the file system failed. `.cleaned` files may be left.
            CorruptMessage, InvalidRecord: the log cannot be compacted. `.cleaned` files may be left.
        """
        try:
            return _Round(self, files).run()
        except FileNotFoundError:
            if all(files.exists(self.path(source)) for source in self.sources):
                raise
            self.discard(files)
            return Compacted(None, self.first_dirty_offset)

    def discard(self, files: Files) -> None:
        """Remove the files of a run that failed."""
        remove_cleaned(files, self.directory)

    def path(self, source: Source, suffix: str = LOG) -> str:
        """Return the path of a file of a source."""
        return f"{self.directory}/{file_name(source.base_offset, suffix)}"


class _Round:
    """One `CompactionPlan.run`."""

    def __init__(self, plan: CompactionPlan, files: Files) -> None:
        self._plan = plan
        self._files = files
        ends = [source.base_offset for source in plan.sources[1:]] + [plan.first_uncleanable_offset]
        self._end_offsets = dict(zip(plan.sources, ends, strict=True))
        self._bytes_read = self._bytes_left = 0

    def run(self) -> Compacted:
        plan = self._plan
        offset_map = self._fill_map()
        transactions = CleanedTransactions(plan.aborted)
        batch_filter = BatchFilter(
            offset_map,
            transactions,
            round_end_offset=plan.first_uncleanable_offset,
            last_records=plan.last_records,
            now_ms=plan.now_ms,
            delete_retention_ms=plan.config.delete_retention_ms,
        )
        sources = [source for source in plan.sources if source.base_offset < offset_map.end_offset]
        groups = []
        for group in self._grouped(sources):
            size = self._clean(group, batch_filter, transactions)
            if size is not None:
                groups.append(Group(tuple(group), size))
        self._files.sync_directory(plan.directory)
        return Compacted(tuple(groups), offset_map.end_offset, len(offset_map.latest), self._bytes_read, self._bytes_left)

    def _batches(self, source: Source) -> Iterator[RawBatch]:
        path = self._plan.path(source)
        descriptor = self._files.handles.open_path(path, READ_ONLY)
        next_offset, end_offset = source.base_offset, self._end_offsets[source]
        try:
            for batch in read_raw(self._files, descriptor, source.size, path):
                if not next_offset <= batch.base_offset <= batch.last_offset < end_offset:  # no CRC covers the base offset
                    raise CorruptMessage(f"{batch}: offsets {batch.base_offset} to {batch.last_offset} cannot be here")
                next_offset = batch.last_offset + 1
                yield batch
        finally:
            self._files.close(descriptor)

    # The offset map

    def _fill_map(self) -> OffsetMap:
        plan = self._plan
        offset_map = OffsetMap(plan.first_dirty_offset, plan.offset_map_bytes)
        # The markers of other transactions are before the walk. Nothing would end these
        # transactions, so later committed batches would be dropped.
        transactions = CleanedTransactions(each for each in plan.aborted if each.last_offset >= plan.first_dirty_offset)
        for source, end_offset in self._end_offsets.items():
            if end_offset <= plan.first_dirty_offset:
                continue
            for batch in self._batches(source):
                if batch.last_offset >= plan.first_dirty_offset:
                    _map_batch(batch, offset_map, transactions)
                    if offset_map.is_full:
                        break
            if offset_map.is_full:
                break
            offset_map.pass_over(end_offset - 1)
        offset_map.freeze()
        return offset_map

    # The segments

    def _grouped(self, sources: Sequence[Source]) -> Iterator[list[Source]]:
        """Yield adjacent segments that may become one."""
        config = self._plan.config
        group: list[Source] = []
        sizes = (0, 0, 0)
        for source in sources:
            added = source.size, self._size(source, OFFSET_INDEX), self._size(source, TIME_INDEX)
            total = sizes[0] + added[0], sizes[1] + added[1], sizes[2] + added[2]
            if group and (
                total[0] > config.segment_bytes
                or max(total[1:]) > config.segment_index_bytes
                or (source.size and self._end_offsets[source] - 1 - group[0].base_offset > MAX_RELATIVE_OFFSET)
            ):
                yield group
                group, total = [], added
            group.append(source)
            sizes = total
        if group:
            yield group

    def _size(self, source: Source, suffix: str) -> int:
        try:
            return self._files.size(self._plan.path(source, suffix))
        except FileNotFoundError:
            return 0

    def _clean(self, group: Sequence[Source], batch_filter: BatchFilter, transactions: CleanedTransactions) -> int | None:
        """Write the remaining records of a group. Returns the size of the `.log`; None if it is one segment that keeps all records."""
        plan, files = self._plan, self._files
        transactions.retained.clear()
        cleaned = self._new_segment(group[0]) if len(group) > 1 else None
        try:
            for source in group:
                for batch in self._batches(source):
                    left = batch_filter.apply(batch)
                    if cleaned is None and (left is None or not left.is_same):
                        cleaned = self._new_segment(source)
                        self._copy(source, batch.position, cleaned)
                    if left is not None and cleaned is not None:
                        cleaned.append(left.data, len(left.data), batch.last_offset, left.max_timestamp)
                self._bytes_read += source.size
            self._bytes_left += group[0].size if cleaned is None else cleaned.size
            if cleaned is None:
                self._sync(group[0])
            return None if cleaned is None else cleaned.finish(files.modified_ms(plan.path(group[-1])), transactions.retained)
        finally:
            if cleaned is not None:
                cleaned.abandon()

    def _sync(self, source: Source) -> None:
        """Sync a segment that is not rewritten: its records replace older ones, whose removal may reach the disk first."""
        if self._end_offsets[source] <= self._plan.first_dirty_offset:
            return  # an earlier round synced it
        descriptor = self._files.handles.open_path(self._plan.path(source), READ_ONLY)
        try:
            self._files.sync(descriptor)
        finally:
            self._files.close(descriptor)

    def _new_segment(self, source: Source) -> CleanedSegment:
        return CleanedSegment(
            self._files,
            self._plan.directory,
            source.base_offset,
            index_interval_bytes=self._plan.config.index_interval_bytes,
            index_max_bytes=self._plan.config.segment_index_bytes,
        )

    def _copy(self, source: Source, end: int, cleaned: CleanedSegment) -> None:
        """Copy the batches before position `end`, which the filter has kept unchanged."""
        for batch in self._batches(source) if end else ():
            if batch.position >= end:
                return
            max_timestamp = batch.max_timestamp if batch.magic == MAGIC_V2 else batch.checked().max_timestamp
            cleaned.append(batch.data, batch.stop - batch.index, batch.last_offset, max_timestamp)


def _map_batch(batch: RawBatch, offset_map: OffsetMap, transactions: CleanedTransactions) -> None:
    last_offset = batch.last_offset
    if batch.magic != MAGIC_V2:
        offset_map.add_records(decode_records(batch.checked()), last_offset)
        return
    attributes = batch.attributes
    if attributes & CONTROL_FLAG:
        transactions.on_marker(batch.producer_id, last_offset, control_type_of(batch))
    elif not attributes & TRANSACTIONAL_FLAG or not transactions.on_batch(batch.producer_id, last_offset):
        data, position, stop = batch.records()
        offset_map.add(data, position, stop, count=batch.record_count, base_offset=batch.base_offset, last_offset=last_offset)
        return
    offset_map.pass_over(last_offset)
