"""DeleteTopics (key 20): topics by name, from version 6 also by id; the name is free when this answers.

Versions: 1 to 6; 4 is flexible, 5 answers with a message, 6 takes ids.
A topic that is asked for twice, or by name and id at once, is refused. Waiting fetches of its partitions are answered.
`timeout_ms` is never used: the answer is final, only the files go later.
"""

from __future__ import annotations

from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.registry import handles
from minibroker.errors import InvalidRequest, KafkaError, TopicDeletionDisabled, UnknownTopicId
from minibroker.schemas import k20_delete_topics as schema
from minibroker.wire.schema import NIL_UUID

BY_ID_SINCE = 6
DISABLED_SINCE = 3  #: versions below do not know TOPIC_DELETION_DISABLED


@handles(schema)
def delete_topics(ctx: RequestContext, request: schema.Request) -> schema.Response:
    """Answer each name or id once."""
    if not ctx.config.delete_topic_enable:
        raise TopicDeletionDisabled if ctx.api_version >= DISABLED_SINCE else InvalidRequest("Topic deletion is disabled.")
    wanted = request.topics
    if ctx.api_version < BY_ID_SINCE:
        wanted = [schema.Topic(name=name, topic_id=NIL_UUID) for name in request.topic_names]
    keys = [(topic.name, topic.topic_id) for topic in wanted]
    return schema.Response(
        responses=[_delete(ctx, topic, is_single=keys.count(key) == 1) for key, topic in dict(zip(keys, wanted, strict=True)).items()]
    )


def _delete(ctx: RequestContext, wanted: schema.Topic, *, is_single: bool) -> schema.TopicResult:
    name, topic_id = wanted.name, wanted.topic_id
    try:
        if name is not None and topic_id != NIL_UUID:
            raise InvalidRequest("You may not specify both topic name and topic id.")
        if name is None and topic_id == NIL_UUID:
            raise InvalidRequest("Neither topic name nor id were specified.")
        if not is_single:
            raise InvalidRequest("Duplicate topic id." if name is None else "Duplicate topic name.")
        topic = ctx.cluster.topic_by_id(topic_id) if name is None else ctx.cluster.topic(name)
        ctx.cluster.delete_topic(topic.name)
    except UnknownTopicId as error:
        return schema.TopicResult(name=None, topic_id=topic_id, error_code=error.code, error_message=str(error))
    except KafkaError as error:
        return schema.TopicResult(name=name, topic_id=topic_id, error_code=error.code, error_message=str(error))
    return schema.TopicResult(name=topic.name, topic_id=topic.topic_id, error_code=0, error_message=None)
