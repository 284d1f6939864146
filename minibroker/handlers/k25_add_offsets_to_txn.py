"""AddOffsetsToTxn (key 25): add a group's partition of `__consumer_offsets` to a transaction that will commit its offsets.

Versions: 0 to 4; 3 is flexible. Clients with KIP-890 do not send it: TxnOffsetCommit 5 adds the
partition itself. `__consumer_offsets` need not exist yet, because clients look for the group's
coordinator after this request. For a fenced producer versions 0 and 1 return
INVALID_PRODUCER_EPOCH.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from minibroker.coordinator.transaction.records import ProducerIdAndEpoch
from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.delayed import Delayed, when_done
from minibroker.dispatch.registry import handles
from minibroker.errors import InvalidProducerEpoch, KafkaError, ProducerFenced
from minibroker.schemas import k25_add_offsets_to_txn as schema

FENCED_SINCE: Final = 2


@handles(schema)
def add_offsets_to_txn(ctx: RequestContext, request: schema.Request) -> schema.Response | Delayed:
    """Add the partition as AddPartitionsToTxn does."""
    ids = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
    partitions = frozenset((ctx.broker.coordinators.groups.topic_partition(request.group_id),))
    begin = partial(ctx.broker.coordinators.transactions.add_partitions, request.transactional_id, ids, partitions)
    return when_done(begin, partial(_answer, ctx))


def _answer(ctx: RequestContext, outcome: ProducerIdAndEpoch | KafkaError) -> schema.Response:
    if isinstance(outcome, ProducerFenced) and ctx.api_version < FENCED_SINCE:
        return schema.Response(error_code=InvalidProducerEpoch.code)
    return schema.Response(error_code=outcome.code if isinstance(outcome, KafkaError) else 0)
