"""PushTelemetry, API key 72: a client's own metrics, in the format of OpenTelemetry (KIP-714).

v0  flexible from the start
"""

from __future__ import annotations

from minibroker.wire.authorization import UNRESTRICTED
from minibroker.wire.routing import AnyBroker
from minibroker.wire.schema import Bool, Bytes, Int8, Int16, Int32, Uuid, field, struct

API_KEY = 72
VERSIONS = (0, 0)
ROUTED_BY = AnyBroker()
AUTHORIZES = UNRESTRICTED
FLEXIBLE_SINCE = 0


@struct
class Request:
    client_instance_id: Uuid
    subscription_id: Int32  #: as GetTelemetrySubscriptions returned it
    terminating: Bool  #: the client closes, and sends nothing more
    compression_type: Int8
    metrics: Bytes  #: an opentelemetry.proto.metrics.v1.MetricsData


@struct
class Response:
    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16
