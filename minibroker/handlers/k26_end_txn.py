"""EndTxn (key 26): commit or abort a transaction.

Versions: 0 to 5; 3 is flexible; from 5 on each end gives the next transaction another epoch, which the answer tells (KIP-890).
To a fenced producer versions 0 and 1 say INVALID_PRODUCER_EPOCH.
Answered when the transaction is complete: all its markers are written. With a partition offline it is answered when the outcome is safe.
"""

from __future__ import annotations

from functools import partial

from minibroker.coordinator.transaction.metadata import EPOCH_BUMP_VERSION, ProducerIdAndEpoch
from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.delayed import Delayed, when_done
from minibroker.dispatch.registry import handles
from minibroker.errors import InvalidProducerEpoch, KafkaError, ProducerFenced
from minibroker.schemas import k26_end_txn as schema

FENCED_SINCE = 2
BUMPS_EPOCHS_SINCE = 5


@handles(schema)
def end_txn(ctx: RequestContext, request: schema.Request) -> schema.Response | Delayed:
    """Errors are answered with -1 for both ids, and so are versions that know of none."""
    begin = partial(
        ctx.broker.coordinators.transactions.end_transaction,
        request.transactional_id,
        ProducerIdAndEpoch(request.producer_id, request.producer_epoch),
        commit=request.committed,
        client_transaction_version=EPOCH_BUMP_VERSION if ctx.api_version >= BUMPS_EPOCHS_SINCE else 0,
    )
    return when_done(lambda done: begin(done=done), partial(_answer, ctx))


def on_error(_ctx: RequestContext, _request: schema.Request, error: KafkaError) -> schema.Response:
    """The request's own producer id is not to be repeated in a refusal."""
    return schema.Response(error_code=error.code, producer_id=-1, producer_epoch=-1)


def _answer(ctx: RequestContext, outcome: ProducerIdAndEpoch | KafkaError) -> schema.Response:
    if isinstance(outcome, ProducerFenced) and ctx.api_version < FENCED_SINCE:
        outcome = InvalidProducerEpoch()
    if isinstance(outcome, KafkaError):
        raise outcome
    return schema.Response(error_code=0, producer_id=outcome.producer_id, producer_epoch=outcome.producer_epoch)
