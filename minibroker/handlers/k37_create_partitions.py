"""CreatePartitions (key 37): let topics grow to a number of partitions.

Versions: 0 to 3; 2 is flexible. Each topic grows or is refused on its own; a name given twice is refused. New partitions are
ready when this answers. `timeout_ms` is never used.
"""

from __future__ import annotations

from collections import Counter

from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.registry import handles
from minibroker.errors import InvalidRequest, KafkaError, UnknownTopicOrPartition
from minibroker.schemas import k37_create_partitions as schema


@handles(schema)
def create_partitions(ctx: RequestContext, request: schema.Request) -> schema.Response:
    """Answer each name once."""
    counts = Counter(topic.name for topic in request.topics)
    topics = {topic.name: topic for topic in request.topics}
    return schema.Response(
        results=[_grow(ctx, topic, is_single=counts[topic.name] == 1, validate_only=request.validate_only) for topic in topics.values()]
    )


def _grow(ctx: RequestContext, wanted: schema.Topic, *, is_single: bool, validate_only: bool) -> schema.TopicResult:
    assignments = None if wanted.assignments is None else [assignment.broker_ids for assignment in wanted.assignments]
    code, message = 0, None
    try:
        if not is_single:
            raise InvalidRequest("Duplicate topic name.")
        ctx.cluster.create_partitions(wanted.name, wanted.count, assignments=assignments, validate_only=validate_only)
    except UnknownTopicOrPartition as error:
        code = error.code
    except KafkaError as error:
        code, message = error.code, str(error)
    return schema.TopicResult(name=wanted.name, error_code=code, error_message=message)
