"""DeleteRecords (key 21): move log_start_offset of partitions forward.

Versions: 0 to 2; 2 is flexible.
Offset -1 means the high watermark. An offset above the high watermark is refused; one below log_start_offset is
accepted and moves nothing, as in Apache Kafka. So are these: an internal topic is INVALID_TOPIC_EXCEPTION, one whose cleanup.policy is
compact alone POLICY_VIOLATION; of a partition that is asked for twice the last offset counts; a topic without partitions is not answered.
As in Kafka, log_start_offset goes to its checkpoint within log.flush.offset.checkpoint.interval.ms or at an orderly stop: what was
deleted just before a crash may be there again.
There are no followers to wait for, so timeout_ms has no effect.
"""

from __future__ import annotations

from typing import Final

from minibroker.cluster.directories.late_opening import OPENED_AT_ONCE
from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.pieces import Pieces
from minibroker.dispatch.registry import handles
from minibroker.errors import InvalidTopicException, KafkaError, OffsetOutOfRange, PolicyViolation
from minibroker.schemas import k21_delete_records as schema

HIGH_WATERMARK: Final = -1
COMPACT_ALONE: Final = frozenset({"compact"})


@handles(schema, Pieces("topics.partitions", "topics.partitions", size=OPENED_AT_ONCE))
def delete_records(ctx: RequestContext, request: schema.Request) -> schema.Response:
    """Answer each partition on its own: one that fails does not stop the others."""
    wanted: dict[str, dict[int, int]] = {}
    for topic in request.topics:
        for partition in topic.partitions:
            wanted.setdefault(topic.name, {})[partition.partition_index] = partition.offset
    return schema.Response(
        topics=[
            schema.TopicResult(name=name, partitions=[_delete(ctx, name, index, offset) for index, offset in partitions.items()])
            for name, partitions in wanted.items()
        ]
    )


def _delete(ctx: RequestContext, topic: str, index: int, offset: int) -> schema.PartitionResult:
    try:
        if ctx.cluster.topic(topic).is_internal:
            raise InvalidTopicException(f"Cannot delete records of internal topic {topic}")
        partition = ctx.cluster.partition(topic, index)
        log = partition.log
        if log.config.cleanup_policy == COMPACT_ALONE:
            raise PolicyViolation(f"Records of partition {topic}-{index} can not be deleted due to the configured policy")
        offset = log.high_watermark if offset == HIGH_WATERMARK else offset
        if not 0 <= offset <= log.high_watermark:
            raise OffsetOutOfRange(f"{offset=} {log.log_start_offset=} {log.high_watermark=}")
        partition.advance_log_start_offset(offset)
    except KafkaError as error:
        return schema.PartitionResult(partition_index=index, low_watermark=-1, error_code=error.code)
    return schema.PartitionResult(partition_index=index, low_watermark=log.log_start_offset, error_code=0)
