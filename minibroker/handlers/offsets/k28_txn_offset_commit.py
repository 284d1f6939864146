"""TxnOffsetCommit (key 28): commit offsets of a group when the producer's transaction commits, or never if it aborts.

Versions: 0 to 5; 3 is flexible. The transaction must include the group's partition of
`__consumer_offsets`. Up to 4 AddOffsetsToTxn adds it. From 5 on this request adds it, even if the
request is then rejected, as in Apache Kafka. The checks are those of Produce (KIP-890):

    version    as Produce    not added before
    to 3       10            INVALID_TXN_STATE
    4          11            TRANSACTION_ABORTABLE
    5          12            is added

Partitions that do not exist are rejected one by one, as by OffsetCommit. A request with only such
partitions adds nothing. For a group with members, coordinator/group/classic/group.py checks whether
the client may commit.
"""

from __future__ import annotations

from typing import Any, Final

from minibroker.cluster.partition import Partition
from minibroker.coordinator.group.kind import Membership
from minibroker.coordinator.group.offsets import NewOffset
from minibroker.coordinator.transaction.coordinator import admit
from minibroker.coordinator.transaction.records import ProducerIdAndEpoch
from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.pieces import Pieces
from minibroker.dispatch.registry import handles
from minibroker.errors import (
    CoordinatorNotAvailable,
    InvalidGroupId,
    InvalidProducerEpoch,
    InvalidRequest,
    NotCoordinator,
    NotEnoughReplicas,
)
from minibroker.handlers.offsets import OFFSETS_AT_ONCE, Committed, OffsetCommits
from minibroker.log.partition_log import PartitionLog
from minibroker.schemas import k28_txn_offset_commit as schema

_AS_PRODUCE: Final = (10, 10, 10, 10, 11, 12)  #: by version


@handles(schema, Pieces("topics.partitions", "topics.partitions", size=OFFSETS_AT_ONCE))
def txn_offset_commit(ctx: RequestContext, request: schema.Request) -> Any:
    """Commit the offsets. Returns Delayed if logs must be synced first."""

    def find(topic: schema.Topic, index: int) -> Partition:
        return ctx.cluster.partition(topic.name, index)

    def commit(offsets: list[NewOffset]) -> Committed:
        if not request.group_id:
            raise InvalidGroupId
        ids = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
        logs = [_add_partition(ctx, request, ids)]
        membership = Membership(request.generation_id, request.member_id, request.group_instance_id)
        errors, log = ctx.broker.coordinators.groups.commit_in_transaction(request.group_id, offsets, membership, ids)
        return errors, [each for each in (*logs, log) if each is not None]

    return OffsetCommits(schema, request.topics, find).commit(ctx, commit)


def _add_partition(ctx: RequestContext, request: schema.Request, ids: ProducerIdAndEpoch) -> PartitionLog | None:
    """Add the group's partition to the transaction.

    Returns the coordinator's log if it must be synced.
    """
    topic_partition = ctx.broker.coordinators.groups.topic_partition(request.group_id)
    if topic_partition[0] not in ctx.cluster.topics:
        raise CoordinatorNotAvailable
    partition = ctx.cluster.partition(*topic_partition)
    if not partition.is_online:
        raise NotCoordinator  # as for every commit to it; KAFKA_STORAGE_ERROR would be fatal for a Java producer
    offsets = partition.log
    if offsets.producers.has_open_transaction(*ids):
        return None
    if offsets.producers.is_fenced(*ids):
        raise InvalidProducerEpoch
    if not request.transactional_id:
        raise InvalidRequest("transactional_id must not be empty")
    admission = admit(
        ctx.broker.coordinators.transactions,
        request.transactional_id,
        ids,
        frozenset({topic_partition}),
        produce_version=_AS_PRODUCE[ctx.api_version],
    )
    if (error := admission.refused.get(topic_partition)) is not None:
        raise CoordinatorNotAvailable if isinstance(error, NotEnoughReplicas) else error
    return admission.log
