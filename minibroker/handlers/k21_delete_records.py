"""DeleteRecords (key 21): move log_start_offset of partitions forward.

Versions: 0 to 2; 2 is flexible. Offset -1 means the high watermark. An offset above the high
watermark is rejected; one below log_start_offset changes nothing. As in Apache Kafka, internal
topics are INVALID_TOPIC_EXCEPTION, and topics with only cleanup.policy=compact are
POLICY_VIOLATION. The last offset of a repeated partition is used. A topic without partitions has no
result. As in Kafka, log_start_offset is written to its checkpoint within
log.flush.offset.checkpoint.interval.ms and at a clean stop. After a crash, records that were
deleted just before may exist again. This broker has no followers to wait for, so timeout_ms has no
effect.
"""

from __future__ import annotations

from typing import Final

from minibroker.cluster.directories.deferred import OPENED_AT_ONCE
from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.pieces import Pieces
from minibroker.dispatch.registry import handles
from minibroker.errors import InvalidTopicException, KafkaError, OffsetOutOfRange, PolicyViolation
from minibroker.schemas import k21_delete_records as schema

HIGH_WATERMARK: Final = -1
COMPACT_ONLY: Final = frozenset({"compact"})


@handles(schema, Pieces("topics.partitions", "topics.partitions", size=OPENED_AT_ONCE))
def delete_records(ctx: RequestContext, request: schema.Request) -> schema.Response:
    """Delete records of each partition. A failed one does not stop the others."""
    targets: dict[str, dict[int, int]] = {}
    for topic in request.topics:
        for partition in topic.partitions:
            targets.setdefault(topic.name, {})[partition.partition_index] = partition.offset
    return schema.Response(
        topics=[
            schema.TopicResult(name=name, partitions=[_delete(ctx, name, index, offset) for index, offset in partitions.items()])
            for name, partitions in targets.items()
        ]
    )


def _delete(ctx: RequestContext, topic: str, index: int, offset: int) -> schema.PartitionResult:
    try:
        if ctx.cluster.topic(topic).is_internal:
            raise InvalidTopicException(f"Cannot delete records of internal topic {topic}")
        partition = ctx.cluster.partition(topic, index)
        log = partition.log
        if log.config.cleanup_policy == COMPACT_ONLY:
            raise PolicyViolation(f"Records of partition {topic}-{index} can not be deleted due to the configured policy")
        offset = log.high_watermark if offset == HIGH_WATERMARK else offset
        if not 0 <= offset <= log.high_watermark:
            raise OffsetOutOfRange(f"{offset=} {log.log_start_offset=} {log.high_watermark=}")
        partition.advance_log_start_offset(offset)
    except KafkaError as error:
        return schema.PartitionResult(partition_index=index, low_watermark=-1, error_code=error.code)
    return schema.PartitionResult(partition_index=index, low_watermark=log.log_start_offset, error_code=0)
