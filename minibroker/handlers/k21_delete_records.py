"""DeleteRecords (key 21): move log_start_offset of partitions forward.

Versions: 0 to 2; 2 is flexible.
Offset -1 means the high watermark. An offset above the high watermark is refused; one below log_start_offset is
accepted and moves nothing, as in Apache Kafka.
Not done: waiting for followers (there are none), so `timeout_ms` is never used.
"""

from __future__ import annotations

from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.registry import handles
from minibroker.errors import KafkaError, OffsetOutOfRange
from minibroker.schemas import k21_delete_records as schema

HIGH_WATERMARK = -1


@handles(schema)
def delete_records(ctx: RequestContext, request: schema.Request) -> schema.Response:
    """Answer each partition on its own: one that fails does not stop the others."""
    return schema.Response(
        topics=[
            schema.TopicResult(name=topic.name, partitions=[_delete(ctx, topic.name, each) for each in topic.partitions])
            for topic in request.topics
        ]
    )


def _delete(ctx: RequestContext, topic: str, wanted: schema.Partition) -> schema.PartitionResult:
    try:
        partition = ctx.cluster.partition(topic, wanted.partition_index)
        log = partition.log
        offset = log.high_watermark if wanted.offset == HIGH_WATERMARK else wanted.offset
        if not 0 <= offset <= log.high_watermark:
            raise OffsetOutOfRange(f"{offset=} {log.log_start_offset=} {log.high_watermark=}")
        partition.advance_log_start_offset(offset)
    except KafkaError as error:
        return schema.PartitionResult(partition_index=wanted.partition_index, low_watermark=-1, error_code=error.code)
    return schema.PartitionResult(partition_index=wanted.partition_index, low_watermark=log.log_start_offset, error_code=0)
