"""DescribeShareGroupOffsets (key 90): start offsets and lag of share groups in each partition (KIP-932).

Versions: 0 to 1, both flexible; 1 adds the lag: records from the start offset on that can still be
delivered (KIP-1226). Without topics all partitions with a state are returned. Start offset -1: the
group, topic or partition is unknown, or the share coordinator returned an error. Unknown topics
come last. (Apache Kafka never responds if the topic does not have the partition.)
"""

from __future__ import annotations

from minibroker.coordinator.group.share.service import ShareOffset
from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.pieces import Pieces
from minibroker.dispatch.registry import handles
from minibroker.errors import KafkaError
from minibroker.schemas import k90_describe_share_group_offsets as schema
from minibroker.wire.schema import NIL_UUID


@handles(schema, Pieces("groups.topics.partitions", "groups.topics.partitions"))
def describe_share_group_offsets(ctx: RequestContext, request: schema.Request) -> schema.Response:
    """Describe the offsets of each group."""
    return schema.Response(groups=[_describe(ctx, group) for group in request.groups])


def _describe(ctx: RequestContext, group: schema.Group) -> schema.GroupResult:
    try:
        ctx.broker.check_group_protocol("share")
        topics = None if group.topics is None else {each.topic_name: each.partitions for each in group.topics}
        found = ctx.broker.coordinators.groups.share.describe_offsets(group.group_id, topics)
    except KafkaError as error:
        return schema.GroupResult(group_id=group.group_id, topics=[], error_code=error.code, error_message=str(error))
    results = [schema.TopicResult(topic_name=topic.name, topic_id=topic.topic_id, partitions=_partitions(each)) for topic, each in found]
    known = {topic.name for topic, _ in found}
    for each in group.topics or ():
        if each.topic_name not in known:
            unknown = [
                schema.PartitionResult(partition_index=index, start_offset=-1, leader_epoch=0, error_code=0) for index in each.partitions
            ]
            results.append(schema.TopicResult(topic_name=each.topic_name, topic_id=NIL_UUID, partitions=unknown))
    return schema.GroupResult(group_id=group.group_id, topics=results, error_code=0)


def _partitions(offsets: list[ShareOffset]) -> list[schema.PartitionResult]:
    return [
        schema.PartitionResult(
            partition_index=each.partition, start_offset=each.start_offset, leader_epoch=each.leader_epoch, lag=each.lag, error_code=0
        )
        for each in offsets
    ]
