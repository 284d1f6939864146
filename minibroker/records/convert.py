"""Between the message formats: up to v2 what old producers send, down to v0 or v1 what old consumers read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from minibroker.records.batch import RecordBatch
from minibroker.records.compression import MAX_DECOMPRESSED_BYTES

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from minibroker.records.validate import ProduceRules


def upgrade_produced(data: memoryview, rules: ProduceRules, *, now_ms: int) -> RecordBatch:
    """One batch of format v2 with the records of the messages of format v0 or v1 that `data` is; KafkaError when they are refused."""
    raise NotImplementedError


def downgrade(data: Buffer, magic: int, first_offset: int, *, max_bytes: int = MAX_DECOMPRESSED_BYTES) -> Buffer:
    """The batches of `data` in message format `magic` (0 or 1) at most, without control batches; empty when nothing is left.

    Batches that are of this format or an older one stay as they are. Of uncompressed ones only the records from `first_offset` on are
    kept. UnsupportedCompressionType for zstd.
    """
    raise NotImplementedError
