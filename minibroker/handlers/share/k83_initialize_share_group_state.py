"""InitializeShareGroupState (key 83): create share partitions, or reset their start offset.

Brokers send it to the share coordinator.

Version 0, flexible. The leader of the share partition then reloads its state. (Apache Kafka's
leader continues until its next write is fenced.)
"""

from __future__ import annotations

from uuid import UUID

from minibroker.coordinator.share_state.records import InitialState
from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.delayed import Delayed
from minibroker.dispatch.pieces import Pieces
from minibroker.dispatch.registry import handles
from minibroker.handlers.share import each_partition
from minibroker.schemas import k83_initialize_share_group_state as schema


@handles(schema, Pieces("topics.partitions", "results.partitions"))
def initialize_share_group_state(ctx: RequestContext, request: schema.Request) -> schema.Response | Delayed:
    """Initialize each partition."""
    persister = ctx.broker.coordinators.share_persister

    def answer(topic_id: UUID, entry: schema.Partition) -> schema.PartitionResult:
        initial = InitialState(topic_id, entry.partition, entry.state_epoch, entry.start_offset)
        (error,) = persister.initialize(request.group_id, [initial])
        if error is not None:
            raise error
        return schema.PartitionResult(partition=entry.partition, error_code=0)

    return each_partition(ctx, schema, request, answer, operation="initialize share group state")
