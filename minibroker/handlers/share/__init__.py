"""What requests of members of share groups have in common: checks, and leaders that an answer names.

Source: KafkaApis.processShareFetchResponse, processShareAcknowledgeResponse of Apache Kafka 4.3.1.

Requests for states of share partitions (keys 83 to 87): with an empty group id, no topics, or a topic without partitions the response is
empty. Otherwise each partition has a result, in the order of the request. The response
is sent when all is in the log of `__share_group_state`, and synced where required.

Source: ShareCoordinatorService of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final
from uuid import UUID

from minibroker.config.request_limits import SHARE_PARTITIONS_MAX
from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.delayed import Delayed, when_done
from minibroker.dispatch.flush import FlushFailures
from minibroker.errors import CoordinatorLoadInProgress, FencedLeaderEpoch, InvalidRequest, KafkaError, NotCoordinator, NotLeaderOrFollower

MAX_MEMBER_ID_LENGTH: Final = 36
_NAMES_LEADER: Final = frozenset({NotLeaderOrFollower.code, FencedLeaderEpoch.code})


def check_member_id(member_id: str | None) -> None:
    """Raise InvalidRequest if a member id, which the member itself chooses, is empty or too long."""
    if not member_id or len(member_id) > MAX_MEMBER_ID_LENGTH:
        raise InvalidRequest("Invalid member id in the request.")


def check_size(topics: Iterable[Any]) -> None:
    """Raise InvalidRequest if a request has too many topics and partitions."""
    if sum(1 + len(topic.partitions) for topic in topics) > SHARE_PARTITIONS_MAX:
        raise InvalidRequest(f"A request may have {SHARE_PARTITIONS_MAX} topics and partitions at most.")


def leader(ctx: RequestContext, schema: Any, partition: tuple[UUID, int], error_code: int) -> Any:
    """Return the CurrentLeader of a partition result; zeros unless its error sends the client to another broker or epoch."""
    if error_code not in _NAMES_LEADER:
        return schema.CurrentLeader()
    try:
        found = ctx.cluster.partition_by_id(*partition)
    except KafkaError:
        return schema.CurrentLeader(leader_id=-1, leader_epoch=-1)
    return schema.CurrentLeader(leader_id=ctx.broker.nodes.leader_of(found), leader_epoch=found.leader_epoch)


def endpoints(ctx: RequestContext, schema: Any, results: Iterable[Any]) -> list[Any]:
    """Return the NodeEndpoint of each broker that `leader` named in partition results."""
    return ctx.endpoints(schema, [each.current_leader.leader_id for each in results if each.error_code in _NAMES_LEADER])


Answer = Callable[[UUID, Any], Any]  #: topic id and partition of the request -> partition result; raises KafkaError


def each_partition(ctx: RequestContext, schema: Any, request: Any, answer: Answer, *, doing: str, **otherwise: Any) -> Any | Delayed:
    """Return the response with one result for each partition.

    `doing` is the phrase for error messages if there is no log, `otherwise` has the other fields of a rejected partition.
    """
    if not request.group_id or not all(topic.partitions for topic in request.topics):
        return schema.Response(results=[])

    def refused(index: int, error: KafkaError, message: str) -> Any:
        return schema.PartitionResult(partition=index, error_code=error.code, error_message=message, **otherwise)

    def one(topic_id: UUID, entry: Any) -> Any:
        try:
            return answer(topic_id, entry)
        except (CoordinatorLoadInProgress, NotCoordinator) as error:
            return refused(entry.partition, error, f"Unable to {doing}: {error}")
        except KafkaError as error:
            return refused(entry.partition, error, str(error))

    response = schema.Response(
        results=[
            schema.TopicResult(topic_id=topic.topic_id, partitions=[one(topic.topic_id, entry) for entry in topic.partitions])
            for topic in request.topics
        ]
    )
    logs = ctx.broker.coordinators.share_persister.take_unsynced()
    if not logs:
        return response

    def synced(failures: FlushFailures) -> Any:
        if any(log in failures for log in logs):
            raise NotCoordinator
        return response

    return when_done(lambda done: ctx.broker.flush_queue.flush(logs, done), synced)
