"""DescribeProducers (key 61): the producers in the state of a partition, and their open transactions (KIP-664).

Version: 0; flexible. See log/producer_state.py. -1 stands for last_sequence after a marker that
raised the epoch, for coordinator_epoch before the first marker, and for current_txn_start_offset
without an open transaction. As in Kafka, an unknown topic has a message and an unknown partition
has none.
"""

from __future__ import annotations

from minibroker.cluster.directories.deferred import OPENED_AT_ONCE
from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.pieces import Pieces
from minibroker.dispatch.registry import handles
from minibroker.errors import KafkaError, UnknownTopicOrPartition
from minibroker.schemas import k61_describe_producers as schema


@handles(schema, Pieces("topics.partition_indexes", "topics.partitions", size=OPENED_AT_ONCE))
def describe_producers(ctx: RequestContext, request: schema.Request) -> schema.Response:
    """Describe the producers of each partition."""
    return schema.Response(
        topics=[
            schema.TopicResult(name=topic.name, partitions=[_describe(ctx, topic.name, index) for index in topic.partition_indexes])
            for topic in request.topics
        ]
    )


def _describe(ctx: RequestContext, topic: str, index: int) -> schema.PartitionResult:
    try:
        producers = ctx.cluster.partition(topic, index).log.producers.active()
    except UnknownTopicOrPartition as error:
        message = None if topic in ctx.cluster.topics else str(error)
        return schema.PartitionResult(partition_index=index, error_code=error.code, error_message=message, active_producers=[])
    except KafkaError as error:
        return schema.PartitionResult(partition_index=index, error_code=error.code, error_message=str(error), active_producers=[])
    return schema.PartitionResult(
        partition_index=index, error_code=0, active_producers=[schema.ProducerState(**each._asdict()) for each in producers]
    )
