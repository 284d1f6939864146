"""DescribeClientQuotas (key 48): quotas of users, client ids and addresses (KIP-546).

Versions: 0 and 1; 1 is flexible. A filter of components, one a type: a name, the default, or any name; `strict` leaves out entities that
have more types. No components ask for all. A filter that is none is INVALID_REQUEST, a type that nobody knows UNSUPPORTED_VERSION, both
without a list of entries.
Quotas are kept (cluster/client_quotas.py), told in the order in which they were made, and enforced (dispatch/quotas.py).
"""

from __future__ import annotations

from minibroker.cluster.client_quotas import Component, described, in_order
from minibroker.config.request_limits import QUOTA_COMPONENTS_MAX
from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.element_limit import ElementLimit
from minibroker.dispatch.registry import handles
from minibroker.errors import KafkaError
from minibroker.schemas import k48_describe_client_quotas as schema


@handles(schema, limit=ElementLimit(QUOTA_COMPONENTS_MAX))
def describe_client_quotas(ctx: RequestContext, request: schema.Request) -> schema.Response:
    """Answer each entity with all its quotas."""
    components = [Component(each.entity_type, each.match_type, each.match) for each in request.components]
    entries = [
        schema.Entry(
            entity=[schema.Entity(entity_type=each, entity_name=name) for each, name in in_order(entity)],
            values=[schema.Value(key=key, value=value) for key, value in values],
        )
        for entity, values in described(ctx.cluster.image.kept, components, strict=request.strict)
    ]
    return schema.Response(error_code=0, error_message="", entries=entries)


def on_error(_ctx: RequestContext, _request: schema.Request, error: KafkaError) -> schema.Response:
    """No list, rather than an empty one."""
    return schema.Response(error_code=error.code, error_message=str(error), entries=None)
