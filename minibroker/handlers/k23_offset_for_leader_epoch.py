"""OffsetForLeaderEpoch (key 23): the end offset of a leader epoch.

A consumer detects truncation with it.

Versions: 2 to 4; 4 is flexible. The current epoch ends at the log end. An unknown epoch has neither
epoch nor end. Not done: followers, so logs are never truncated.
"""

from __future__ import annotations

from minibroker.cluster.directories.deferred import OPENED_AT_ONCE
from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.pieces import Pieces
from minibroker.dispatch.registry import handles
from minibroker.errors import KafkaError
from minibroker.schemas import k23_offset_for_leader_epoch as schema


@handles(schema, Pieces("topics.partitions", "topics.partitions", size=OPENED_AT_ONCE))
def offset_for_leader_epoch(ctx: RequestContext, request: schema.Request) -> schema.Response:
    """Look up the epoch of each partition."""
    return schema.Response(
        topics=[
            schema.TopicResult(topic=topic.topic, partitions=[_look_up(ctx, topic.topic, entry) for entry in topic.partitions])
            for topic in request.topics
        ]
    )


def _look_up(ctx: RequestContext, topic: str, entry: schema.Partition) -> schema.PartitionResult:
    try:
        partition = ctx.cluster.partition(topic, entry.partition)
        partition.check_leader_epoch(entry.current_leader_epoch)
        found = partition.log.end_offset_for_epoch(entry.leader_epoch)
    except KafkaError as error:
        return schema.PartitionResult(error_code=error.code, partition=entry.partition)
    return schema.PartitionResult(error_code=0, partition=entry.partition, leader_epoch=found.leader_epoch, end_offset=found.end_offset)
