"""ListTransactions (key 66): the transactional ids that this broker coordinates and that pass every filter (KIP-664).

Versions: 0 to 2, flexible; 1 adds duration_filter (KIP-994), 2 transactional_id_pattern (KIP-1152).
Unknown states are returned in unknown_state_filters; state names are case-sensitive. If no state
filter is known, no transaction passes. transactional_id_pattern must match the whole id.
INVALID_REGULAR_EXPRESSION: the pattern is invalid, or too large for one of the ids. A transaction
that lasts `duration_filter` or less does not pass. As in Kafka, an id that never had a transaction
counts as open since 1970.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minibroker.coordinator.transaction.records import TransactionMetadata, TransactionState
from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.registry import handles
from minibroker.dispatch.slices import Steps
from minibroker.regular_expression import Regex
from minibroker.schemas import k66_list_transactions as schema

Passes = Callable[["TransactionMetadata"], bool]


@handles(schema, has_long_answer=True)
def list_transactions(ctx: RequestContext, request: schema.Request) -> Any:
    """List transactions in slices, in the order of the partitions of `__transaction_state`."""
    return ctx.broker.slices.run(_list(ctx, request))


def _list(ctx: RequestContext, request: schema.Request) -> Steps:
    names = {each.kafka_name for each in TransactionState}
    filters = _filters(ctx, request)
    found: list[schema.TransactionState] = []
    for each in list(ctx.broker.coordinators.transactions.all()):
        if all(passes(each) for passes in filters):
            found.append(
                schema.TransactionState(
                    transactional_id=each.transactional_id, producer_id=each.producer_id, transaction_state=each.state.kafka_name
                )
            )
        yield None
    unknown = [each for each in dict.fromkeys(request.state_filters) if each not in names]
    return schema.Response(error_code=0, unknown_state_filters=unknown, transaction_states=found)


def _filters(ctx: RequestContext, request: schema.Request) -> list[Passes]:
    filters: list[Passes] = []
    if request.state_filters:
        names = set(request.state_filters)
        filters.append(lambda each: each.state.kafka_name in names)
    if request.producer_id_filters:
        ids = set(request.producer_id_filters)
        filters.append(lambda each: each.producer_id in ids)
    if request.duration_filter >= 0:
        started_before_ms = ctx.broker.clock.now_ms() - request.duration_filter
        filters.append(lambda each: each.start_timestamp_ms < started_before_ms)
    if request.transactional_id_pattern:
        pattern = Regex(request.transactional_id_pattern)
        filters.append(lambda each: pattern.matches(each.transactional_id))
    return filters
