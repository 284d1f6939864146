"""What the five APIs of the share coordinator have in common: brokers send it states of share partitions.

With an empty group id, no topics, or a topic without partitions the response is empty. Otherwise each partition has a result, in the order
of the request. The response is sent when all is in the log of `__share_group_state`, and synced where required.

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

Answer = Callable[[UUID, Any], Any]  #: topic id and partition of the request -> partition result; raises KafkaError


def each_partition(ctx: RequestContext, schema: Any, request: Any, answer: Answer, *, doing: str, **otherwise: Any) -> Any | Delayed:
    """Return the response with one result for each partition.

    `doing` is the phrase for error messages if there is no log, `otherwise` has the other fields of a rejected partition.
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
