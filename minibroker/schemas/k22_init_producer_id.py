"""InitProducerId, API key 22: an identity for an idempotent or transactional producer.

v1  answer carries throttle_time_ms before the quota delay, not after it
v2  flexible
v3  producer_id and producer_epoch, so that a producer may bump its own epoch (KIP-360)
v4  PRODUCER_FENCED may be answered (KIP-588)
v5  TRANSACTION_ABORTABLE may be answered (KIP-890)
v6  two-phase commit (KIP-939); Kafka 4.3.1 knows it, calls it unstable and does not serve it, nor do we
"""

from __future__ import annotations

from minibroker.wire.authorization import Special
from minibroker.wire.routing import Coordinator, CoordinatorType
from minibroker.wire.schema import Bool, Int16, Int32, Int64, String, field, struct

API_KEY = 22
VERSIONS = (0, 5)
ROUTED_BY = Coordinator(CoordinatorType.TRANSACTION, key="transactional_id")
AUTHORIZES = (Special("WRITE of the transactional id; IDEMPOTENT_WRITE of the cluster, or WRITE of any topic"),)
FLEXIBLE_SINCE = 2


@struct
class Request:
    transactional_id: String | None  #: null for a producer that is idempotent only
    transaction_timeout_ms: Int32  #: of no meaning without a transactional_id
    producer_id: Int64 = field(since=3, default=-1)  #: the one to go on with, -1 for a new one
    producer_epoch: Int16 = field(since=3, default=-1)
    enable_2pc: Bool = field(since=6, default=False)
    keep_prepared_txn: Bool = field(since=6, default=False)


@struct
class Response:
    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16
    producer_id: Int64 = field(default=-1)
    producer_epoch: Int16
    ongoing_txn_producer_id: Int64 = field(since=6, default=-1)
    ongoing_txn_producer_epoch: Int16 = field(since=6, default=-1)
