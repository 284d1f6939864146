"""WriteShareGroupState (key 85): delivery states of records in share partitions.

Brokers send it to the share coordinator.

Versions: 0 and 1, flexible; 1 counts records whose delivery is complete.
"""

from __future__ import annotations

from uuid import UUID

from minibroker.coordinator.share_state.records import StateBatch, StateKey, StateUpdate
from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.delayed import Delayed
from minibroker.dispatch.pieces import Pieces
from minibroker.dispatch.registry import handles
from minibroker.handlers.share import each_partition
from minibroker.schemas import k85_write_share_group_state as schema


@handles(schema, Pieces("topics.partitions", "results.partitions", beside=("state_batches",)))
def write_share_group_state(ctx: RequestContext, request: schema.Request) -> schema.Response | Delayed:
    """Write each partition."""
    persister = ctx.broker.coordinators.share_persister

    def answer(topic_id: UUID, entry: schema.Partition) -> schema.PartitionResult:
        batches = [
            StateBatch(each.first_offset, each.last_offset, each.delivery_state, each.delivery_count) for each in entry.state_batches
        ]
        update = StateUpdate(entry.state_epoch, entry.leader_epoch, entry.start_offset, entry.delivery_complete_count, batches)
        persister.write(StateKey(request.group_id, topic_id, entry.partition), update)
        return schema.PartitionResult(partition=entry.partition, error_code=0)

    return each_partition(ctx, schema, request, answer, operation="write share group state")
