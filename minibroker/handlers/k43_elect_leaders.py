"""ElectLeaders (key 43): make the preferred replica (type 0), or any replica that is alive (type 1), leader of its partitions.

Versions: 0 to 2; 1 adds the type, 2 is flexible. INVALID_REQUEST for each partition: the type is
neither 0 nor 1. One broker leads all its partitions: ELECTION_NOT_NEEDED. Several simulated brokers
elect leaders (`Leadership`). Null topics request all partitions. The response has each topic, with
only those partitions that got a leader or have none. A partition has no leader if its log directory
is offline (PREFERRED_LEADER_NOT_AVAILABLE or ELIGIBLE_LEADERS_NOT_AVAILABLE). With one broker, a
partition of a directory from a larger Apache Kafka cluster has no leader if its first replica is
another node. `timeout_ms` is not used.
"""

from __future__ import annotations

from typing import Final

from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.delayed import Delayed
from minibroker.dispatch.pieces import MergedResponse, Pieces
from minibroker.dispatch.registry import handles
from minibroker.dispatch.slices import Steps
from minibroker.errors import (
    ElectionNotNeeded,
    InvalidRequest,
    KafkaError,
    UnknownTopicOrPartition,
)
from minibroker.schemas import k43_elect_leaders as schema

PREFERRED: Final = 0
UNCLEAN: Final = 1


_PIECES: Final = Pieces("topic_partitions.partitions", "replica_election_results.partition_result")


@handles(schema, _PIECES)
def elect_leaders(ctx: RequestContext, request: schema.Request) -> schema.Response | Delayed:
    """Elect a leader of each partition in the request, or of all partitions."""
    if request.election_type not in {PREFERRED, UNCLEAN}:
        raise InvalidRequest(f"Unknown election type {request.election_type}")
    if request.topic_partitions is None:
        return ctx.broker.slices.run(_elect_all(ctx, request))
    elections = [
        (each.topic, [_outcome(ctx, request, each.topic, index) for index in each.partitions]) for each in request.topic_partitions
    ]
    return _answer(0, elections)


def _elect_all(ctx: RequestContext, request: schema.Request) -> Steps:
    """Elect leaders of all current topics, except those that are deleted during a pause."""
    merged = MergedResponse(_PIECES, ctx.api_version, flexible=ctx.api_version >= schema.FLEXIBLE_SINCE)
    merged.add(_answer(0, []), 0)
    for name in list(ctx.cluster.topics):
        topic = ctx.cluster.topics.get(name)
        if topic is None:
            continue
        elected: list[tuple[int, KafkaError | None]] = []
        for index in range(len(topic.partitions)):
            outcome = _outcome(ctx, request, name, index)
            if not isinstance(outcome[1], ElectionNotNeeded):
                elected.append(outcome)
            if index % _PIECES.size == _PIECES.size - 1:
                yield None
        merged.add(_answer(0, [(name, elected)]), 0)
        yield None
    response: schema.Response = merged.response()
    return response


def on_error(_ctx: RequestContext, request: schema.Request, error: KafkaError) -> schema.Response:
    """Return `error` for each partition in the request."""
    return _answer(error.code, [(each.topic, [(index, error) for index in each.partitions]) for each in request.topic_partitions or ()])


def _outcome(ctx: RequestContext, request: schema.Request, topic: str, index: int) -> tuple[int, KafkaError | None]:
    """Elect a leader. Returns the partition with the error, or None on success."""
    found = ctx.cluster.topics.get(topic)
    if found is None:
        return index, UnknownTopicOrPartition(f"No such topic as {topic}")
    if not 0 <= index < len(found.partitions):
        return index, UnknownTopicOrPartition(f"No such partition as {topic}-{index}")
    partition = found.partitions[index]
    leadership = ctx.cluster.leadership
    try:
        if request.election_type == UNCLEAN:
            leadership.elect_unclean(partition)
        else:
            leadership.elect_preferred(partition)
    except KafkaError as error:
        return index, error.with_traceback(None)
    return index, None


def _answer(error_code: int, outcomes: list[tuple[str, list[tuple[int, KafkaError | None]]]]) -> schema.Response:
    return schema.Response(
        error_code=error_code,
        replica_election_results=[
            schema.TopicResult(
                topic=topic,
                partition_result=[
                    schema.PartitionResult(
                        partition_id=index, error_code=error.code if error else 0, error_message=str(error) if error else None
                    )
                    for index, error in results
                ],
            )
            for topic, results in outcomes
        ],
    )
