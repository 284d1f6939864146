"""InitProducerId (key 22): a producer id and epoch, for an idempotent producer or the owner of a transactional id.

Versions: 0 to 5; 2 is flexible; from 3 on a producer may send its previous id and epoch (KIP-360).
Without a transactional id the response always has a new id, as in Apache Kafka, because a new id
has no sequence numbers that could be wrong. INVALID_REQUEST: an empty transactional id, or an id
without its epoch. Up to 3 a fenced producer gets INVALID_PRODUCER_EPOCH. An open transaction is
aborted before the response. (Kafka returns CONCURRENT_TRANSACTIONS, and clients retry.) Not done:
two-phase commit (version 6, which Kafka 4.3.1 does not serve either).
"""

from __future__ import annotations

from functools import partial
from typing import Final

from minibroker.coordinator.transaction.records import ProducerIdAndEpoch
from minibroker.coordinator.transaction.states import expected_ids
from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.delayed import Delayed, when_done
from minibroker.dispatch.registry import handles
from minibroker.errors import InvalidProducerEpoch, InvalidRequest, KafkaError, ProducerFenced
from minibroker.schemas import k22_init_producer_id as schema

NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
FENCED_SINCE: Final = 4


@handles(schema)
def init_producer_id(ctx: RequestContext, request: schema.Request) -> schema.Response | Delayed:
    """Return a producer id and epoch. Errors have -1 for both."""
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH):
        raise InvalidRequest("producer_id and producer_epoch must be set together")
    transactional_id = request.transactional_id
    if transactional_id is None:
        return schema.Response(error_code=0, producer_id=ctx.cluster.metadata.allocate_producer_id(), producer_epoch=0)
    if not transactional_id:
        raise InvalidRequest("transactional_id must not be empty")

    expected = expected_ids(request.producer_id, request.producer_epoch)
    return when_done(
        partial(ctx.broker.coordinators.transactions.init_producer_id, transactional_id, request.transaction_timeout_ms, expected),
        partial(_answer, ctx),
    )


def on_error(_ctx: RequestContext, _request: schema.Request, error: KafkaError) -> schema.Response:
    """Return `error` with -1 for both ids, not those of the request."""
    return schema.Response(error_code=error.code, producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH)


def _answer(ctx: RequestContext, outcome: ProducerIdAndEpoch | KafkaError) -> schema.Response:
    if isinstance(outcome, ProducerFenced) and ctx.api_version < FENCED_SINCE:
        raise InvalidProducerEpoch
    if isinstance(outcome, KafkaError):
        raise outcome
    return schema.Response(error_code=0, producer_id=outcome.producer_id, producer_epoch=outcome.producer_epoch)
