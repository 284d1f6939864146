"""StreamsGroupHeartbeat (key 88): a member of a streams group joins, is alive, is told its tasks, leaves (KIP-1071).

Versions: 0 alone, flexible. What a group does with it is in coordinator/group/streams/group.py. UNSUPPORTED_VERSION where the cluster has
not finalized streams.version 1, or group.coordinator.rebalance.protocols is without `streams`. An error has a message for people where
there is something to say, and neither member nor epoch. Warm-up tasks are not assigned, so the members' offsets are not asked for: no
recovery lag and no interval for them is told, as by Apache Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from minibroker.config.request_limits import HEARTBEAT_ELEMENTS_MAX
from minibroker.coordinator.group.streams.requests import Located, Partitions, StreamsHeartbeatAnswer, heartbeat_of
from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.delayed import when_done
from minibroker.dispatch.group_protocols import check_protocol
from minibroker.dispatch.pieces import ElementLimit
from minibroker.dispatch.registry import handles
from minibroker.errors import KafkaError
from minibroker.schemas import k88_streams_group_heartbeat as schema


@handles(schema, limit=ElementLimit(HEARTBEAT_ELEMENTS_MAX))
def streams_group_heartbeat(ctx: RequestContext, request: schema.Request) -> Any:
    """Response, or Delayed where the log is to be synced first."""
    check_protocol(ctx, "streams")
    asked = heartbeat_of(request, ctx.client_id or "", f"/{ctx.connection.client_host}")
    return when_done(lambda done: ctx.broker.coordinators.groups.streams.heartbeat(request.group_id, asked, done), _answer)


def on_error(_ctx: RequestContext, _request: schema.Request, error: KafkaError) -> schema.Response:
    """There is no member then."""
    return _answer(error)


def _answer(told: StreamsHeartbeatAnswer | KafkaError) -> schema.Response:
    if isinstance(told, KafkaError):
        return schema.Response(
            error_code=told.code,
            error_message=told.given_message,
            member_id="",
            member_epoch=0,
            heartbeat_interval_ms=0,
            acceptable_recovery_lag=0,
            task_offset_interval_ms=0,
            status=[],
            endpoint_information_epoch=0,
        )
    tasks = told.tasks
    return schema.Response(
        error_code=0,
        member_id=told.member_id,
        member_epoch=told.member_epoch,
        heartbeat_interval_ms=told.heartbeat_interval_ms,
        acceptable_recovery_lag=0,
        task_offset_interval_ms=0,
        status=[schema.Status(status_code=each.code, status_detail=each.detail) for each in told.statuses],
        active_tasks=None if tasks is None else _task_ids(tasks.active),
        standby_tasks=None if tasks is None else _task_ids(tasks.standby),
        warmup_tasks=None if tasks is None else _task_ids(tasks.warmup),
        endpoint_information_epoch=told.endpoint_epoch,
        partitions_by_user_endpoint=None if told.located is None else [_located(each) for each in told.located],
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
