"""DescribeTransactions, API key 65: the state of transactional ids, from their coordinator (KIP-664).

v0  flexible
"""

from __future__ import annotations

from minibroker.wire.authorization import Special
from minibroker.wire.routing import CoordinatorOfEach, CoordinatorType
from minibroker.wire.schema import Int16, Int32, Int64, String, field, struct

API_KEY = 65
VERSIONS = (0, 0)
ROUTED_BY = CoordinatorOfEach(CoordinatorType.TRANSACTION, keys="transactional_ids", results="transaction_states")
AUTHORIZES = (Special("DESCRIBE of each transactional id; topics without DESCRIBE are left out"),)
FLEXIBLE_SINCE = 0


@struct
class Request:
    transactional_ids: list[String]


@struct
class Topic:
    topic: String
    partitions: list[Int32]


@struct
class TransactionState:
    error_code: Int16
    transactional_id: String
    transaction_state: String  #: in words: Empty, Ongoing, PrepareCommit, ...
    transaction_timeout_ms: Int32
    transaction_start_time_ms: Int64  #: ms since 1970, -1 when none is open
    producer_id: Int64
    producer_epoch: Int16
    topics: list[Topic]


@struct
class Response:
    throttle_time_ms: Int32 = field(default=0)
    transaction_states: list[TransactionState]
