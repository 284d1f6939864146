"""When a log begins a new segment, as LogSegment.shouldRoll of Apache Kafka decides it.

size      the batch would make the segment larger than segment.bytes
offsets   the batch's last offset is too far from the base offset for an index entry
index     segment.index.bytes allows no further entry in one of the two indexes
age       the batch's largest timestamp is more than segment.ms, less the segment's own jitter, after that of the segment's first
batch; while that has no timestamp, the clock counts from the segment's creation
"""

from __future__ import annotations

import random

from minibroker.clock import Clock
from minibroker.log.log_config import LogConfig
from minibroker.storage.segment import MAX_RELATIVE_OFFSET, Segment


def must_roll(segment: Segment, config: LogConfig, size: int, last_offset: int, max_timestamp: int, *, clock: Clock) -> bool:
    """Whether a batch of `size` bytes must go into a new segment; `segment` is not empty."""
    if (
        segment.size > config.segment_bytes - size
        or last_offset - segment.base_offset > MAX_RELATIVE_OFFSET
        or segment.offset_index.is_full
        or segment.time_index.is_full
    ):
        return True
    first_timestamp = segment.first_timestamp
    if first_timestamp is None:
        first_timestamp = segment.first_batch_timestamp()
    waited_ms = max_timestamp - first_timestamp if first_timestamp >= 0 else clock.now_ms() - segment.created_ms
    return waited_ms > config.segment_ms - segment.roll_jitter_ms


def random_jitter_ms(config: LogConfig) -> int:
    """How much earlier a new segment rolls, so that those of many partitions do not roll together."""
    return random.randrange(min(config.segment_jitter_ms, config.segment_ms) + 1)  # noqa: S311  spreads work, no secret
