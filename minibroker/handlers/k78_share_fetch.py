"""ShareFetch (key 78): acquire records for a member of a share group, and say what became of earlier ones.

Versions: 1 and 2, flexible; 2 renews locks (is_renew_ack: then nothing is fetched) and can be strict about max_records (share_acquire_mode
1). Sessions, and who gets what: coordinator/share_partition/. Who is no member of the group is served
like any other once the group's state is there, as with Kafka; before that the partition has UNKNOWN_SERVER_ERROR.
The answer waits until there are min_bytes, or as much as max_records allow, for at most max_wait_ms; what is appended, released or over in
time wakes it. Another request behind this one on its connection ends the wait, and so does the end of the session. Where acknowledgements
must be synced first, nothing is waited for.
An unknown topic has UNKNOWN_TOPIC_ID (Kafka stumbles over it in the request that begins a session). Partitions are answered in the order in
which they had their turn.
"""

from __future__ import annotations

from minibroker.config.request_limits import SHARE_ELEMENTS_MAX
from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.delayed import Delayed
from minibroker.dispatch.element_limit import ElementLimit
from minibroker.dispatch.registry import handles
from minibroker.dispatch.share_protocol import check_member_id, check_served, check_size
from minibroker.errors import InvalidRequest, KafkaError, ShareSessionLimitReached
from minibroker.schemas import k78_share_fetch as schema

RENEW_SINCE = 2


@handles(schema, limit=ElementLimit(SHARE_ELEMENTS_MAX))
def share_fetch(ctx: RequestContext, request: schema.Request) -> schema.Response | Delayed:
    """Refusals first; who finds too many sessions waits, so as not to ask in circles."""
    check_served(ctx)
    if request.group_id is None:
        raise InvalidRequest("Invalid group id in the request.")
    check_member_id(request.member_id)
    check_size((*request.topics, *request.forgotten_topics_data))
    if ctx.api_version >= RENEW_SINCE and request.is_renew_ack and not _is_empty(request):
        raise InvalidRequest("maxBytes, minBytes, maxRecords and maxWaitMs must be 0 if isRenewAck is true.")
    from minibroker.dispatch.share_fetching import ShareFetching  # noqa: PLC0415  a start does without

    try:
        fetch = ShareFetching(ctx, request, (request.group_id, request.member_id or ""))
    except ShareSessionLimitReached as error:
        refusal = on_error(ctx, request, error)
        return ctx.broker.purgatory.park([], request.max_wait_ms, lambda is_last: refusal if is_last else None)
    return fetch.serve()


def on_error(_ctx: RequestContext, _request: schema.Request, error: KafkaError) -> schema.Response:
    """The request as a whole: a code and no words, as Kafka has it."""
    return schema.Response(error_code=error.code, acquisition_lock_timeout_ms=0, responses=[], node_endpoints=[])


def _is_empty(request: schema.Request) -> bool:
    return not (request.max_bytes or request.min_bytes or request.max_records or request.max_wait_ms)
