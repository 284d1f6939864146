"""DescribeClientQuotas (key 48): quotas of users, client ids and addresses (KIP-546).

Versions: 0 and 1; 1 is flexible. A filter has one component for each entity type: a name, the
default, or any name. `strict` leaves out entities that also have other types. A request without
components gets all. These errors have null entries: INVALID_REQUEST for an invalid filter,
UNSUPPORTED_VERSION for an unknown type. Quotas are stored (cluster/metadata/client_quotas.py),
returned in the order of their creation, and enforced (dispatch/quotas.py).
"""

from __future__ import annotations

from typing import Final

from minibroker.cluster.metadata.client_quotas import QuotaFilterComponent, entity_filter, in_order
from minibroker.config.request_limits import QUOTA_COMPONENTS_MAX
from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.delayed import Delayed
from minibroker.dispatch.pieces import ElementLimit
from minibroker.dispatch.registry import handles
from minibroker.dispatch.slices import Steps
from minibroker.errors import KafkaError
from minibroker.schemas import k48_describe_client_quotas as schema

_STEP: Final = 200  #: quotas examined between two pauses


@handles(schema, limit=ElementLimit(QUOTA_COMPONENTS_MAX), has_long_answer=True)
def describe_client_quotas(ctx: RequestContext, request: schema.Request) -> schema.Response | Delayed:
    """Return each matching entity with all its quotas."""
    return ctx.broker.slices.run(_describe(ctx, request))


def _describe(ctx: RequestContext, request: schema.Request) -> Steps:
    components = [QuotaFilterComponent(each.entity_type, each.match_type, each.match) for each in request.components]
    matches = entity_filter(components, strict=request.strict)
    entries: dict[frozenset[tuple[str, str | None]], schema.Entry] = {}
    for number, ((key, name), quota) in enumerate(list(ctx.cluster.image.kept.quotas.items())):
        if number % _STEP == _STEP - 1:
            yield None
        entity = dict(key)
        if not matches(entity):
            continue
        if key not in entries:
            parts = [schema.Entity(entity_type=each, entity_name=name) for each, name in in_order(entity)]
            entries[key] = schema.Entry(entity=parts, values=[])
        entries[key].values.append(schema.Value(key=name, value=quota.value))
    return schema.Response(error_code=0, error_message="", entries=list(entries.values()))


def on_error(_ctx: RequestContext, _request: schema.Request, error: KafkaError) -> schema.Response:
    """Return `error` with null entries, not an empty list."""
    return schema.Response(error_code=error.code, error_message=str(error), entries=None)
