"""IncrementalAlterConfigs (key 44): set, delete, append to or subtract from single configs of a topic or of brokers (KIP-339).

Versions: 0 and 1; 1 is flexible. Each resource is altered or refused on its own, whole; one that is named twice is refused. A topic's
change reaches its open logs, a broker's every log without an override, before this answers; both survive a restart.
Not done: broker loggers (8), client metrics (16) and groups (32) are answered with INVALID_REQUEST.
"""

from __future__ import annotations

from minibroker.cluster.config_changes import Change, alter
from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.registry import handles
from minibroker.errors import InvalidRequest, KafkaError
from minibroker.schemas import k44_incremental_alter_configs as schema


@handles(schema)
def incremental_alter_configs(ctx: RequestContext, request: schema.Request) -> schema.Response:
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
    changes = [Change(config.name, config.config_operation, config.value) for config in resource.configs]
    try:
        if not is_single:
            raise InvalidRequest("Each resource must appear at most once.")
        alter(ctx.cluster, resource.resource_type, resource.resource_name, changes, is_full=False, validate_only=validate_only)
    except KafkaError as error:
        code, message = error.code, str(error)
    return schema.ResourceResult(
        error_code=code, error_message=message, resource_type=resource.resource_type, resource_name=resource.resource_name
    )
