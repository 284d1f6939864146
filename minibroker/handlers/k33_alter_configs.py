"""AlterConfigs (key 33): replace all overrides of a topic, or all dynamic configs of this broker or of all brokers.

Versions: 0 to 2; 2 is flexible. A config that is not named loses its override: IncrementalAlterConfigs is what clients use today.
Each resource is altered or refused on its own, whole; one that is named twice is refused.
"""

from __future__ import annotations

from minibroker.cluster.config_changes import SET, Change, alter
from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.registry import handles
from minibroker.errors import InvalidRequest, KafkaError
from minibroker.schemas import k33_alter_configs as schema


@handles(schema)
def alter_configs(ctx: RequestContext, request: schema.Request) -> schema.Response:
    """Answer each resource on its own."""
    keys = [(resource.resource_type, resource.resource_name) for resource in request.resources]
    return schema.Response(
        responses=[
            _alter(ctx, resource, is_single=keys.count(key) == 1, validate_only=request.validate_only)
            for key, resource in zip(keys, request.resources, strict=True)
        ]
    )


def _alter(ctx: RequestContext, resource: schema.Resource, *, is_single: bool, validate_only: bool) -> schema.ResourceResult:
    code, message = 0, None
    changes = [Change(config.name, SET, config.value) for config in resource.configs]
    try:
        if not is_single:
            raise InvalidRequest("Each resource must appear at most once.")
        alter(ctx.cluster, resource.resource_type, resource.resource_name, changes, is_full=True, validate_only=validate_only)
    except KafkaError as error:
        code, message = error.code, str(error)
    return schema.ResourceResult(
        error_code=code, error_message=message, resource_type=resource.resource_type, resource_name=resource.resource_name
    )
