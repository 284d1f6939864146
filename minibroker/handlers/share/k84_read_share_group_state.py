"""ReadShareGroupState (key 84): the whole state of share partitions.

A broker sends it when it becomes their leader.

Version 0, flexible. A leader epoch that is higher than the stored one is stored, which fences
writes with a lower one.
"""

from __future__ import annotations

from uuid import UUID

from minibroker.coordinator.share_state.records import StateKey
from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.delayed import Delayed
from minibroker.dispatch.pieces import Pieces
from minibroker.dispatch.registry import handles
from minibroker.handlers.share import each_partition
from minibroker.schemas import k84_read_share_group_state as schema


@handles(schema, Pieces("topics.partitions", "results.partitions"))
def read_share_group_state(ctx: RequestContext, request: schema.Request) -> schema.Response | Delayed:
    """Read each partition."""
    persister = ctx.broker.coordinators.share_persister

    def answer(topic_id: UUID, entry: schema.Partition) -> schema.PartitionResult:
        state = persister.read(StateKey(request.group_id, topic_id, entry.partition), entry.leader_epoch)
        return schema.PartitionResult(
            partition=entry.partition,
            error_code=0,
            state_epoch=state.state_epoch,
            start_offset=state.start_offset,
            state_batches=[schema.StateBatch(**each._asdict()) for each in state.batches],
        )

    return each_partition(ctx, schema, request, answer, operation="read share group state", state_epoch=0, start_offset=0, state_batches=())
