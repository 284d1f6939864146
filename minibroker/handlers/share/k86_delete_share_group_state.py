"""DeleteShareGroupState (key 86): delete share partitions. Brokers send it to the share coordinator.

Version 0, flexible. Deleting an unknown share partition succeeds.
"""

from __future__ import annotations

from uuid import UUID

from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.delayed import Delayed
from minibroker.dispatch.pieces import Pieces
from minibroker.dispatch.registry import handles
from minibroker.handlers.share import each_partition
from minibroker.schemas import k86_delete_share_group_state as schema


@handles(schema, Pieces("topics.partitions", "results.partitions"))
def delete_share_group_state(ctx: RequestContext, request: schema.Request) -> schema.Response | Delayed:
    """Delete each partition."""
    persister = ctx.broker.coordinators.share_persister

    def answer(topic_id: UUID, entry: schema.Partition) -> schema.PartitionResult:
        (error,) = persister.delete(request.group_id, [(topic_id, entry.partition)])
        if error is not None:
            raise error
        return schema.PartitionResult(partition=entry.partition, error_code=0)

    return each_partition(ctx, schema, request, answer, operation="delete share group state")
