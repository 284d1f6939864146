"""Functions around handlers that enforce the rules of an API, in their order.

    handler = authorized(handler)        when the plan of an API and version is created (dispatch/dispatcher.py)

A rule about the whole request raises its error, which becomes the answer. A rule about parts
answers the refused parts, calls the handler with the rest, and joins the two answers.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from minibroker.dispatch.authorization import groups, records, topics
from minibroker.dispatch.authorization.access import Access, allowed
from minibroker.dispatch.authorization.parts import names_only, serve_groups, serve_topics
from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.registry import Handler
from minibroker.errors import GroupAuthorizationFailed, TransactionalIdAuthorizationFailed
from minibroker.security.acl import ResourceType
from minibroker.security.authorizer import rights_key
from minibroker.wire.authorization import EachGroup, EachTopic, OnCluster, OnGroup, OnTransactionalId, Rule, Special

Serve = Callable[[Handler, RequestContext, Any], Any]


def in_handler(handler: Handler, ctx: RequestContext, request: Any) -> Any:
    """Let the handler ask the authorizer, because only the handler knows the resource (delegation tokens)."""
    return handler.handle(ctx, request)


#: the functions of `Special` rules, by API key
SPECIAL: Final[dict[int, Serve]] = {
    0: records.produce,
    1: records.fetch,
    3: topics.metadata,
    9: groups.offset_fetch,
    10: groups.find_coordinator,
    14: groups.sync_group,
    15: groups.describe,
    16: groups.list_groups,
    19: topics.create_topics,
    20: topics.delete_topics,
    22: records.init_producer_id,
    23: records.offset_for_leader_epoch,
    24: records.add_partitions_to_txn,
    32: topics.describe_configs,
    33: topics.alter_configs,
    38: in_handler,
    39: in_handler,
    40: in_handler,
    41: in_handler,
    44: topics.alter_configs,
    60: topics.describe_cluster,
    65: records.describe_transactions,
    66: records.list_transactions,
    68: groups.consumer_heartbeat,
    69: groups.describe,
    75: topics.describe_topic_partitions,
    76: groups.share_heartbeat,
    77: groups.describe,
    78: records.share_fetch,
    88: groups.streams_heartbeat,
    89: groups.describe,
    90: groups.describe_share_offsets,
}


def authorized(handler: Handler) -> Handler:
    """Return a handler that asks the authorizer first."""
    for rule in reversed(handler.api.authorizes):
        handler = handler.around(partial(_function(rule, handler.api.key), handler))
    return handler


def _function(rule: Rule, api_key: int) -> Serve:
    if isinstance(rule, Special):
        return SPECIAL[api_key]
    if isinstance(rule, OnCluster):
        return partial(_on_cluster, rule)
    if isinstance(rule, OnGroup):
        return partial(_on_group, rule, rights_key(rule.operation, ResourceType.GROUP))
    if isinstance(rule, OnTransactionalId):
        return partial(_on_transactional_id, rule)
    if isinstance(rule, EachTopic):
        return partial(_each_topic, rule, rights_key(rule.operation, ResourceType.TOPIC))
    return partial(_each_group, rule)


def _on_cluster(rule: OnCluster, handler: Handler, ctx: RequestContext, request: Any) -> Any:
    Access(ctx, handler.api.name).check_cluster(*rule.operations)
    return handler.handle(ctx, request)


def _on_group(rule: OnGroup, key: int, handler: Handler, ctx: RequestContext, request: Any) -> Any:
    group_id = getattr(request, rule.field)
    if group_id in allowed(ctx, key) or group_id is None:
        return handler.handle(ctx, request)
    if not Access(ctx, handler.api.name).allows(rule.operation, ResourceType.GROUP, group_id):
        raise GroupAuthorizationFailed
    return handler.handle(ctx, request)


def _on_transactional_id(rule: OnTransactionalId, handler: Handler, ctx: RequestContext, request: Any) -> Any:
    name = getattr(request, rule.field)
    if not Access(ctx, handler.api.name).allows(rule.operation, ResourceType.TRANSACTIONAL_ID, name):
        raise TransactionalIdAuthorizationFailed
    return handler.handle(ctx, request)


def _each_topic(rule: EachTopic, key: int, handler: Handler, ctx: RequestContext, request: Any) -> Any:
    if names_only(request, allowed(ctx, key)):
        return handler.handle(ctx, request)
    return serve_topics(handler, ctx, request, Access(ctx, handler.api.name).topic_errors(ctx, rule.operation))


def _each_group(rule: EachGroup, handler: Handler, ctx: RequestContext, request: Any) -> Any:
    access = Access(ctx, handler.api.name)

    def is_allowed(name: str) -> bool:
        return access.allows(rule.operation, ResourceType.GROUP, name)

    return serve_groups(handler, ctx, request, keys=rule.keys, results=rule.results, is_allowed=is_allowed)
