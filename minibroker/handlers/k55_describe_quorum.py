"""DescribeQuorum (key 55): leader, voters and end of the metadata log.

Versions: 0 to 2; all flexible; 1 adds times, 2 messages, nodes and the directory.id of the voter.
This node is the leader and the only voter, and has the whole log, so its times are now. Its
directory.id and the address of its controller listener come from the metadata log. A log with
static voters (kraft.version 0) has neither. A log that minibroker created has the address of the
controller in Kafka's own server.properties, where no process listens before Apache Kafka uses the
directory. With several simulated brokers the configured one is the controller. The others are
observers, including stopped ones, because Apache Kafka removes an observer only after five minutes.
If the request has other partitions than one `__cluster_metadata-0`, each of its partitions is
UNKNOWN_TOPIC_OR_PARTITION.
"""

from __future__ import annotations

from typing import Final

from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.pieces import Pieces
from minibroker.dispatch.registry import handles
from minibroker.errors import KafkaError, UnknownTopicOrPartition
from minibroker.schemas import k55_describe_quorum as schema
from minibroker.wire.schema import NIL_UUID

METADATA_TOPIC: Final = "__cluster_metadata"
METADATA_PARTITION: Final = 0


@handles(schema, Pieces("topics.partitions", "topics.partitions"))
def describe_quorum(ctx: RequestContext, request: schema.Request) -> schema.Response:
    """Describe the quorum of the metadata log."""
    requested = [(topic.topic_name, [partition.partition_index for partition in topic.partitions]) for topic in request.topics]
    if requested != [(METADATA_TOPIC, [METADATA_PARTITION])]:
        return _refused(request, UnknownTopicOrPartition())
    log = ctx.cluster.metadata.log
    node_id = ctx.cluster.node.node_id
    voters = log.quorum.voters.voters if log.quorum.voters is not None else []
    now_ms = ctx.broker.clock.now_ms()
    directory_id = next((voter.voter_directory_id for voter in voters), NIL_UUID)

    def replica(replica_id: int) -> schema.Replica:
        return schema.Replica(
            replica_id=replica_id,
            replica_directory_id=directory_id,
            log_end_offset=log.log_end_offset,
            last_fetch_timestamp=now_ms,
            last_caught_up_timestamp=now_ms,
        )

    partition = schema.PartitionResult(
        partition_index=METADATA_PARTITION,
        error_code=0,
        leader_id=node_id,
        leader_epoch=log.leader_epoch,
        high_watermark=log.log_end_offset,
        current_voters=[replica(node_id)],
        observers=[replica(each) for each in sorted(ctx.cluster.node_ids) if each != node_id],
    )
    listeners = [schema.Listener(name=each.name, host=each.host, port=each.port) for voter in voters for each in voter.endpoints]
    return schema.Response(
        error_code=0,
        topics=[schema.TopicResult(topic_name=METADATA_TOPIC, partitions=[partition])],
        nodes=[schema.Node(node_id=node_id, listeners=listeners)],
    )


def _refused(request: schema.Request, error: KafkaError) -> schema.Response:
    """Return a rejected partition with leader 0 and epoch 0, the defaults of Kafka's message."""
    return schema.Response(
        error_code=0,
        topics=[
            schema.TopicResult(
                topic_name=topic.topic_name,
                partitions=[
                    schema.PartitionResult(
                        partition_index=partition.partition_index,
                        error_code=error.code,
                        error_message=str(error),
                        leader_id=0,
                        leader_epoch=0,
                        high_watermark=0,
                        current_voters=[],
                        observers=[],
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


def on_error(_ctx: RequestContext, _request: schema.Request, error: KafkaError) -> schema.Response:
    """Return `error` without topics, as Kafka does."""
    return schema.Response(error_code=error.code, error_message=str(error), topics=[])
