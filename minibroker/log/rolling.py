"""When a log begins a new segment, as LogSegment.shouldRoll of Apache Kafka decides it.

size      the batch would make the segment larger than segment.bytes
offsets   the batch's last offset is too far from the base offset for an index entry
index     segment.index.bytes allows no further entry in one of the two indexes
age       the batch's largest timestamp is more than segment.ms, less the segment's own jitter, after that of the segment's first
batch; while that has no timestamp, the clock counts from the segment's creation

Where a log is compacted, max.compaction.lag.ms counts as segment.ms if it is shorter.

Kafka looks only when something is appended. Here a segment also rolls when its age by the clock is over while nobody writes
(`is_overdue`, asked by the retention check): else the last records of a quiet log would never be compacted.
"""

from __future__ import annotations

import random

from minibroker.clock import Clock
from minibroker.log.log_config import LogConfig
from minibroker.records.batch import RecordBatch
from minibroker.storage.files import Files
from minibroker.storage.segment import MAX_RELATIVE_OFFSET, Segment


def must_roll(segment: Segment, config: LogConfig, batch: RecordBatch, last_offset: int, clock: Clock) -> bool:
    """Whether a batch, which is to end with `last_offset`, must go into a new segment; `segment` is not empty."""
    if (
        segment.size > config.segment_bytes - batch.size
        or last_offset - segment.base_offset > MAX_RELATIVE_OFFSET
        or (segment.index_room <= 0 and segment.count_index_room() <= 0)
    ):
        return True
    first_timestamp = segment.first_timestamp
    if first_timestamp is None:
        first_timestamp = segment.first_batch_timestamp()
    waited_ms = batch.max_timestamp - first_timestamp if first_timestamp >= 0 else clock.now_ms() - segment.created_ms
    if waited_ms > config.segment_ms - segment.roll_jitter_ms:
        return True
    return config.max_compaction_lag_ms < config.segment_ms and waited_ms > config.max_segment_ms - segment.roll_jitter_ms


def is_overdue(segment: Segment, config: LogConfig, now_ms: int, files: Files) -> bool:
    """Whether the segment that grows is old enough to roll without an append: by its creation, or its last write before a restart."""
    limit_ms = config.max_segment_ms - segment.roll_jitter_ms
    if not segment.size or now_ms - limit_ms <= 0:
        return False
    return now_ms - min(segment.created_ms, files.modified_ms(segment.log.path)) > limit_ms


def random_jitter_ms(config: LogConfig) -> int:
    """How much earlier a new segment rolls, so that those of many partitions do not roll together."""
    return random.randrange(min(config.segment_jitter_ms, config.max_segment_ms) + 1)  # noqa: S311  spreads work, no secret
