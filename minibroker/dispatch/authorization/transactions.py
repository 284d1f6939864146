"""Authorize requests about transactions and producer ids."""

from __future__ import annotations

from typing import Any, Final

from minibroker.dispatch.authorization.access import Access, keep_allowed
from minibroker.dispatch.authorization.parts import serve_elements, serve_topics
from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.middleware import after
from minibroker.dispatch.registry import Handler
from minibroker.errors import ClusterAuthorizationFailed, TransactionalIdAuthorizationFailed
from minibroker.schemas import k22_init_producer_id, k24_add_partitions_to_txn, k65_describe_transactions, k66_list_transactions
from minibroker.security.acl import Operation, ResourceType

_SEVERAL_TRANSACTIONS_SINCE: Final = 4


def init_producer_id(handler: Handler, ctx: RequestContext, request: k22_init_producer_id.Request) -> Any:
    """WRITE of the transactional id; without one IDEMPOTENT_WRITE of the cluster, or WRITE of any topic."""
    access = Access(ctx, handler.api.name)
    transactional_id = request.transactional_id
    if transactional_id is not None:
        needed = [Operation.WRITE, Operation.TWO_PHASE_COMMIT] if request.enable_2pc else [Operation.WRITE]
        if not all(access.allows(each, ResourceType.TRANSACTIONAL_ID, transactional_id) for each in needed):
            raise TransactionalIdAuthorizationFailed
    elif not (access.allows_any(Operation.WRITE, ResourceType.TOPIC) or access.allows_cluster(Operation.IDEMPOTENT_WRITE)):
        raise ClusterAuthorizationFailed
    return handler.handle(ctx, request)


def add_partitions_to_txn(handler: Handler, ctx: RequestContext, request: k24_add_partitions_to_txn.Request) -> Any:
    """WRITE of the transactional id and of each topic; other partitions are OPERATION_NOT_ATTEMPTED. Brokers need CLUSTER_ACTION."""
    access = Access(ctx, handler.api.name)
    if ctx.api_version >= _SEVERAL_TRANSACTIONS_SINCE:
        access.check_cluster(Operation.CLUSTER_ACTION)
        return handler.handle(ctx, request)
    if not access.allows(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.v3_and_below_transactional_id):
        raise TransactionalIdAuthorizationFailed
    return serve_topics(handler, ctx, request, access.topic_errors(ctx, Operation.WRITE))


def describe_transactions(handler: Handler, ctx: RequestContext, request: k65_describe_transactions.Request) -> Any:
    """DESCRIBE of each transactional id. Topics without DESCRIBE are left out."""
    access = Access(ctx, handler.api.name)

    def hide_topics(response: Any) -> Any:
        for state in response.transaction_states:
            state.topics = [each for each in state.topics if access.may(Operation.DESCRIBE, ResourceType.TOPIC, each.topic)]
        return response

    def error_of(transactional_id: str) -> TransactionalIdAuthorizationFailed | None:
        is_allowed = access.allows(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, transactional_id)
        return None if is_allowed else TransactionalIdAuthorizationFailed()

    result = serve_elements(handler, ctx, request, keys="transactional_ids", results="transaction_states", error_of=error_of)
    return after(result, hide_topics)


def list_transactions(handler: Handler, ctx: RequestContext, request: k66_list_transactions.Request) -> Any:
    """DESCRIBE of each transactional id; the others are left out."""
    access = Access(ctx, handler.api.name)
    return keep_allowed(
        ctx,
        handler.handle(ctx, request),
        "transaction_states",
        lambda state: access.may(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, state.transactional_id),
    )
