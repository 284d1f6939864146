"""AddOffsetsToTxn (key 25): a transaction is about to commit offsets of a group, so it reaches the group's partition.

Versions: 0 to 4; 3 is flexible. Clients of KIP-890 do not send it: TxnOffsetCommit 5 adds the partition itself.
The partition of `__consumer_offsets` need not be there yet: clients look for the group's coordinator behind this.
To a fenced producer versions 0 and 1 say INVALID_PRODUCER_EPOCH.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from minibroker.coordinator.transaction.metadata import ProducerIdAndEpoch
from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.delayed import Delayed, when_done
from minibroker.dispatch.registry import handles
from minibroker.errors import InvalidProducerEpoch, KafkaError, ProducerFenced
from minibroker.schemas import k25_add_offsets_to_txn as schema

FENCED_SINCE: Final = 2


@handles(schema)
def add_offsets_to_txn(ctx: RequestContext, request: schema.Request) -> schema.Response | Delayed:
    """As AddPartitionsToTxn with that one partition."""
    ids = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
    partitions = frozenset((ctx.broker.coordinators.groups.topic_partition(request.group_id),))
    begin = partial(ctx.broker.coordinators.transactions.add_partitions, request.transactional_id, ids, partitions)
    return when_done(begin, partial(_answer, ctx))


def _answer(ctx: RequestContext, outcome: ProducerIdAndEpoch | KafkaError) -> schema.Response:
    if isinstance(outcome, ProducerFenced) and ctx.api_version < FENCED_SINCE:
        return schema.Response(error_code=InvalidProducerEpoch.code)
    return schema.Response(error_code=outcome.code if isinstance(outcome, KafkaError) else 0)
