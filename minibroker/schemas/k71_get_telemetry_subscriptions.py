"""GetTelemetrySubscriptions, API key 71: which of its own metrics a client pushes, how often, and how it may compress them (KIP-714).

v0  flexible from the start
"""

from __future__ import annotations

from minibroker.wire.authorization import UNRESTRICTED
from minibroker.wire.routing import AnyBroker
from minibroker.wire.schema import Bool, Int8, Int16, Int32, String, Uuid, field, struct

API_KEY = 71
VERSIONS = (0, 0)
ROUTED_BY = AnyBroker()
AUTHORIZES = UNRESTRICTED
FLEXIBLE_SINCE = 0


@struct
class Request:
    client_instance_id: Uuid  #: zero: the broker chooses one


@struct
class Response:
    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16
    client_instance_id: Uuid
    subscription_id: Int32  #: changes with the metrics that the client should push
    accepted_compression_types: list[Int8]  #: the broker's favourite first
    push_interval_ms: Int32
    telemetry_max_bytes: Int32  #: of one push, compressed
    delta_temporality: Bool  #: sums are pushed as what was added since the last push
    requested_metrics: list[String]  #: prefixes of names; empty: none, *: all
