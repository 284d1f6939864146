"""Cut off the end of a log, as when Apache Kafka elects a leader without it: for several brokers with `minibroker.like.kafka`.

The log is closed, its files are cut, and the rest is opened as after a crash, so that indexes, producers and leader epochs are those of
the remaining records. A crash in between leaves a log with a later end.
"""

from __future__ import annotations

from minibroker.background import Background
from minibroker.clock import Clock
from minibroker.log.partition_log import PartitionLog
from minibroker.storage.files import Files


def truncated(
    log: PartitionLog,
    end_offset: int,
    *,
    files: Files,
    clock: Clock,
    background: Background,
    was_compacted: bool,
    producer_id_expiration_ms: int,
) -> PartitionLog:
    """Return the log without its records from `end_offset` on; `log` is closed.

    Raises:
        KafkaStorageError: the file system failed; the log is closed.
        CorruptLogError: the rest cannot be opened.
        OSError: the file system failed; the log is closed.
    """
    end_offset = max(end_offset, log.log_start_offset)
    segment = log.segments.floor(end_offset)
    header = segment.find(end_offset)
    position = segment.size if header is None else header.position
    later = [each for each in log.segments.from_offset(end_offset) if each is not segment]
    log.close()
    for each in reversed(later):
        for path in each.paths():
            if files.exists(path):
                files.remove(path)
    segment.truncate(position)
    segment.release()
    return PartitionLog.open(
        log.directory,
        config=log.config,
        files=files,
        clock=clock,
        background=background,
        recovery_point=min(log.flusher.recovery_point, segment.base_offset),
        log_start_offset=log.log_start_offset,
        was_compacted=was_compacted,
        producer_id_expiration_ms=producer_id_expiration_ms,
    )
