"""DescribeCluster, API key 60: the cluster's id, its controller and its nodes (KIP-700).

v0  flexible from the start
v1  endpoint_type; MISMATCHED_ENDPOINT_TYPE and UNSUPPORTED_ENDPOINT_TYPE may be answered (KIP-919)
v2  include_fenced_brokers, is_fenced (KIP-1073)
"""

from __future__ import annotations

from minibroker.wire.authorization import Special
from minibroker.wire.routing import AnyBroker
from minibroker.wire.schema import Bool, Int8, Int16, Int32, String, field, struct

API_KEY = 60
VERSIONS = (0, 2)
ROUTED_BY = AnyBroker()
AUTHORIZES = (Special("nothing; operations of the cluster are reported to clients that may DESCRIBE it"),)
FLEXIBLE_SINCE = 0


@struct
class Request:
    include_cluster_authorized_operations: Bool
    endpoint_type: Int8 = field(since=1, default=1)  #: 1 brokers, 2 controllers
    include_fenced_brokers: Bool = field(since=2, default=False)


@struct
class Broker:
    broker_id: Int32
    host: String
    port: Int32
    rack: String | None = field(default=None)
    is_fenced: Bool = field(since=2, default=False)


@struct
class Response:
    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16
    error_message: String | None = field(default=None)
    endpoint_type: Int8 = field(since=1, default=1)
    cluster_id: String
    controller_id: Int32 = field(default=-1)  #: a KRaft broker returns any broker: clients send it requests for the controller
    brokers: list[Broker]
    cluster_authorized_operations: Int32 = field(default=-(2**31))  #: bit n is AclOperation n; the default: not requested
