"""DescribeCluster (key 60): the cluster's id, its controller and its nodes.

Versions: 0 to 2; all flexible; 1 adds the endpoint type, 2 can include fenced brokers. Nodes have
the advertised address of the listener that the client is connected to. With several brokers a
stopped one is fenced. Endpoint type 2 (controllers) is MISMATCHED_ENDPOINT_TYPE on this listener.
Any other type but 1 (brokers) is UNSUPPORTED_ENDPOINT_TYPE. Authorized operations are all
operations, as in Kafka without an authorizer; -2**31 if they were not requested. Not done: a
controller listener, where Kafka serves type 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from minibroker.cluster.nodes import Node
from minibroker.cluster.topic_rules import CLUSTER_OPERATIONS, NOT_ASKED_FOR
from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.registry import handles
from minibroker.errors import KafkaError, MismatchedEndpointType, UnsupportedEndpointType
from minibroker.schemas import k60_describe_cluster as schema

BROKERS: Final = 1
CONTROLLERS: Final = 2


@handles(schema)
def describe_cluster(ctx: RequestContext, request: schema.Request) -> schema.Response:
    """Return the nodes that are alive, and the fenced ones if requested."""
    if request.endpoint_type == CONTROLLERS:
        raise MismatchedEndpointType("The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER")
    if request.endpoint_type != BROKERS:
        raise UnsupportedEndpointType(f"Unsupported endpoint type {request.endpoint_type}")
    listener, alive = ctx.connection.listener_name, ctx.broker.nodes.alive
    return schema.Response(
        error_code=0,
        cluster_id=ctx.cluster.cluster_id,
        controller_id=ctx.broker.nodes.controller_id,
        brokers=[_broker(node, listener, alive) for node in (ctx.broker.nodes.registered if request.include_fenced_brokers else alive)],
        cluster_authorized_operations=CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else NOT_ASKED_FOR,
    )


def _broker(node: Node, listener: str, alive: Sequence[Node]) -> schema.Broker:
    host, port = node.advertised(listener)
    return schema.Broker(broker_id=node.node_id, host=host, port=port, rack=node.rack, is_fenced=node not in alive)


def on_error(_ctx: RequestContext, _request: schema.Request, error: KafkaError) -> schema.Response:
    """Return `error` with the endpoint type of this listener, not that of the request."""
    return schema.Response(error_code=error.code, error_message=str(error), cluster_id="", brokers=[])
