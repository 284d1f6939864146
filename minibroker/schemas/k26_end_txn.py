"""EndTxn, API key 26: commit or abort a transaction.

v1  answer carries throttle_time_ms before the quota delay, not after it
v2  PRODUCER_FENCED may be answered (KIP-588)
v3  flexible
v4  TRANSACTION_ABORTABLE may be answered (KIP-890)
v5  the producer epoch grows with each transaction, and the answer returns it (KIP-890, transaction.version 2)
"""

from __future__ import annotations

from minibroker.wire.authorization import OnTransactionalId, Operation
from minibroker.wire.routing import Coordinator, CoordinatorType
from minibroker.wire.schema import Bool, Int16, Int32, Int64, String, field, struct

API_KEY = 26
VERSIONS = (0, 5)
ROUTED_BY = Coordinator(CoordinatorType.TRANSACTION, key="transactional_id")
AUTHORIZES = (OnTransactionalId(Operation.WRITE),)
FLEXIBLE_SINCE = 3


@struct
class Request:
    transactional_id: String
    producer_id: Int64
    producer_epoch: Int16
    committed: Bool  #: False aborts


@struct
class Response:
    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16
    producer_id: Int64 = field(since=5, default=-1)  #: another one where the epoch had no room left
    producer_epoch: Int16 = field(since=5, default=-1)  #: of the next transaction
