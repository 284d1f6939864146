"""ListConfigResources (key 74): names of the resources that can have configs.

Versions: 0 and 1; flexible. Version 0 has client metrics only. In Apache Kafka's order: groups (32)
and client metrics (16) that have configs, broker loggers (8) and brokers (4), topics (2). Any other
type is UNSUPPORTED_VERSION, without a list.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Final

from minibroker.cluster.metadata.metadata_image import (
    BROKER_LOGGER_RESOURCE,
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
)
from minibroker.config.request_limits import RESOURCE_TYPES_MAX
from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.delayed import Delayed
from minibroker.dispatch.pieces import ElementLimit
from minibroker.dispatch.registry import handles
from minibroker.dispatch.slices import Steps
from minibroker.errors import UnsupportedVersion
from minibroker.schemas import k74_list_config_resources as schema

_TYPES: Final = (GROUP_RESOURCE, CLIENT_METRICS_RESOURCE, BROKER_LOGGER_RESOURCE, BROKER_RESOURCE, TOPIC_RESOURCE)  #: in response order
_STEP: Final = 500  #: names examined between two pauses


@handles(schema, limit=ElementLimit(RESOURCE_TYPES_MAX), has_long_answer=True)
def list_config_resources(ctx: RequestContext, request: schema.Request) -> schema.Response | Delayed:
    """List the resources of the requested types."""
    supported = _TYPES if ctx.api_version > 0 else (CLIENT_METRICS_RESOURCE,)
    for unknown in set(request.resource_types).difference(supported):
        raise UnsupportedVersion(f"Unsupported resource type {unknown}")
    return ctx.broker.slices.run(_list(ctx, [each for each in supported if each in request.resource_types or not request.resource_types]))


def _list(ctx: RequestContext, types: Sequence[int]) -> Steps:
    resources: list[schema.Resource] = []
    for resource_type in types:
        names = iter(_names(ctx, resource_type))
        while step := list(islice(names, _STEP)):
            resources += [schema.Resource(resource_name=name, resource_type=resource_type) for name in step if name is not None]
            yield None
    return schema.Response(error_code=0, config_resources=resources)


def _names(ctx: RequestContext, resource_type: int) -> Iterable[str | None]:
    """Return the names of the current resources of a type, and None for each one that is skipped."""
    if resource_type == TOPIC_RESOURCE:
        return list(ctx.cluster.topics)
    if resource_type in {BROKER_RESOURCE, BROKER_LOGGER_RESOURCE}:
        return [str(node.node_id) for node in ctx.broker.nodes.alive]
    configs = list(ctx.cluster.image.configs.items())
    return (name if known_type == resource_type and config else None for (known_type, name), config in configs)
