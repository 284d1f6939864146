"""PushTelemetry (key 72): the metrics of a client, as an OpenTelemetry message (KIP-714).

Versions: 0; flexible. Errors, in this order: INVALID_REQUEST (a reserved instance id, or a push after the last one),
THROTTLING_QUOTA_EXCEEDED, UNKNOWN_SUBSCRIPTION_ID, UNSUPPORTED_COMPRESSION_TYPE, TELEMETRY_TOO_LARGE, and INVALID_RECORD for a payload that
cannot be decoded or is larger than telemetry.max.bytes when decompressed. After INVALID_RECORD clients push nothing more.

Payloads are decoded in worker threads (telemetry/telemetry.py). While 32 of them wait, further pushes are throttled.
"""

from __future__ import annotations

from functools import partial

from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.delayed import Delayed, when_done
from minibroker.dispatch.registry import handles
from minibroker.errors import KafkaError
from minibroker.schemas import k72_push_telemetry as schema
from minibroker.telemetry.instances import Push


@handles(schema)
def push_telemetry(ctx: RequestContext, request: schema.Request) -> schema.Response | Delayed:
    """Check the push, decode its payload, and keep the metrics."""
    push = Push(request.client_instance_id, request.subscription_id, request.compression_type, request.metrics, is_last=request.terminating)
    return when_done(partial(ctx.broker.telemetry_offer.required.push, push, ctx.client_id, ctx.connection), _answer)


def _answer(error: KafkaError | None) -> schema.Response:
    if error is not None:
        raise error
    return schema.Response(error_code=0)
