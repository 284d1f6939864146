"""PushTelemetry (key 72): the metrics of a client, as an OpenTelemetry message (KIP-714).

Versions: 0; flexible. Errors, in this order: INVALID_REQUEST (a reserved instance id, or a push after the last one),
THROTTLING_QUOTA_EXCEEDED, UNKNOWN_SUBSCRIPTION_ID, UNSUPPORTED_COMPRESSION_TYPE, TELEMETRY_TOO_LARGE, and INVALID_RECORD for a payload that
cannot be decoded or is larger than telemetry.max.bytes when decompressed. After INVALID_RECORD clients push nothing more.

A payload is decoded in a worker thread, a few at a time; its connection serves nothing else meanwhile, so that it has one payload at most.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial
from typing import TYPE_CHECKING

from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.delayed import Delayed
from minibroker.dispatch.registry import handles
from minibroker.dispatch.slices import Steps
from minibroker.errors import InvalidRecord
from minibroker.records.compression import Compression
from minibroker.schemas import k72_push_telemetry as schema
from minibroker.telemetry.payload import EMPTY, Payload, decoded

if TYPE_CHECKING:
    from minibroker.telemetry.instances import Instance


@handles(schema)
def push_telemetry(ctx: RequestContext, request: schema.Request) -> schema.Response | Delayed:
    """Check the push, decode its payload, and keep the metrics."""
    telemetry = ctx.broker.telemetry_offer.required
    instance = telemetry.check_push(
        request.client_instance_id,
        request.subscription_id,
        request.compression_type,
        len(request.metrics),
        ctx.client_id,
        ctx.connection,
        is_last=request.terminating,
    )
    if not request.metrics:
        telemetry.pushed(instance, ctx.client_id, ctx.connection, EMPTY, is_last=request.terminating)
        return schema.Response(error_code=0)
    return ctx.broker.slices.run(_decode(ctx, request, instance))


def _decode(ctx: RequestContext, request: schema.Request, instance: Instance) -> Steps:
    telemetry = ctx.broker.telemetry_offer.required
    decode = partial(decoded, Compression.of(request.compression_type), request.metrics, telemetry.max_bytes)
    try:
        payload: Payload = yield from ctx.broker.record_steps.do(_elsewhere(decode))
    except InvalidRecord:
        telemetry.failed(instance)
        raise
    telemetry.pushed(instance, ctx.client_id, ctx.connection, payload, is_last=request.terminating)
    return schema.Response(error_code=0)


def _elsewhere(work: Callable[[], Payload]) -> Generator[Callable[[], Payload] | None, Payload, Payload]:
    """Run `work` in a worker thread, as a step of records/steps.py."""
    return (yield work)
