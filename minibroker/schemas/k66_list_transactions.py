"""ListTransactions, API key 66: the transactional ids that a broker coordinates (KIP-664).

v0  flexible
v1  duration_filter (KIP-994)
v2  transactional_id_pattern (KIP-1152)
"""

from __future__ import annotations

from minibroker.wire.authorization import Special
from minibroker.wire.routing import CoordinatorType, EachCoordinator
from minibroker.wire.schema import Int16, Int32, Int64, String, field, struct

API_KEY = 66
VERSIONS = (0, 2)
ROUTED_BY = EachCoordinator(CoordinatorType.TRANSACTION, results="transaction_states", key="transactional_id")
AUTHORIZES = (Special("DESCRIBE of each transactional id; the others are left out"),)
FLEXIBLE_SINCE = 0


@struct
class Request:
    state_filters: list[String]  #: none means all states
    producer_id_filters: list[Int64]  #: none means all producers
    duration_filter: Int64 = field(since=1, default=-1)  #: ms that a transaction must be open at least, below 0 means all
    transactional_id_pattern: String | None = field(since=2, default=None)  #: of RE2/J; null or empty means all


@struct
class TransactionState:
    transactional_id: String
    producer_id: Int64
    transaction_state: String


@struct
class Response:
    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16
    unknown_state_filters: list[String]
    transaction_states: list[TransactionState]
