"""AddOffsetsToTxn, API key 25: a group whose offsets a transaction is about to commit.

v0  clients of Kafka 4 at transaction.version 2 do not send it, TxnOffsetCommit adds the group itself (KIP-890)
v1  answer carries throttle_time_ms before the quota delay, not after it
v2  PRODUCER_FENCED may be answered (KIP-588)
v3  flexible
v4  TRANSACTION_ABORTABLE may be answered (KIP-890)
"""

from __future__ import annotations

from minibroker.wire.authorization import OnGroup, OnTransactionalId, Operation
from minibroker.wire.routing import Coordinator, CoordinatorType
from minibroker.wire.schema import Int16, Int32, Int64, String, field, struct

API_KEY = 25
VERSIONS = (0, 4)
ROUTED_BY = Coordinator(CoordinatorType.TRANSACTION, key="transactional_id")
AUTHORIZES = (OnTransactionalId(Operation.WRITE), OnGroup(Operation.READ))
FLEXIBLE_SINCE = 3


@struct
class Request:
    transactional_id: String
    producer_id: Int64
    producer_epoch: Int16
    group_id: String


@struct
class Response:
    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16
