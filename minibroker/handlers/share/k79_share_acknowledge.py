"""ShareAcknowledge (key 79): acknowledge records that a member of a share group has acquired.

Versions: 1 and 2, flexible; 2 renews locks. The member must have an open session
(share_partition/share_partitions.py). Epoch -1 closes it and releases its other records. As in
Kafka, a client with a session need not be a member of the group.

The response is sent when everything is in the log of the share coordinator, and synced where
required. Partitions are in the order of the request.
"""

from __future__ import annotations

from minibroker.config.request_limits import SHARE_ELEMENTS_MAX
from minibroker.coordinator.share_partition.share_partitions import FINAL_EPOCH, FIRST_EPOCH, MemberKey, TopicPartition
from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.delayed import Delayed, when_done
from minibroker.dispatch.flush import FlushFailures
from minibroker.dispatch.pieces import ElementLimit
from minibroker.dispatch.registry import handles
from minibroker.dispatch.slices import Steps
from minibroker.errors import InvalidRequest, InvalidShareSessionEpoch, KafkaError
from minibroker.handlers.share import Outcome, acknowledge, check_member_id, check_size, endpoints, leader, unsynced
from minibroker.schemas import k79_share_acknowledge as schema


@handles(schema, limit=ElementLimit(SHARE_ELEMENTS_MAX))
def share_acknowledge(ctx: RequestContext, request: schema.Request) -> schema.Response | Delayed:
    """Check the session, then process each partition."""
    ctx.broker.check_group_protocol("share")
    if request.group_id is None:
        raise InvalidRequest("Invalid group id in the request.")
    check_member_id(request.member_id)
    check_size(request.topics)
    member = request.group_id, request.member_id or ""
    if request.share_session_epoch == FIRST_EPOCH:
        raise InvalidShareSessionEpoch
    session = ctx.broker.coordinators.share_partitions.session(ctx.broker.nodes.own.node_id, member)
    if request.share_session_epoch != FINAL_EPOCH:
        session.check_epoch(request.share_session_epoch)
    return ctx.broker.slices.run(_acknowledge(ctx, request, member), keeps_frame=False)


def _acknowledge(ctx: RequestContext, request: schema.Request, member: MemberKey) -> Steps:
    """Process the acknowledgements with pauses, after the session has been checked."""
    outcomes, logs = yield from acknowledge(ctx, member, request)
    if request.share_session_epoch == FINAL_EPOCH:
        ctx.broker.coordinators.share_partitions.end_session(ctx.broker.nodes.own.node_id, member)
    logs += ctx.broker.coordinators.share_partitions.take_unsynced()
    if not logs:
        return _response(ctx, request, outcomes)

    def answer(failures: FlushFailures) -> schema.Response:
        return _response(ctx, request, unsynced(outcomes) if any(log in failures for log in logs) else outcomes)

    result = when_done(lambda done: ctx.broker.flush_queue.flush(logs, done), answer)
    return (yield result) if isinstance(result, Delayed) else result


def on_error(_ctx: RequestContext, _request: schema.Request, error: KafkaError) -> schema.Response:
    """Return the code without a message, as Kafka does."""
    return schema.Response(error_code=error.code, responses=[], node_endpoints=[])


def _response(ctx: RequestContext, request: schema.Request, outcomes: dict[TopicPartition, Outcome]) -> schema.Response:
    results: dict[object, schema.TopicResult] = {}
    for (topic_id, index), outcome in outcomes.items():
        result = results.setdefault(topic_id, schema.TopicResult(topic_id=topic_id, partitions=[]))
        result.partitions.append(
            schema.PartitionResult(
                partition_index=index,
                error_code=outcome.error_code,
                error_message=outcome.error_message,
                current_leader=leader(ctx, schema, (topic_id, index), outcome.error_code),
            )
        )
    lock_ms = ctx.cluster.configs.of_group(request.group_id or "").share_record_lock_duration_ms
    nodes = endpoints(ctx, schema, [each for topic in results.values() for each in topic.partitions])
    return schema.Response(error_code=0, acquisition_lock_timeout_ms=lock_ms, responses=[*results.values()], node_endpoints=nodes)
