"""Authorize requests about configs, and report what a client may do with the cluster."""

from __future__ import annotations

from typing import Any, Final

from minibroker.cluster.metadata.metadata_image import (
    BROKER_LOGGER_RESOURCE,
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
)
from minibroker.dispatch.authorization.access import Access
from minibroker.dispatch.authorization.parts import serve_elements
from minibroker.dispatch.authorization.topics import cluster_operations
from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.middleware import after
from minibroker.dispatch.registry import Handler
from minibroker.errors import ClusterAuthorizationFailed, GroupAuthorizationFailed, KafkaError, TopicAuthorizationFailed
from minibroker.schemas import k60_describe_cluster
from minibroker.security.acl import CLUSTER_NAME, Operation, ResourceType

_OF_CLUSTER: Final = frozenset({BROKER_RESOURCE, BROKER_LOGGER_RESOURCE, CLIENT_METRICS_RESOURCE})


def describe_configs(handler: Handler, ctx: RequestContext, request: Any) -> Any:
    """DESCRIBE_CONFIGS of each topic or group, or of the cluster."""
    return _each_resource(Operation.DESCRIBE_CONFIGS, "results", handler, ctx, request)


def alter_configs(handler: Handler, ctx: RequestContext, request: Any) -> Any:
    """ALTER_CONFIGS of each topic or group, or of the cluster."""
    return _each_resource(Operation.ALTER_CONFIGS, "responses", handler, ctx, request)


def _each_resource(operation: Operation, results: str, handler: Handler, ctx: RequestContext, request: Any) -> Any:
    access = Access(ctx, handler.api.name)

    def error_of(resource: Any) -> KafkaError | None:
        kind = resource.resource_type
        if kind == TOPIC_RESOURCE:
            return None if access.allows(operation, ResourceType.TOPIC, resource.resource_name) else TopicAuthorizationFailed()
        if kind == GROUP_RESOURCE:
            return None if access.allows(operation, ResourceType.GROUP, resource.resource_name) else GroupAuthorizationFailed()
        if kind in _OF_CLUSTER and not access.allows(operation, ResourceType.CLUSTER, CLUSTER_NAME):
            return ClusterAuthorizationFailed()
        return None  # the handler rejects other types

    return serve_elements(handler, ctx, request, keys="resources", results=results, error_of=error_of)


def describe_cluster(handler: Handler, ctx: RequestContext, request: k60_describe_cluster.Request) -> Any:
    """Nothing is asked for. Operations are 0 for a client that may not DESCRIBE the cluster."""

    def with_operations(response: Any) -> Any:
        if request.include_cluster_authorized_operations:
            response.cluster_authorized_operations = cluster_operations(Access(ctx, handler.api.name))
        return response

    return after(handler.handle(ctx, request), with_operations)
