"""ReadShareGroupStateSummary (key 87): the start offsets of a share group.

Brokers send it to the share coordinator.

Versions: 0 and 1, flexible; 1 counts records whose delivery is complete. An unknown share partition
has an empty summary and no error.
"""

from __future__ import annotations

from uuid import UUID

from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.delayed import Delayed
from minibroker.dispatch.pieces import Pieces
from minibroker.dispatch.registry import handles
from minibroker.errors import KafkaError
from minibroker.handlers.share import each_partition
from minibroker.schemas import k87_read_share_group_state_summary as schema


@handles(schema, Pieces("topics.partitions", "results.partitions"))
def read_share_group_state_summary(ctx: RequestContext, request: schema.Request) -> schema.Response | Delayed:
    """Summarize each partition."""
    persister = ctx.broker.coordinators.share_persister

    def answer(topic_id: UUID, entry: schema.Partition) -> schema.PartitionResult:
        (found,) = persister.read_summary(request.group_id, [(topic_id, entry.partition)])
        if isinstance(found, KafkaError):
            raise found
        return schema.PartitionResult(
            partition=entry.partition,
            error_code=0,
            state_epoch=found.state_epoch,
            leader_epoch=found.leader_epoch,
            start_offset=found.start_offset,
            delivery_complete_count=found.delivery_complete_count,
        )

    return each_partition(
        ctx, schema, request, answer, operation="read share group state summary", state_epoch=0, leader_epoch=0, start_offset=0
    )
