"""GetTelemetrySubscriptions (key 71): which of its metrics a client pushes, and how often (KIP-714).

Versions: 0; flexible. An instance id of zero gets a new id. THROTTLING_QUOTA_EXCEEDED if the client asks again before the push interval
is over, unless its last push failed with UNKNOWN_SUBSCRIPTION_ID or UNSUPPORTED_COMPRESSION_TYPE. telemetry/subscriptions.py says what a
client is asked for, and in which order.
"""

from __future__ import annotations

from typing import Final

from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.registry import handles
from minibroker.errors import KafkaError
from minibroker.records.compression import Compression
from minibroker.schemas import k71_get_telemetry_subscriptions as schema
from minibroker.wire.schema import NIL_UUID

_COMPRESSION_TYPES: Final = [each.value for each in (Compression.ZSTD, Compression.LZ4, Compression.GZIP, Compression.SNAPPY)]


@handles(schema)
def get_telemetry_subscriptions(ctx: RequestContext, request: schema.Request) -> schema.Response:
    """Return what the client is asked for."""
    telemetry = ctx.broker.telemetry_offer.required
    instance = telemetry.subscribe(request.client_instance_id, ctx.client_id, ctx.connection)
    return schema.Response(
        error_code=0,
        client_instance_id=instance.instance_id,
        subscription_id=instance.subscription.subscription_id,
        accepted_compression_types=_COMPRESSION_TYPES,
        push_interval_ms=instance.subscription.interval_ms,
        telemetry_max_bytes=telemetry.max_bytes,
        delta_temporality=True,
        requested_metrics=list(instance.subscription.metrics),
    )


def on_error(_ctx: RequestContext, _request: schema.Request, error: KafkaError) -> schema.Response:
    """Return `error` without anything else, as Kafka does."""
    return schema.Response(
        error_code=error.code,
        client_instance_id=NIL_UUID,
        subscription_id=0,
        accepted_compression_types=[],
        push_interval_ms=0,
        telemetry_max_bytes=0,
        delta_temporality=False,
        requested_metrics=[],
    )
