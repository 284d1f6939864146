"""Which segments a log may delete, as UnifiedLog.deleteOldSegments of Apache Kafka decides it.

Always the oldest ones, without a gap:

log start   all records lie below log_start_offset (DeleteRecords): whatever cleanup.policy says
size        without the segment the log still has retention.bytes or more
time        its largest timestamp is more than retention.ms ago; for records that have no timestamp the `.log` file's own time

Size and time hold where cleanup.policy has `delete`. A segment with records at or above the high watermark stays. The segment that grows
goes like any other (the log then begins a new one first), but not while it is empty.

A timestamp in the future keeps its segment, and all behind it, until its time has come: nothing is lost by a producer's clock that is
ahead. A segment whose `.log` cannot be read any more goes by the file's time, so that damage does not keep a log from shrinking.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from minibroker.errors import CorruptMessage
from minibroker.log.log_config import LogConfig
from minibroker.storage.files import Files
from minibroker.storage.segment import Segment

logger = logging.getLogger(__name__)

TOLERATED_MS = 60 * 60 * 1000  #: so far ahead a timestamp may be by default (message.timestamp.after.max.ms): no warning


class Retention:
    """The decision for one log."""

    __slots__ = ("_files", "_warned_of")

    def __init__(self, files: Files) -> None:
        self._files = files
        self._warned_of = -1  #: base offset of the segment whose future timestamp was told

    def expired_count(
        self,
        segments: Sequence[Segment],
        config: LogConfig,
        *,
        log_start_offset: int,
        high_watermark: int,
        log_end_offset: int,
        now_ms: int,
        limit: int | None = None,
    ) -> tuple[int, int]:
        """How many of `segments`, from the first one on, lie below the log start, and how many are to go, those included.

        At most `limit` beyond the log start. All of them: a new segment must come first.
        """
        ends = [segment.base_offset for segment in segments[1:]]
        below_start = 0
        while below_start < len(ends) and ends[below_start] <= log_start_offset:
            below_start += 1
        if "delete" not in config.cleanup_policy:
            return below_start, below_start
        ends.append(log_end_offset)
        end = len(segments) if segments[-1].size else len(segments) - 1
        while end and ends[end - 1] > high_watermark:
            end -= 1
        if limit is not None:
            end = min(end, below_start + limit)
        count = below_start
        if config.retention_bytes >= 0:
            count = _over_size(segments, count, end, config.retention_bytes)
        if config.retention_ms >= 0:
            while count < end and now_ms - self._newest_ms(segments[count], now_ms) > config.retention_ms:
                count += 1
        return below_start, count

    def _newest_ms(self, segment: Segment, now_ms: int) -> int:
        try:
            timestamp = segment.largest_timestamp().timestamp
        except CorruptMessage as error:
            logger.warning("%s; for retention the file's time counts", error)
            timestamp = -1
        if timestamp < 0:
            return self._files.modified_ms(segment.log.path)
        if timestamp - now_ms > TOLERATED_MS and segment.base_offset != self._warned_of:
            self._warned_of = segment.base_offset
            logger.warning(
                "%s: its largest timestamp is %d s in the future, it stays until then", segment.log.path, (timestamp - now_ms) // 1000
            )
        return timestamp


def _over_size(segments: Sequence[Segment], count: int, end: int, retention_bytes: int) -> int:
    excess = sum(segment.size for segment in segments[count:]) - retention_bytes
    while count < end and excess >= segments[count].size:
        excess -= segments[count].size
        count += 1
    return count
