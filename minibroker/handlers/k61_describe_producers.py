"""DescribeProducers (key 61): the producers that a partition remembers, and their open transactions (KIP-664).

Version: 0; flexible. What is told: log/producer_state.py. last_sequence is -1 behind a marker that raised the epoch, coordinator_epoch
before the first marker, current_txn_start_offset when no transaction is open.
Kafka has words for a topic that it does not know, and none for a partition.
"""

from __future__ import annotations

from minibroker.cluster.directories.late_opening import OPENED_AT_ONCE
from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.pieces import Pieces
from minibroker.dispatch.registry import handles
from minibroker.errors import KafkaError, UnknownTopicOrPartition
from minibroker.schemas import k61_describe_producers as schema


@handles(schema, Pieces("topics.partition_indexes", "topics.partitions", size=OPENED_AT_ONCE))
def describe_producers(ctx: RequestContext, request: schema.Request) -> schema.Response:
    """Each partition on its own."""
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
        words = None if topic in ctx.cluster.topics else str(error)
        return schema.PartitionResult(partition_index=index, error_code=error.code, error_message=words, active_producers=[])
    except KafkaError as error:
        return schema.PartitionResult(partition_index=index, error_code=error.code, error_message=str(error), active_producers=[])
    return schema.PartitionResult(
        partition_index=index, error_code=0, active_producers=[schema.ProducerState(**each._asdict()) for each in producers]
    )
