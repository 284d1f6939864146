"""Whether a rule is for a request.

Rules spare requests of the test kit itself (`broker.records(...)`, `create_topic`) unless they name its client_id.
A request for all topics (Metadata, OffsetFetch) is about each of them. A Fetch is about all partitions of its session.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.partition_split import places_in, shape_of
from minibroker.schemas import k10_find_coordinator
from minibroker.testing.faults.rule import GROUP_FIELDS, TRANSACTION_FIELDS, FaultRule
from minibroker.testing.simulation.partition_refusal import places_of
from minibroker.testing.wire import CLIENT_ID


def is_for(rule: FaultRule, ctx: RequestContext, request: Any) -> bool:
    """Whether the rule is for this request, whose API is that of the rule."""
    if ctx.client_id == CLIENT_ID and rule.client_id != CLIENT_ID:
        return False
    return (
        (rule.client_id is None or rule.client_id == ctx.client_id)
        and (rule.node is None or rule.node == ctx.broker.nodes.own.node_id)
        and (rule.group is None or rule.group in _groups(request))
        and (rule.transactional_id is None or rule.transactional_id in _transactional_ids(request))
        and (rule.topic is None or _is_about(rule, ctx, request))
    )


def names_all_topics(request: Any) -> bool:
    """Whether a request asks for all topics or groups by naming none."""
    shape = shape_of(type(request))
    inner = [each for name in shape.groups for each in getattr(request, name)]
    lists = [getattr(request, name) for name in (*shape.topics, *shape.bare)]
    return (bool(lists) and all(each is None for each in lists)) or (bool(inner) and any(names_all_topics(each) for each in inner))


def _is_about(rule: FaultRule, ctx: RequestContext, request: Any) -> bool:
    if names_all_topics(request) or (not any(places_in(request)) and _is_oldest_for_all(ctx, request)):
        return True
    topics_by_id = ctx.cluster.image.topics_by_id
    for place in places_of(ctx, request):
        name = place.topic
        if not name:
            topic = topics_by_id.get(place.topic_id)
            name = topic.name if topic is not None else ""
        if name == rule.topic and (rule.partition is None or place.partition is None or place.partition == rule.partition):
            return True
    return False


def _is_oldest_for_all(ctx: RequestContext, request: Any) -> bool:
    """Metadata of version 0 asks for all topics by an empty list."""
    return ctx.api_version == 0 and hasattr(request, "allow_auto_topic_creation")


def _groups(request: Any) -> Iterator[str]:
    if isinstance(request, k10_find_coordinator.Request):
        yield from _coordinated(request, k10_find_coordinator.GROUP)
        return
    yield from _named(request, GROUP_FIELDS, "group_id")


def _transactional_ids(request: Any) -> Iterator[str]:
    if isinstance(request, k10_find_coordinator.Request):
        yield from _coordinated(request, k10_find_coordinator.TRANSACTION)
        return
    yield from _named(request, TRANSACTION_FIELDS, "transactional_id")


def _coordinated(request: k10_find_coordinator.Request, key_type: int) -> Iterator[str]:
    if request.key_type == key_type:
        yield from (request.key, *request.coordinator_keys)


def _named(request: Any, names: Iterable[str], inner: str) -> Iterator[str]:
    """The keys in these fields: a string, a list of strings, or of structs with a field `inner`."""
    for name in names:
        value = getattr(request, name, None) or ()
        for each in [value] if isinstance(value, str) else value:
            yield each if isinstance(each, str) else getattr(each, inner)
