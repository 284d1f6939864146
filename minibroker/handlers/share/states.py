"""What the five APIs of the share coordinator have in common: brokers ask it for states of share partitions, one by one.

An empty group id, no topics, or a topic without partitions: the whole answer is empty. Everything else is answered partition by partition,
in the order of the request, when it is in the log of `__share_group_state`, and synced where that is asked for.

Source: ShareCoordinatorService of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.delayed import Delayed, when_done
from minibroker.dispatch.flush import FlushFailures
from minibroker.errors import CoordinatorLoadInProgress, KafkaError, NotCoordinator

Answer = Callable[[UUID, Any], Any]  #: topic id and partition of the request -> partition result; KafkaError


def each_partition(ctx: RequestContext, schema: Any, request: Any, answer: Answer, *, doing: str, **otherwise: Any) -> Any | Delayed:
    """The response, one partition result for each that is asked for.

    `doing` says in a few words what went wrong where a log is not there, `otherwise` what the other fields of a refused partition are.
    """
    if not request.group_id or not all(topic.partitions for topic in request.topics):
        return schema.Response(results=[])

    def refused(index: int, error: KafkaError, message: str) -> Any:
        return schema.PartitionResult(partition=index, error_code=error.code, error_message=message, **otherwise)

    def one(topic_id: UUID, asked: Any) -> Any:
        try:
            return answer(topic_id, asked)
        except (CoordinatorLoadInProgress, NotCoordinator) as error:
            return refused(asked.partition, error, f"Unable to {doing}: {error}")
        except KafkaError as error:
            return refused(asked.partition, error, str(error))

    response = schema.Response(
        results=[
            schema.TopicResult(topic_id=topic.topic_id, partitions=[one(topic.topic_id, asked) for asked in topic.partitions])
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
