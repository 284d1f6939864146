"""What makes a log smaller: at its start (DeleteRecords, retention), and within (compaction).

Invariant: a reader sees the new log start at once; files go later, when the names of those that stay are on the disk, and after
file.delete.delay.ms. Removals run on another thread, and own what they touch.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from minibroker.errors import KafkaStorageError, OffsetOutOfRange
from minibroker.log.deletion import remove_files, remove_later
from minibroker.log.durable_log import DurableLog

if TYPE_CHECKING:
    from minibroker.log.compaction import Cleanable, Compacted, Compaction


SEGMENTS_A_TURN: Final = 40  #: some 85 us each to be renamed


class ShrinkingLog(DurableLog):
    """A log whose oldest segments and superseded records go; which segments retention lets go is decided in retention.py."""

    def advance_log_start_offset(self, offset: int) -> None:
        """Forget records below `offset`, and delete segments that hold only such; a lower offset moves nothing.

        Raises OffsetOutOfRange above the high watermark. The log start offset checkpoint is the cluster's to write.
        """
        if offset > self.high_watermark:
            raise OffsetOutOfRange(f"{offset=} is above the high watermark {self.high_watermark} of {self.name}")
        if offset <= self.log_start_offset:
            return
        with self._watched():
            self._begin_at(offset)

    def _begin_at(self, offset: int) -> None:
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            self.last_stable_offset = max(self.last_stable_offset, offset)
            if self.first_unstable_offset is not None:
                self.first_unstable_offset = max(self.first_unstable_offset, offset)
            self._epochs.truncate_from_start(offset)
        if self._has_segments_below_start:
            self._when_names_are_synced(self._delete_below_start)

    def _delete_below_start(self) -> None:
        with self._watched():
            taken = self.segments.take_below(self.log_start_offset, SEGMENTS_A_TURN)
            paths = [path for segment in taken for path in segment.mark_deleted()]
            paths += self._snapshots.retire_below(min(self.segments.nth(0).base_offset, self.log_start_offset))
        self._remove_later(lambda: remove_files(self._files, paths))
        if self._has_segments_below_start:
            self._clock.call_later_ms(0, self._delete_more)

    @property
    def _has_segments_below_start(self) -> bool:
        """Whether there are segments below the log start."""
        return self.segments.floor(self.log_start_offset).base_offset > self.segments.nth(0).base_offset

    def _delete_more(self) -> None:
        if self._has_segments_below_start and not self.is_closed:
            with suppress(KafkaStorageError):  # whose log it is was told
                self._when_names_are_synced(self._delete_below_start)  # again: the log may have rolled, and its start have moved

    def _remove_later(self, work: Callable[[], None]) -> None:
        remove_later(work, delay_ms=self.config.file_delete_delay_ms, clock=self._clock, background=self._background)

    # Compaction: see log/compaction.py

    def cleanable(self, first_dirty_offset: int, now_ms: int) -> Cleanable:
        """How much lies below and above `first_dirty_offset`, which is within the log."""
        from minibroker.log.compaction import measure  # noqa: PLC0415  a start does without

        with self._watched():
            return measure(self.segments, self.config, first_dirty_offset, self.last_stable_offset, now_ms)

    def begin_compaction(self, first_dirty_offset: int, now_ms: int, *, offset_map_bytes: int) -> Compaction | None:
        """A plan for all that is cleanable; None when nothing is. Only one may be at work at one time."""
        from minibroker.log.compaction import make_plan  # noqa: PLC0415  a start does without

        found = self.cleanable(first_dirty_offset, now_ms)
        if not found.dirty_bytes:
            return None
        with self._watched():
            end_offset, producers = found.first_uncleanable_offset, self._producers.producers
            aborted = self._aborted.collect(self.segments.nth(0).base_offset, end_offset)
            return make_plan(self.segments, self.config, producers, aborted, first_dirty_offset, end_offset, now_ms, offset_map_bytes)

    def end_compaction(self, compacted: Compacted) -> bool:
        """Let what a plan's run wrote replace what it was made from; False when that has changed meanwhile.

        Not synced: the folder must be before anybody relies on `compacted.next_dirty_offset`. A failure takes the log offline.
        """
        from minibroker.log.swapping import remove_replaced, swap_all  # noqa: PLC0415  a start does without

        if self.offline_cause is not None:
            return False
        try:
            paths = swap_all(self._files, self.segments, self._snapshots, compacted.groups, self.config)
        except OSError as error:
            raise self._failed(error, is_fatal=True) from error
        if paths is None:
            return False
        self._folder_changes += 1
        self._remove_later(lambda: remove_replaced(self._files, self.directory, paths))
        return True
