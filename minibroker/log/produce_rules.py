"""What a topic's configuration asks of produced batches, in the words of records/validate.py."""

from __future__ import annotations

from minibroker.log.log_config import LogConfig
from minibroker.records.batch import TimestampType
from minibroker.records.compression import Compression
from minibroker.records.validate import ProduceRules


def produce_rules(config: LogConfig) -> ProduceRules:
    """The rules of a topic's configuration; made once and kept until that changes."""
    compression = None if config.compression_type == "producer" else Compression.from_name(config.compression_type)
    levels = {
        Compression.GZIP: config.compression_gzip_level,
        Compression.LZ4: config.compression_lz4_level,
        Compression.ZSTD: config.compression_zstd_level,
    }
    return ProduceRules(
        max_message_bytes=config.max_message_bytes,
        is_compacted=config.is_compacted,
        timestamp_type=TimestampType.from_name(config.message_timestamp_type),
        timestamp_before_max_ms=config.message_timestamp_before_max_ms,
        timestamp_after_max_ms=config.message_timestamp_after_max_ms,
        compression=compression,
        compression_level=None if compression is None else levels.get(compression),
    )
