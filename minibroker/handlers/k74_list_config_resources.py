"""ListConfigResources (key 74): names of what may have configs of its own.

Versions: 0 and 1; flexible from the start. Version 0 knows client metrics only.
Answered in the order groups (32) and client metrics (16) that have configs, broker loggers (8) and brokers (4), topics (2), as Apache Kafka
does. A type that is not one of these is UNSUPPORTED_VERSION, without a list.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from minibroker.cluster.metadata_image import (
    BROKER_LOGGER_RESOURCE,
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
)
from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.registry import handles
from minibroker.errors import UnsupportedVersion
from minibroker.schemas import k74_list_config_resources as schema

_TYPES: Final = (GROUP_RESOURCE, CLIENT_METRICS_RESOURCE, BROKER_LOGGER_RESOURCE, BROKER_RESOURCE, TOPIC_RESOURCE)  #: in the answer's order


@handles(schema)
def list_config_resources(ctx: RequestContext, request: schema.Request) -> schema.Response:
    """Answer each resource of the types that were asked for once."""
    supported = _TYPES if ctx.api_version > 0 else (CLIENT_METRICS_RESOURCE,)
    for unknown in set(request.resource_types).difference(supported):
        raise UnsupportedVersion(f"Unsupported resource type {unknown}")
    wanted = [each for each in supported if each in request.resource_types or not request.resource_types]
    return schema.Response(
        error_code=0,
        config_resources=[schema.Resource(resource_name=name, resource_type=each) for each in wanted for name in _names(ctx, each)],
    )


def _names(ctx: RequestContext, resource_type: int) -> Iterable[str]:
    if resource_type == TOPIC_RESOURCE:
        return ctx.cluster.topics
    if resource_type in {BROKER_RESOURCE, BROKER_LOGGER_RESOURCE}:
        return [str(node.node_id) for node in ctx.nodes.alive]
    return [name for (known_type, name), config in ctx.cluster.image.configs.items() if known_type == resource_type and config]
