"""StreamsGroupHeartbeat (key 88): join, stay in or leave a streams group, and receive its tasks (KIP-1071).

Version 0, flexible. The protocol is in coordinator/group/streams/group.py. UNSUPPORTED_VERSION: the
cluster has not finalized streams.version 1, or group.coordinator.rebalance.protocols does not list
`streams`. An error has neither member nor epoch, and the message of the group if it has one. As in
Apache Kafka 4.3.1, no warm-up tasks are assigned, and the response has no recovery lag and no
interval to send offsets.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from minibroker.config.request_limits import HEARTBEAT_ELEMENTS_MAX
from minibroker.coordinator.group.streams.requests import Located, Partitions, StreamsHeartbeatAnswer, heartbeat_of
from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.delayed import when_done
from minibroker.dispatch.pieces import ElementLimit
from minibroker.dispatch.registry import handles
from minibroker.errors import KafkaError
from minibroker.schemas import k88_streams_group_heartbeat as schema


@handles(schema, limit=ElementLimit(HEARTBEAT_ELEMENTS_MAX))
def streams_group_heartbeat(ctx: RequestContext, request: schema.Request) -> Any:
    """Handle the heartbeat. Returns Delayed if the log must be synced first."""
    ctx.broker.check_group_protocol("streams")
    received = heartbeat_of(request, ctx.client_id or "", f"/{ctx.connection.client_host}")
    return when_done(lambda done: ctx.broker.coordinators.groups.streams.heartbeat(request.group_id, received, done), _answer)


def on_error(_ctx: RequestContext, _request: schema.Request, error: KafkaError) -> schema.Response:
    """Return `error` without a member."""
    return _answer(error)


def _answer(result: StreamsHeartbeatAnswer | KafkaError) -> schema.Response:
    if isinstance(result, KafkaError):
        return schema.Response(
            error_code=result.code,
            error_message=result.given_message,
            member_id="",
            member_epoch=0,
            heartbeat_interval_ms=0,
            acceptable_recovery_lag=0,
            task_offset_interval_ms=0,
            status=[],
            endpoint_information_epoch=0,
        )
    tasks = result.tasks
    return schema.Response(
        error_code=0,
        member_id=result.member_id,
        member_epoch=result.member_epoch,
        heartbeat_interval_ms=result.heartbeat_interval_ms,
        acceptable_recovery_lag=0,
        task_offset_interval_ms=0,
        status=[schema.Status(status_code=each.code, status_detail=each.detail) for each in result.statuses],
        active_tasks=None if tasks is None else _task_ids(tasks.active),
        standby_tasks=None if tasks is None else _task_ids(tasks.standby),
        warmup_tasks=None if tasks is None else _task_ids(tasks.warmup),
        endpoint_information_epoch=result.endpoint_epoch,
        partitions_by_user_endpoint=None if result.located is None else [_located(each) for each in result.located],
    )


def _task_ids(tasks: Mapping[str, frozenset[int]]) -> list[schema.TaskIds]:
    return [schema.TaskIds(subtopology_id=each, partitions=sorted(tasks[each])) for each in sorted(tasks)]


def _located(located: Located) -> schema.EndpointToPartitions:
    host, port = located.endpoint
    return schema.EndpointToPartitions(
        user_endpoint=schema.Endpoint(host=host, port=port),
        active_partitions=_partitions(located.active),
        standby_partitions=_partitions(located.standby),
    )


def _partitions(topics: Partitions) -> list[schema.TopicPartition]:
    return [schema.TopicPartition(topic=topic, partitions=list(partitions)) for topic, partitions in topics]
