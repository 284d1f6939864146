"""EndTxn (key 26): commit or abort a transaction.

Versions: 0 to 5; 3 is flexible; from 5 on each end bumps the epoch of the producer, which the
response returns (KIP-890). For a fenced producer versions 0 and 1 return INVALID_PRODUCER_EPOCH.
The response is sent when all markers of the transaction are written. If a partition is offline it
is sent when the outcome is stored.
"""

from __future__ import annotations

from functools import partial

from minibroker.coordinator.transaction.records import EPOCH_BUMP_VERSION, ProducerIdAndEpoch
from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.delayed import Delayed, when_done
from minibroker.dispatch.registry import handles
from minibroker.errors import InvalidProducerEpoch, KafkaError, ProducerFenced
from minibroker.schemas import k26_end_txn as schema

FENCED_SINCE = 2
BUMPS_EPOCHS_SINCE = 5


@handles(schema)
def end_txn(ctx: RequestContext, request: schema.Request) -> schema.Response | Delayed:
    """End the transaction. Errors have -1 for both ids; so have versions that do not return ids."""
    begin = partial(
        ctx.broker.coordinators.transactions.end_transaction,
        request.transactional_id,
        ProducerIdAndEpoch(request.producer_id, request.producer_epoch),
        commit=request.committed,
        client_transaction_version=EPOCH_BUMP_VERSION if ctx.api_version >= BUMPS_EPOCHS_SINCE else 0,
    )
    return when_done(lambda done: begin(done=done), partial(_answer, ctx))


def on_error(_ctx: RequestContext, _request: schema.Request, error: KafkaError) -> schema.Response:
    """Return `error` with -1 for both ids, not those of the request."""
    return schema.Response(error_code=error.code, producer_id=-1, producer_epoch=-1)


def _answer(ctx: RequestContext, outcome: ProducerIdAndEpoch | KafkaError) -> schema.Response:
    if isinstance(outcome, ProducerFenced) and ctx.api_version < FENCED_SINCE:
        outcome = InvalidProducerEpoch()
    if isinstance(outcome, KafkaError):
        raise outcome
    return schema.Response(error_code=0, producer_id=outcome.producer_id, producer_epoch=outcome.producer_epoch)
