"""IncrementalAlterConfigs (key 44): set, delete, append to or subtract from single configs of topics, brokers, groups and other resources.

Versions: 0 and 1; 1 is flexible. Each resource is altered or rejected as a whole, independently of
the others. A repeated resource is rejected. Before the response, changes of a topic apply to its
open logs, and changes of a broker to every log without an override. Both survive a restart. Log
levels of a broker's loggers (8) are kept until it stops.
"""

from __future__ import annotations

from minibroker.cluster.configs.config_changes import ConfigChange, alter_each, check_config_count
from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.pieces import Pieces
from minibroker.dispatch.registry import handles
from minibroker.schemas import k44_incremental_alter_configs as schema


@handles(schema, Pieces("resources", "responses", key=lambda _ctx, each: (each.resource_type, each.resource_name), beside=("configs",)))
def incremental_alter_configs(ctx: RequestContext, request: schema.Request) -> schema.Response:
    """Alter each resource."""
    for resource in request.resources:
        check_config_count(resource.configs)  # a resource with many configs is its own piece
    requested = [
        (
            resource.resource_type,
            resource.resource_name,
            [ConfigChange(config.name, config.config_operation, config.value) for config in resource.configs],
        )
        for resource in request.resources
    ]
    refusals = alter_each(ctx.cluster, requested, node_id=ctx.broker.nodes.own.node_id, is_full=False, validate_only=request.validate_only)
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
