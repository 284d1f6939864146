"""AlterConfigs (key 33): replace all overrides of a topic, a group or client metrics, or all dynamic configs of one broker or of all.

Versions: 0 to 2; 2 is flexible. Configs that the request does not have lose their overrides. New
clients use IncrementalAlterConfigs. Each resource is altered or rejected as a whole, independently
of the others. A repeated resource is rejected.
"""

from __future__ import annotations

from minibroker.cluster.configs.config_changes import SET, ConfigChange, alter_each, check_config_count
from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.pieces import Pieces
from minibroker.dispatch.registry import handles
from minibroker.schemas import k33_alter_configs as schema


@handles(schema, Pieces("resources", "responses", key=lambda _ctx, each: (each.resource_type, each.resource_name), beside=("configs",)))
def alter_configs(ctx: RequestContext, request: schema.Request) -> schema.Response:
    """Alter each resource."""
    for resource in request.resources:
        check_config_count(resource.configs)  # a resource with many configs is its own piece
    requested = [
        (resource.resource_type, resource.resource_name, [ConfigChange(config.name, SET, config.value) for config in resource.configs])
        for resource in request.resources
    ]
    refusals = alter_each(ctx.cluster, requested, node_id=ctx.broker.nodes.own.node_id, is_full=True, validate_only=request.validate_only)
    return schema.Response(
        responses=[
            schema.ResourceResult(
                error_code=error.code if error else 0,
                error_message=str(error) if error else None,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
            for resource, error in zip(request.resources, refusals, strict=True)
        ]
    )
