"""ConsumerGroupHeartbeat (key 68): join, stay in or leave a consumer group, and receive its assignment (KIP-848).

Versions: 0 to 1; both flexible; from 1 on a member chooses its own id, and may subscribe by a
regular expression. The protocol is in coordinator/group/consumer/group.py. UNSUPPORTED_VERSION: the
cluster has not finalized group.version 1, or group.coordinator.rebalance.protocols does not list
`consumer`. An error has a message, and neither member nor epoch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from minibroker.config.request_limits import HEARTBEAT_ELEMENTS_MAX
from minibroker.coordinator.group.consumer.requests import ConsumerHeartbeat, ConsumerHeartbeatAnswer
from minibroker.coordinator.group.modern import frozen
from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.delayed import when_done
from minibroker.dispatch.pieces import ElementLimit
from minibroker.dispatch.registry import handles
from minibroker.errors import KafkaError
from minibroker.schemas import k68_consumer_group_heartbeat as schema

OWN_ID_SINCE: Final = 1


@handles(schema, limit=ElementLimit(HEARTBEAT_ELEMENTS_MAX))
def consumer_group_heartbeat(ctx: RequestContext, request: schema.Request) -> Any:
    """Handle the heartbeat. Returns Delayed if the log must be synced first."""
    ctx.broker.check_group_protocol("consumer")
    names, owned = request.subscribed_topic_names, request.topic_partitions
    received = ConsumerHeartbeat(
        member_id=request.member_id,
        member_epoch=request.member_epoch,
        client_id=ctx.client_id or "",
        client_host=f"/{ctx.connection.client_host}",
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        topic_names=None if names is None else tuple(names),
        topic_regex=request.subscribed_topic_regex,
        server_assignor=request.server_assignor,
        owned=None if owned is None else frozen({each.topic_id: each.partitions for each in owned}),
        draws_own_id=ctx.api_version >= OWN_ID_SINCE,
    )
    return when_done(lambda done: ctx.broker.coordinators.groups.consumer.heartbeat(request.group_id, received, done), _answer)


def on_error(_ctx: RequestContext, _request: schema.Request, error: KafkaError) -> schema.Response:
    """Return `error` without a member."""
    return _answer(error)


def _answer(result: ConsumerHeartbeatAnswer | KafkaError) -> schema.Response:
    if isinstance(result, KafkaError):
        return schema.Response(
            error_code=result.code, error_message=result.given_message, member_id=None, member_epoch=0, heartbeat_interval_ms=0
        )
    return schema.Response(
        error_code=0,
        member_id=result.member_id,
        member_epoch=result.member_epoch,
        heartbeat_interval_ms=result.heartbeat_interval_ms,
        assignment=None if result.assignment is None else schema.Assignment(topic_partitions=_partitions(result.assignment)),
    )


def _partitions(assignment: Mapping[UUID, Sequence[int] | frozenset[int]]) -> list[schema.TopicPartitions]:
    return [schema.TopicPartitions(topic_id=topic_id, partitions=sorted(each)) for topic_id, each in assignment.items()]
