"""DeleteTopics, API key 20: delete topics with all their records.

v1  throttle_time_ms
v2  answer carries throttle_time_ms before the quota delay, not after it
v3  TOPIC_DELETION_DISABLED may be answered (KIP-322)
v4  flexible
v5  error_message; THROTTLING_QUOTA_EXCEEDED may be answered (KIP-599)
v6  topics, by name or by topic_id, replace topic_names (KIP-516)
"""

from __future__ import annotations

from minibroker.wire.authorization import Special
from minibroker.wire.routing import Controller
from minibroker.wire.schema import NIL_UUID, Int16, Int32, String, TopicId, TopicName, field, struct

API_KEY = 20
VERSIONS = (1, 6)
ROUTED_BY = Controller()
AUTHORIZES = (Special("DELETE of the cluster, or of each topic; DESCRIBE for its name"),)
FLEXIBLE_SINCE = 4


@struct
class Topic:
    name: TopicName | None = field(default=None)  #: either a name, or null and
    topic_id: TopicId  #: a topic_id other than zero


@struct
class Request:
    topics: list[Topic] = field(since=6, default=())
    topic_names: list[TopicName] = field(until=5, default=())
    timeout_ms: Int32


@struct
class TopicResult:
    name: TopicName | None = field(nullable=6)  #: null for a topic_id that is not known or not to be seen
    topic_id: TopicId = field(since=6, default=NIL_UUID)
    error_code: Int16
    error_message: String | None = field(since=5, default=None)


@struct
class Response:
    throttle_time_ms: Int32 = field(default=0)
    responses: list[TopicResult]
