"""CreatePartitions, API key 37: raise the number of partitions of topics (KIP-195).

v1  answer carries throttle_time_ms before the quota delay, not after it
v2  flexible
v3  THROTTLING_QUOTA_EXCEEDED may be answered (KIP-599)
"""

from __future__ import annotations

from minibroker.wire.authorization import EachTopic, Operation
from minibroker.wire.routing import Controller
from minibroker.wire.schema import Bool, Int16, Int32, String, TopicName, field, struct

API_KEY = 37
VERSIONS = (0, 3)
ROUTED_BY = Controller()
AUTHORIZES = (EachTopic(Operation.ALTER),)
FLEXIBLE_SINCE = 2


@struct
class Assignment:
    broker_ids: list[Int32]


@struct
class Topic:
    name: TopicName
    count: Int32  #: partitions afterwards, not partitions to add
    assignments: list[Assignment] | None  #: one for each new partition; null: the broker chooses


@struct
class Request:
    topics: list[Topic]
    timeout_ms: Int32
    validate_only: Bool


@struct
class TopicResult:
    name: TopicName
    error_code: Int16
    error_message: String | None = field(default=None)


@struct
class Response:
    throttle_time_ms: Int32 = field(default=0)
    results: list[TopicResult]
