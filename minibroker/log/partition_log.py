"""One partition's log (being written: the signatures hold)."""

from __future__ import annotations

from pathlib import Path
from typing import Self

from minibroker.background import Background
from minibroker.clock import Clock
from minibroker.log.log_config import LogConfig
from minibroker.log.results import AbortedTransaction, Appended, EpochEndOffset, IsolationLevel, TimestampOffset
from minibroker.storage.files import Files


class PartitionLog:
    """Invariant: log_start_offset <= last_stable_offset <= high_watermark <= log_end_offset.

    Errors: KafkaError kinds for a refused append or read, the log untouched; KafkaStorageError when a file system call failed.
    After a failed fsync, or a failed write that could not be undone, the log is offline: `offline_cause` is set and every
    call raises KafkaStorageError.
    """

    name: str  #: folder name, topic-partition
    config: LogConfig
    log_start_offset: int
    high_watermark: int
    last_stable_offset: int
    log_end_offset: int
    leader_epoch: int  #: stamped on what is appended; see assign_leader_epoch
    recovery_point: int  #: all below is on the disk
    size: int  #: bytes of all segments
    segment_count: int
    unflushed_messages: int  #: log_end_offset - recovery_point
    offline_cause: OSError | None

    @classmethod
    def open(
        cls,
        directory: Path,
        *,
        config: LogConfig,
        files: Files,
        clock: Clock,
        background: Background | None = None,
        clean_shutdown: bool = False,
        recovery_point: int = 0,
        log_start_offset: int = 0,
        producer_id_expiration_ms: int = 86_400_000,
    ) -> Self:
        """Open or create the log of a folder; without a clean shutdown everything from the recovery point on is checked."""
        raise NotImplementedError

    def append(self, data: memoryview, *, produce_version: int | None = None) -> Appended:
        """Validate what a producer sent, give it offsets, and write it at once with one call."""
        raise NotImplementedError

    def read(self, offset: int, max_bytes: int, *, isolation: IsolationLevel | None, min_one: bool = True) -> bytes | memoryview:
        """Whole batches, the first being the one that holds `offset`; empty at the end. OffsetOutOfRange beyond either end."""
        raise NotImplementedError

    def offset_for_timestamp(self, timestamp_ms: int) -> TimestampOffset | None:
        """The first record whose timestamp reaches `timestamp_ms`; the caller compares its offset with the reader's bound."""
        raise NotImplementedError

    def max_timestamp_offset(self) -> TimestampOffset | None:
        """The record with the largest timestamp."""
        raise NotImplementedError

    def end_offset_for_epoch(self, leader_epoch: int) -> EpochEndOffset:
        """Where the largest epoch up to `leader_epoch` ends."""
        raise NotImplementedError

    def assign_leader_epoch(self, leader_epoch: int) -> None:
        """This broker leads the partition from log_end_offset on with a new epoch."""
        raise NotImplementedError

    def advance_log_start_offset(self, offset: int) -> None:
        """Forget records below `offset`, and delete segments that hold only such; OffsetOutOfRange above the high watermark."""
        raise NotImplementedError

    def aborted_transactions(self, first_offset: int, last_offset: int) -> list[AbortedTransaction]:
        """Those that have records within a range of offsets."""
        raise NotImplementedError

    def hold_high_watermark(self) -> None:
        """Let the high watermark stay where it is while the log grows: for tests."""
        raise NotImplementedError

    def release_high_watermark(self) -> None:
        """Let it follow the log end again."""
        raise NotImplementedError

    def flush(self) -> None:
        """Return when everything is on the disk: recovery_point becomes log_end_offset."""
        raise NotImplementedError

    def close(self, *, clean: bool = True) -> None:
        """Close files; clean: first write what an opening with clean_shutdown=True relies on."""
        raise NotImplementedError

    def delete(self) -> None:
        """Rename the folder out of the way at once; its files go after file_delete_delay_ms."""
        raise NotImplementedError

    def update_config(self, config: LogConfig) -> None:
        """Use another configuration from now on."""
        raise NotImplementedError
