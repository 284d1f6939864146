"""DescribeCluster (key 60): cluster id and brokers, of which there is one.

Versions: 0 to 2, all flexible; 1 asks for brokers or controllers, 2 shows fenced brokers too (there are none).
A client is told the advertised address of the listener that it came in by. Controllers have no endpoint here: MISMATCHED_ENDPOINT_TYPE.
"""

from __future__ import annotations

from typing import Final

from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.registry import handles
from minibroker.errors import KafkaError, MismatchedEndpointType, UnsupportedEndpointType
from minibroker.schemas import k60_describe_cluster as schema

BROKERS, CONTROLLERS = 1, 2
NOT_ASKED_FOR: Final = -(2**31)
CLUSTER_OPERATIONS: Final = 0b1_1111_1010_0000  #: AclOperation bits: create, alter, describe, cluster action, configs, idempotent write


@handles(schema)
def describe_cluster(ctx: RequestContext, request: schema.Request) -> schema.Response:
    """Errors are answered without brokers (`on_error`)."""
    if request.endpoint_type == CONTROLLERS:
        raise MismatchedEndpointType("The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER")
    if request.endpoint_type != BROKERS:
        raise UnsupportedEndpointType(f"Unsupported endpoint type {request.endpoint_type}")
    node = ctx.cluster.node
    host, port = node.advertised(ctx.connection.listener_name)
    return schema.Response(
        error_code=0,
        endpoint_type=BROKERS,
        cluster_id=ctx.cluster.cluster_id,
        controller_id=node.node_id,
        brokers=[schema.Broker(broker_id=node.node_id, host=host, port=port, rack=node.rack)],
        cluster_authorized_operations=CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else NOT_ASKED_FOR,
    )


def on_error(_ctx: RequestContext, _request: schema.Request, error: KafkaError) -> schema.Response:
    """Nothing is described."""
    return schema.Response(error_code=error.code, error_message=str(error), cluster_id="", brokers=[])
