"""InitProducerId (key 22): a producer id and epoch 0 for an idempotent producer.

Versions: 0 to 5; 2 is flexible; from 3 a producer may name the id and epoch that it had (KIP-360). Without a transactional id Apache
Kafka gives a new id all the same, and so do we: a new id has no sequence to go wrong.
Not done: transactions. A transactional id is answered with UNSUPPORTED_VERSION, which every client takes as fatal at once, where the
coordinator's own codes would make it try again for ever; FindCoordinator is not advertised either.
"""

from __future__ import annotations

import logging

from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.registry import handles
from minibroker.errors import InvalidRequest, KafkaError, UnsupportedVersion
from minibroker.schemas import k22_init_producer_id as schema

_LOG = logging.getLogger(__name__)


@handles(schema)
def init_producer_id(ctx: RequestContext, request: schema.Request) -> schema.Response:
    """Errors are answered with the ids -1 (`on_error`)."""
    if request.transactional_id == "":
        raise InvalidRequest("an empty transactional id")
    if (request.producer_id < 0) != (request.producer_epoch < 0):
        raise InvalidRequest("a producer id and its epoch come together")
    if request.transactional_id is not None:
        _LOG.warning("transactions are not served yet: transactional id %r of %s is refused", request.transactional_id, ctx.client_id)
        raise UnsupportedVersion("transactions are not served yet")
    return schema.Response(error_code=0, producer_id=ctx.cluster.allocate_producer_id(), producer_epoch=0)


def on_error(_ctx: RequestContext, _request: schema.Request, error: KafkaError) -> schema.Response:
    """No id is given."""
    return schema.Response(error_code=error.code, producer_id=-1, producer_epoch=-1)
