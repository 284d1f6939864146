"""The configuration of one partition's log: Kafka's topic properties, typed, with Kafka's defaults and units.

A name here is the topic property's name with dots as underscores (`segment.bytes` is `segment_bytes`). Sources: TopicConfig and
LogConfig of Apache Kafka 4.3.1. Values are checked by the `config` package, where text becomes values.
"""

from __future__ import annotations

from typing import NamedTuple

from minibroker.records.batch import TimestampType
from minibroker.records.compression import Compression
from minibroker.records.validate import ProduceRules

LONG_MAX = 2**63 - 1
DAY_MS = 24 * 60 * 60 * 1000

CREATE_TIME = "CreateTime"
LOG_APPEND_TIME = "LogAppendTime"


class LogConfig(NamedTuple):
    """The configuration of a log; `config._replace(segment_bytes=70)` returns a changed copy."""

    # Rolling
    segment_bytes: int = 1024 * 1024 * 1024
    segment_ms: int = 7 * DAY_MS
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10 * 1024 * 1024
    index_interval_bytes: int = 4096
    preallocate: bool = False  #: accepted but ignored: files grow as they are written
    # Produced batches
    max_message_bytes: int = 1024 * 1024 + 12
    message_timestamp_type: str = CREATE_TIME
    message_timestamp_before_max_ms: int = LONG_MAX
    message_timestamp_after_max_ms: int = 60 * 60 * 1000
    compression_type: str = "producer"
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_zstd_level: int = 3
    # Durability
    flush_messages: int = LONG_MAX  #: this many unflushed records are fsynced before they are acknowledged
    flush_ms: int = LONG_MAX
    min_insync_replicas: int = 1
    # Retention and compaction
    cleanup_policy: frozenset[str] = frozenset({"delete"})
    retention_ms: int = 7 * DAY_MS
    retention_bytes: int = -1
    file_delete_delay_ms: int = 60 * 1000
    delete_retention_ms: int = DAY_MS
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = LONG_MAX
    min_cleanable_dirty_ratio: float = 0.5

    @property
    def is_flushed(self) -> bool:
        """Whether records are synced by number or by time, and not only by the operating system."""
        return self.flush_messages < LONG_MAX or self.flush_ms < LONG_MAX

    @property
    def is_compacted(self) -> bool:
        """Whether the log is compacted, so that every record needs a key."""
        return "compact" in self.cleanup_policy

    @property
    def max_segment_ms(self) -> int:
        """segment.ms, or less: a record must leave the active segment before max.compaction.lag.ms is over."""
        return min(self.segment_ms, self.max_compaction_lag_ms) if self.is_compacted else self.segment_ms

    def produce_rules(self) -> ProduceRules:
        """Return the rules by which records/validate.py checks produced batches."""
        compression = None if self.compression_type == "producer" else Compression.from_name(self.compression_type)
        levels = {
            Compression.GZIP: self.compression_gzip_level,
            Compression.LZ4: self.compression_lz4_level,
            Compression.ZSTD: self.compression_zstd_level,
        }
        return ProduceRules(
            max_message_bytes=self.max_message_bytes,
            is_compacted=self.is_compacted,
            timestamp_type=TimestampType.from_name(self.message_timestamp_type),
            timestamp_before_max_ms=self.message_timestamp_before_max_ms,
            timestamp_after_max_ms=self.message_timestamp_after_max_ms,
            compression=compression,
            compression_level=None if compression is None else levels.get(compression),
        )
