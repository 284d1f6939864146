"""Open a log from its folder: find its files, check them, and find the log end.

    after a clean shutdown    nothing is scanned: the end is read from the last index entry on, producers from the newest snapshot
    after anything else       all segments are read, from the one that holds the recovery point or the log start on; the log ends
                              before the first batch that is torn, fails its CRC or goes back in offsets, and at a segment without its
                              end (a power loss may take it and leave the next segment); later segments are deleted;
                              indexes, aborted transactions, producer state and leader epochs are rebuilt from the batches, and so
                              is a missing snapshot at the base offset of a segment: the batches before it may be deleted next
    in both cases             deleted files and orphans are removed; segments of a finished compaction (.swap) replace the old ones;
                              missing indexes and snapshots are rebuilt when they are needed

Loading again, or after being killed half way, gives the same log. Source: LogLoader of Apache Kafka.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import NamedTuple

from minibroker.errors import CorruptLogError, CorruptMessage
from minibroker.log.log_config import LogConfig
from minibroker.log.producer_state import ProducerState, Snapshots
from minibroker.log.segment_recovery import SegmentRecovery
from minibroker.log.segments import Segments
from minibroker.storage.batch_scan import read_batches, read_headers
from minibroker.storage.checkpoint_file import LEADER_EPOCHS, LeaderEpochCheckpoint
from minibroker.storage.files import Files
from minibroker.storage.log_file_names import CLEANED, DELETED, LOG, SNAPSHOT, SWAP, TEMPORARY, file_name, parse_file_name
from minibroker.storage.segment import MAX_RELATIVE_OFFSET, Segment

logger = logging.getLogger(__name__)


class LoadedLog(NamedTuple):
    """The loaded parts of a PartitionLog."""

    segments: Segments
    log_start_offset: int
    log_end_offset: int
    recovery_point: int
    producers: ProducerState
    snapshots: Snapshots
    epochs: LeaderEpochCheckpoint


class Loader:
    """Opens the log of one folder. Use it once."""

    def __init__(
        self, directory: str, *, config: LogConfig, files: Files, now_ms: int, log_start_offset: int, producer_id_expiration_ms: int
    ) -> None:
        self._directory = directory
        self._config = config
        self._files = files
        self._now_ms = now_ms
        self._may_have_gaps = config.is_compacted
        self._log_start_offset = log_start_offset
        self._producers = ProducerState(producer_id_expiration_ms)
        self._snapshots = Snapshots(files, directory)
        self._epochs = LeaderEpochCheckpoint(files, f"{directory}/{LEADER_EPOCHS}")

    def load(self, *, clean_shutdown: bool, recovery_point: int, was_compacted: bool) -> LoadedLog:
        """Open the files of the folder; an empty folder becomes an empty log.

        `was_compacted`: the log was compacted at some time, so that offsets may be missing, also at the end of a segment.
        """
        self._may_have_gaps |= was_compacted
        names = set(self._files.names(self._directory))
        if any(name.endswith((DELETED, CLEANED, SWAP, TEMPORARY)) for name in names):
            from minibroker.log.swapping import finish_interrupted_work  # noqa: PLC0415  most starts do not need it

            names = finish_interrupted_work(self._files, self._directory, names)
        segments = self._find_segments(names)
        is_new = not segments
        if is_new:
            segments = [self.create_segment(self._log_start_offset)]
        self._log_start_offset = max(self._log_start_offset, segments[0].base_offset)
        epochs_are_known = self._load_epochs(names, is_known_empty=is_new or segments[-1].base_offset + segments[-1].size == 0)
        if is_new:
            end_offset = self._log_start_offset
            self._producers.end_offset = end_offset
        elif clean_shutdown:
            end_offset = self._open_clean(segments, recovery_point)
        else:
            end_offset = self._recover(segments, recovery_point)
        if end_offset < self._log_start_offset:
            segments, end_offset = self._start_over(segments, end_offset)
        if not epochs_are_known:
            self._rebuild_epochs(segments[_holding(segments, self._log_start_offset) :])
        self._epochs.truncate_from_end(end_offset + 1)  # an epoch that starts at the end is that of the next records
        self._epochs.truncate_from_start(self._log_start_offset)
        self._producers.end_offset = end_offset
        self._producers.remove_expired(self._now_ms, partial(self._written_ms, segments))
        for segment in segments[:-1]:
            segment.forget_when_idle()
        recovered_to = end_offset if clean_shutdown else min(recovery_point, end_offset)
        return LoadedLog(
            Segments(segments), self._log_start_offset, end_offset, recovered_to, self._producers, self._snapshots, self._epochs
        )

    # Files

    def _find_segments(self, names: set[str]) -> list[Segment]:
        found = [parsed for parsed in map(parse_file_name, names) if parsed is not None]
        base_offsets = sorted(offset for offset, suffix in found if suffix == LOG)
        for offset, suffix in found:
            if suffix == SNAPSHOT:
                self._snapshots.offsets.append(offset)
            elif suffix != LOG and file_name(offset, LOG) not in names:
                path = f"{self._directory}/{file_name(offset, suffix)}"
                logger.warning("removed %s: it is an index without a log", path)
                self._files.remove(path)
        self._snapshots.offsets.sort()
        segments = [self._open_segment(offset) for offset in base_offsets]
        for segment in segments[:-1]:
            if segment.size == 0 and not self._may_have_gaps:
                logger.warning("%s is empty: its records were lost", segment.log.path)
        return segments

    def _open_segment(self, base_offset: int) -> Segment:
        return Segment(
            self._files,
            self._directory,
            base_offset,
            size=self._files.size(f"{self._directory}/{file_name(base_offset, LOG)}"),
            index_interval_bytes=self._config.index_interval_bytes,
            index_max_bytes=self._config.segment_index_bytes,
            created_ms=self._now_ms,
        )

    def create_segment(self, base_offset: int) -> Segment:
        """Create a new segment in this folder."""
        return Segment.create(
            self._files,
            self._directory,
            base_offset,
            index_interval_bytes=self._config.index_interval_bytes,
            index_max_bytes=self._config.segment_index_bytes,
            created_ms=self._now_ms,
        )

    def _remove_segment(self, segment: Segment) -> None:
        segment.release()
        for path in segment.paths():
            self._files.remove(path)

    # Where the log ends

    def _open_clean(self, segments: list[Segment], recovery_point: int) -> int:
        """Find the log end after a clean stop, which synced everything: a known recovery point is the log end."""
        try:
            end_offset = segments[-1].next_offset()
            problem = f"{self._directory} ends at offset {end_offset}, but it ended at {recovery_point} when the broker stopped"
        except CorruptMessage as error:
            end_offset, problem = -1, str(error)
        if end_offset < 0 or recovery_point not in {0, end_offset}:
            logger.warning("%s: recovering the log, although the last shutdown was clean", problem)
            return self._recover(segments, segments[-1].base_offset)
        if end_offset == recovery_point < self._log_start_offset:
            logger.warning(
                "%s: ignoring a log start offset of %d, which is after the end of the log", self._directory, self._log_start_offset
            )
            self._log_start_offset = segments[0].base_offset
        if self._snapshots.offsets or end_offset > self._log_start_offset:
            self._restore_producers(segments, end_offset)
        return end_offset

    def _recover(self, segments: list[Segment], recovery_point: int) -> int:
        """Read everything from the recovery point on, and cut the log before the first bad batch.

        Segments below the log start are skipped: some of them may be deleted, or may be back after
        a power loss. Such a hole does not mean that later segments are damaged.
        """
        held = _holding(segments, self._log_start_offset)
        first = max(held, _holding(segments, recovery_point))
        self._restore_producers(segments[held:first], segments[first].base_offset)
        end_offset = segments[first].base_offset
        for index in range(first, len(segments)):
            segment = segments[index]
            if index > held:
                self._producers.end_offset = segment.base_offset
                self._snapshots.complete(self._producers)
            limit_offset = segments[index + 1].base_offset if index + 1 < len(segments) else None
            end_offset, is_whole = self._recover_segment(segment, max(end_offset, segment.base_offset), limit_offset)
            if not is_whole:
                for later in segments[index + 1 :]:
                    logger.warning("removed %s: it starts after the end of the log", later.log.path)
                    self._remove_segment(later)
                if segments[index + 1 :]:
                    self._files.sync_directory(self._directory)  # no removed segment may come back among new ones
                del segments[index + 1 :]
                break
        for offset in [known for known in self._snapshots.offsets if known > end_offset]:
            self._snapshots.remove(offset)
        return end_offset

    def _recover_segment(self, segment: Segment, expected_offset: int, limit_offset: int | None) -> tuple[int, bool]:
        """Return the offset after the last valid batch, and whether no invalid batch follows."""
        is_last = limit_offset is None
        may_have_gaps = not is_last or self._may_have_gaps
        if limit_offset is None:
            limit_offset = segment.base_offset + MAX_RELATIVE_OFFSET + 1
        valid = SegmentRecovery(
            segment,
            self._files,
            expected_offset=expected_offset,
            limit_offset=limit_offset,
            may_have_gaps=may_have_gaps,
            epochs=self._epochs,
            producers=self._producers,
        )
        valid.run()
        if valid.size < segment.size:
            lost = segment.size - valid.size
            logger.warning(
                "%s: cut %d bytes off at position %d: %s",
                segment.log.path,
                lost,
                valid.size,
                str(valid.problem).removeprefix(f"{segment.log.path}: "),
            )
            segment.truncate(valid.size)
            self._files.sync(segment.log.opened())  # the end may already be the recovery point: no flush would sync it
        if not is_last:
            # The indexes of the last segment are written when it rolls or closes. After a crash before that, it is recovered again.
            segment.save_indexes()
        is_whole = valid.problem is None
        if is_whole and valid.next_offset < limit_offset and not (is_last or valid.is_compacted or self._may_have_gaps):
            logger.warning(
                "%s ends at offset %d, but the next segment starts at %d: the records between them were lost",
                segment.log.path,
                valid.next_offset,
                limit_offset,
            )
            is_whole = False
        return valid.next_offset, is_whole

    def _start_over(self, segments: list[Segment], end_offset: int) -> tuple[list[Segment], int]:
        """Start an empty log at the log start offset, as Kafka does: all remaining records are below it."""
        logger.warning(
            "%s ends at offset %d, below its log start offset %d: starting an empty log at the log start offset",
            self._directory,
            end_offset,
            self._log_start_offset,
        )
        for segment in segments:
            self._remove_segment(segment)
        self._snapshots.restore(self._producers, -1, self._log_start_offset)
        return [self.create_segment(self._log_start_offset)], self._log_start_offset

    # Producers and epochs

    def _written_ms(self, segments: list[Segment], offset: int) -> int:
        """Return the latest time at which the record at `offset` was written."""
        holding = [segment for segment in segments if segment.base_offset <= offset]
        return self._files.modified_ms(holding[-1].log.path) if holding else 0

    def _restore_producers(self, segments: list[Segment], end_offset: int) -> None:
        """Load the newest snapshot, then read the batches after it."""
        if self._snapshots.offsets and self._snapshots.offsets[-1] > end_offset:
            older = [offset for offset in self._snapshots.offsets if offset <= end_offset]
            newer = self._snapshots.offsets[len(older) :]
            self._snapshots.offsets = older
            self._snapshots.restore(self._producers, end_offset, self._log_start_offset)
            self._snapshots.offsets += newer
        else:
            self._snapshots.restore(self._producers, end_offset, self._log_start_offset)
        start = self._producers.end_offset
        for index, segment in enumerate(segments):
            if index + 1 < len(segments) and segments[index + 1].base_offset <= start:
                continue
            found = segment.find(start) if start > segment.base_offset else None
            position = found.position if found else (segment.size if start > segment.base_offset else 0)
            for batch in read_batches(self._files, segment.log, position, segment.size):
                if batch.producer_id >= 0 and batch.base_offset >= start:
                    self._producers.update(batch, batch.base_offset)

    def _load_epochs(self, names: set[str], *, is_known_empty: bool) -> bool:
        """Load the leader epochs. Returns whether the checkpoint is valid."""
        try:
            if LEADER_EPOCHS in names:
                self._epochs.load()
        except CorruptLogError as error:
            logger.warning("%s: rebuilding", error)
            return False
        return is_known_empty or self._epochs.latest >= 0

    def _rebuild_epochs(self, segments: list[Segment]) -> None:
        self._epochs.reset()
        for segment in segments:
            for header in read_headers(self._files, segment.log, 0, segment.size):
                if header.leader_epoch > self._epochs.latest:
                    self._epochs.assign(header.leader_epoch, header.base_offset)


def _holding(segments: list[Segment], offset: int) -> int:
    """Return the place of the segment that holds `offset`, or would hold it."""
    index = 0
    while index + 1 < len(segments) and segments[index + 1].base_offset <= offset:
        index += 1
    return index
