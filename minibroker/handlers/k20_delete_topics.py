"""DeleteTopics (key 20): delete topics by name, from version 6 on also by id.

Names can be reused when the response is sent.

Versions: 1 to 6; 4 is flexible, 5 returns messages, 6 takes ids. A repeated name or id is rejected
and has one result. The same applies to a topic that is requested both by name and by id. Internal
topics may be deleted, as in Apache Kafka. With delete.topic.enable=false all are
TOPIC_DELETION_DISABLED (INVALID_REQUEST below version 3). Results are in the order of the request.
(Kafka shuffles them to hide which names exist.) Only the files are deleted after the response, so
`timeout_ms` is not used.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final
from uuid import UUID

from minibroker.cluster.cluster import Charge
from minibroker.cluster.metadata.frame import Steps
from minibroker.cluster.topic import Topic
from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.pieces import Pieces
from minibroker.dispatch.registry import handles
from minibroker.errors import InvalidRequest, KafkaError, TopicDeletionDisabled
from minibroker.schemas import k20_delete_topics as schema
from minibroker.wire.schema import NIL_UUID

BY_ID_SINCE: Final = 6
STRICT_SINCE: Final = 5  #: lower versions do not have THROTTLING_QUOTA_EXCEEDED
DISABLED_SINCE: Final = 3  #: lower versions do not have TOPIC_DELETION_DISABLED
STEP_PARTITIONS: Final = 500  #: partitions of the topics deleted in one step, unless one topic has more

Key = tuple[str | None, UUID]  #: name and topic_id of the request
Found = tuple[Topic | None, KafkaError | None]  #: the topic if it exists, and the error if it cannot be deleted


def _topic_of(ctx: RequestContext, entry: schema.Topic) -> object:
    """Return a key that is the same for a topic's name and its id."""
    if entry.topic_id != NIL_UUID:
        return entry.topic_id
    topic = None if entry.name is None else ctx.cluster.topics.get(entry.name)
    return entry.name if topic is None else topic.topic_id


_PIECES: Final = (
    Pieces("topics", "responses", size=500, key=_topic_of),
    Pieces("topic_names", "responses", size=500, key=lambda _ctx, name: name),
)


@handles(schema, *_PIECES)
def delete_topics(ctx: RequestContext, request: schema.Request) -> Any:
    """Delete the topics. Returns Delayed if they have many partitions."""
    return ctx.broker.slices.run(_delete_topics(ctx, request))


def _delete_topics(ctx: RequestContext, request: schema.Request) -> Steps[schema.Response]:
    """Delete each topic. A failed one does not stop the others."""
    if not ctx.broker.config.delete_topic_enable:
        raise TopicDeletionDisabled if ctx.api_version >= DISABLED_SINCE else InvalidRequest("Topic deletion is disabled.")
    counts: dict[Key, int] = {}
    for key in _keys(ctx, request):
        counts[key] = counts.get(key, 0) + 1
    named_and_identified = _named_and_identified(ctx, counts)
    charge = ctx.charge_mutations(is_strict=ctx.api_version >= STRICT_SINCE)
    found: dict[Key, Found] = {}
    step: dict[Key, Topic] = {}  # topics that are deleted together
    partition_count = 0
    for key, count in counts.items():
        if key[0] is None and key[1] in named_and_identified:
            continue
        topic, error = found[key] = _find(ctx, key, count, named_and_identified, charge)
        if topic is not None and error is None:
            step[key] = topic
            partition_count += len(topic.partitions)
        if partition_count >= STEP_PARTITIONS:
            found.update(_delete(ctx, step))
            step, partition_count = {}, 0
            yield
    found.update(_delete(ctx, step))
    return schema.Response(responses=[_result(key, topic, error) for key, (topic, error) in found.items()])


def _delete(ctx: RequestContext, topics: dict[Key, Topic]) -> dict[Key, Found]:
    """Delete topics with one fsync. Returns the outcome of each."""
    try:
        ctx.cluster.delete_topics(list(topics.values()))
    except KafkaError as error:
        failed = error.with_traceback(None)  # a traceback would keep `topics` alive
        return {key: (topic, failed) for key, topic in topics.items()}
    return {key: (topic, None) for key, topic in topics.items()}


def _keys(ctx: RequestContext, request: schema.Request) -> list[Key]:
    if ctx.api_version >= BY_ID_SINCE:
        return [(topic.name, topic.topic_id) for topic in request.topics]
    return [(name, NIL_UUID) for name in request.topic_names]


def _named_and_identified(ctx: RequestContext, keys: Iterable[Key]) -> set[UUID]:
    """Return the ids of topics that are requested both by name and by id.

    Only their names have results.
    """
    topics = ctx.cluster.topics
    named = {topics[name].topic_id for name, topic_id in keys if topic_id == NIL_UUID and name is not None and name in topics}
    return {topic_id for name, topic_id in keys if name is None and topic_id in named}


def _find(ctx: RequestContext, key: Key, count: int, named_and_identified: set[UUID], charge: Charge) -> Found:
    name, topic_id = key
    topic: Topic | None = None
    try:
        _check(key, count)
        topic = ctx.cluster.topic_by_id(topic_id) if name is None else ctx.cluster.topic(name)
        if topic.topic_id in named_and_identified:
            raise InvalidRequest("The provided topic name maps to an ID that was already supplied.")
        charge(len(topic.partitions))
    except KafkaError as error:
        return topic, error
    return topic, None


def _result(key: Key, topic: Topic | None, error: KafkaError | None) -> schema.TopicResult:
    name, topic_id = key if topic is None else (topic.name, topic.topic_id)
    if error is None:
        return schema.TopicResult(name=name, topic_id=topic_id, error_code=0)
    return schema.TopicResult(name=name, topic_id=topic_id, error_code=error.code, error_message=str(error))


def _check(key: Key, count: int) -> None:
    """Check that a topic has either a name or an id, and is not repeated."""
    name, topic_id = key
    if name is not None and topic_id != NIL_UUID:
        raise InvalidRequest("You may not specify both topic name and topic id.")
    if name is None and topic_id == NIL_UUID:
        raise InvalidRequest("Neither topic name nor id were specified.")
    if count > 1:
        raise InvalidRequest("Duplicate topic id." if name is None else "Duplicate topic name.")
