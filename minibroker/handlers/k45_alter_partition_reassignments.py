"""AlterPartitionReassignments (key 45): move replicas of partitions to other brokers, or cancel such moves (KIP-455).

Versions: 0 and 1; flexible. 1 has a flag whether the number of replicas may change, which the
response repeats. A single broker has every partition already: a list with only its id succeeds and
changes nothing. Any other list is INVALID_REPLICA_ASSIGNMENT. Several simulated brokers finish a
reassignment before the response, because they have no data to move (`Leadership`). With
minibroker.like.kafka a reassignment to new replicas takes a second and can be cancelled. Null
replicas cancel a reassignment. NO_REASSIGNMENT_IN_PROGRESS (without a message): the partition has
no reassignment. `timeout_ms` is not used. Not done: finishing or cancelling a reassignment that a
larger Apache Kafka cluster had started. The request is INVALID_REPLICA_ASSIGNMENT.
"""

from __future__ import annotations

from minibroker.cluster.topic_rules import check_assignment
from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.pieces import Pieces
from minibroker.dispatch.registry import handles
from minibroker.errors import (
    KafkaError,
    NoReassignmentInProgress,
    UnknownTopicOrPartition,
)
from minibroker.schemas import k45_alter_partition_reassignments as schema


@handles(schema, Pieces("topics.partitions", "responses.partitions", beside=("replicas",)))
def alter_partition_reassignments(ctx: RequestContext, request: schema.Request) -> schema.Response:
    """Reassign each partition, in the order of the request."""
    responses = [
        schema.TopicResult(name=topic.name, partitions=[_alter(ctx, request, topic.name, partition) for partition in topic.partitions])
        for topic in request.topics
    ]
    return schema.Response(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_code=0,
        error_message=None if responses else "",  # as in Kafka
        responses=responses,
    )


def _alter(ctx: RequestContext, request: schema.Request, topic: str, entry: schema.Partition) -> schema.PartitionResult:
    index = entry.partition_index
    try:
        _reassign(ctx, request, topic, entry)
    except NoReassignmentInProgress as error:
        return schema.PartitionResult(partition_index=index, error_code=error.code, error_message=None)
    except KafkaError as error:
        return schema.PartitionResult(partition_index=index, error_code=error.code, error_message=str(error))
    return schema.PartitionResult(partition_index=index, error_code=0, error_message=None)


def _reassign(ctx: RequestContext, request: schema.Request, topic: str, entry: schema.Partition) -> None:
    """Reassign a partition, or cancel its reassignment."""
    found = ctx.cluster.topics.get(topic)
    if found is None:
        raise UnknownTopicOrPartition(f"Unable to find a topic named {topic}.")
    if not 0 <= entry.partition_index < len(found.partitions):
        raise UnknownTopicOrPartition(f"Unable to find partition {topic}:{entry.partition_index}.")
    partition = found.partitions[entry.partition_index]
    leadership = ctx.cluster.leadership
    if entry.replicas is None:
        leadership.cancel_reassignment(partition)
        return
    check_assignment(entry.replicas, ctx.cluster.node_ids)
    if not request.allow_replication_factor_change:
        leadership.check_replica_count(partition, len(entry.replicas))
    leadership.reassign(partition, entry.replicas)
