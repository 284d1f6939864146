"""ShareGroupDescribe, API key 77: state, members and assignments of share groups (KIP-932).

v1  the first stable version, flexible; v0 was Kafka 4.0's early access
"""

from __future__ import annotations

from minibroker.wire.authorization import Special
from minibroker.wire.routing import CoordinatorOfEach, CoordinatorType
from minibroker.wire.schema import Bool, Int16, Int32, String, Uuid, field, struct

API_KEY = 77
VERSIONS = (1, 1)
ROUTED_BY = CoordinatorOfEach(CoordinatorType.GROUP, keys="group_ids", results="groups")
AUTHORIZES = (Special("DESCRIBE of each group, and of the topics of its members"),)
FLEXIBLE_SINCE = 0


@struct
class Request:
    group_ids: list[String]
    include_authorized_operations: Bool


@struct
class TopicPartitions:
    topic_id: Uuid
    topic_name: String
    partitions: list[Int32]


@struct
class Assignment:
    topic_partitions: list[TopicPartitions]


@struct
class Member:
    member_id: String
    rack_id: String | None = field(default=None)
    member_epoch: Int32
    client_id: String
    client_host: String  #: "/127.0.0.1"
    subscribed_topic_names: list[String]
    assignment: Assignment


@struct
class Group:
    error_code: Int16
    error_message: String | None = field(default=None)
    group_id: String
    group_state: String  #: "Empty", "Stable", "Dead"
    group_epoch: Int32
    assignment_epoch: Int32
    assignor_name: String
    members: list[Member]
    authorized_operations: Int32 = field(default=-(2**31))  #: bit n is AclOperation n; the default: not requested


@struct
class Response:
    throttle_time_ms: Int32 = field(default=0)
    groups: list[Group]
