"""DeleteRecords (key 21): move log_start_offset of partitions forward.

Versions: 0 to 2; 2 is flexible.
Offset -1 means the high watermark. An offset above the high watermark is refused; one below log_start_offset is
accepted and moves nothing, as in Apache Kafka. So are these: an internal topic is INVALID_TOPIC_EXCEPTION, one whose cleanup.policy is
compact alone POLICY_VIOLATION; of a partition that is asked for twice the last offset counts; a topic without partitions is not answered.
As in Kafka, log_start_offset goes to its checkpoint within log.flush.offset.checkpoint.interval.ms or at an orderly stop: what was
deleted just before a crash may be there again.
There are no followers to wait for. Only where a test holds the high watermark back the answer waits until they have deleted, too, and is
REQUEST_TIMED_OUT after timeout_ms, with the low watermark of before (dispatch/acknowledgement.py).
"""

from __future__ import annotations

from functools import partial
from typing import Final

from minibroker.cluster.directories.late_opening import OPENED_AT_ONCE
from minibroker.cluster.partition import Partition
from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.delayed import Delayed
from minibroker.dispatch.pieces import Pieces
from minibroker.dispatch.registry import handles
from minibroker.errors import InvalidTopicException, KafkaError, OffsetOutOfRange, PolicyViolation, RequestTimedOut
from minibroker.schemas import k21_delete_records as schema

HIGH_WATERMARK: Final = -1
COMPACT_ALONE: Final = frozenset({"compact"})


_Waiting = list[tuple[schema.PartitionResult, Partition, int]]  #: what holds once all replicas have deleted below an offset


@handles(schema, Pieces("topics.partitions", "topics.partitions", size=OPENED_AT_ONCE))
def delete_records(ctx: RequestContext, request: schema.Request) -> schema.Response | Delayed:
    """Answer each partition on its own: one that fails does not stop the others."""
    wanted: dict[str, dict[int, int]] = {}
    for topic in request.topics:
        for partition in topic.partitions:
            wanted.setdefault(topic.name, {})[partition.partition_index] = partition.offset
    waiting: _Waiting = []
    response = schema.Response(
        topics=[
            schema.TopicResult(name=name, partitions=[_delete(ctx, name, index, offset, waiting) for index, offset in partitions.items()])
            for name, partitions in wanted.items()
        ]
    )
    return _when_deleted(ctx, response, waiting, request.timeout_ms) if waiting else response


def _delete(ctx: RequestContext, topic: str, index: int, offset: int, waiting: _Waiting) -> schema.PartitionResult:
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
    result = schema.PartitionResult(partition_index=index, low_watermark=log.low_watermark, error_code=0)
    if log.low_watermark < offset:
        waiting.append((result, partition, offset))
    return result


def _when_deleted(ctx: RequestContext, response: schema.Response, waiting: _Waiting, timeout_ms: int) -> Delayed:
    from minibroker.dispatch.acknowledgement import Acknowledgement, Wanted, is_deleted  # noqa: PLC0415  only tests hold anything back

    def answer() -> schema.Response:
        for result, partition, _ in waiting:
            log = partition.online_log
            if not result.error_code and log is not None:
                setattr(result, "low_watermark", log.low_watermark)  # noqa: B010  structs are read-only to who does not make them
        return response

    wanted = [Wanted(partition, is_deleted(offset), partial(_fail_late, result)) for result, partition, offset in waiting]
    acknowledgement = Acknowledgement(answer, wanted)
    acknowledgement.wait(ctx.broker.clock, timeout_ms)
    return acknowledgement


def _fail_late(result: schema.PartitionResult, error: KafkaError) -> None:
    for name, value in (("error_code", error.code), ("low_watermark", result.low_watermark if error.code == RequestTimedOut.code else -1)):
        setattr(result, name, value)
