"""InitProducerId (key 22): a producer id and epoch 0 for an idempotent producer.

Versions: 0 to 5; 2 is flexible; from 3 a producer may name the id and epoch that it had (KIP-360). Without a transactional id Apache
Kafka gives a new id all the same, and so do we: a new id has no sequence to go wrong.
An empty transactional id, and an id without its epoch, are INVALID_REQUEST.
Not done: transactions. A transactional id is answered with TRANSACTIONAL_ID_AUTHORIZATION_FAILED, the one code of this answer that the
Java client, librdkafka, kafka-python and aiokafka all take as final at once; librdkafka asks again on UNSUPPORTED_VERSION until
its time-out. Most never come here, but fail before for want of FindCoordinator, which is not advertised either.
"""

from __future__ import annotations

import logging
from typing import Final

from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.registry import handles
from minibroker.errors import InvalidRequest, KafkaError, TransactionalIdAuthorizationFailed
from minibroker.schemas import k22_init_producer_id as schema

NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1

_LOG = logging.getLogger(__name__)


@handles(schema)
def init_producer_id(ctx: RequestContext, request: schema.Request) -> schema.Response:
    """Errors are answered with -1 for both ids."""
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH):
        raise InvalidRequest("a producer id and its epoch come together")
    if request.transactional_id is None:
        return schema.Response(error_code=0, producer_id=ctx.cluster.allocate_producer_id(), producer_epoch=0)
    if not request.transactional_id:
        raise InvalidRequest("an empty transactional id")
    _LOG.warning("transactions are not served yet: transactional id %r of client %s is refused", request.transactional_id, ctx.client_id)
    raise TransactionalIdAuthorizationFailed("transactions are not served yet")


def on_error(_ctx: RequestContext, _request: schema.Request, error: KafkaError) -> schema.Response:
    """The request's own producer id is not to be repeated in a refusal."""
    return schema.Response(error_code=error.code, producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH)
