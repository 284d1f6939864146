"""UpdateFeatures, API key 57: finalize features of the cluster at other levels (KIP-584).

v0  flexible from the start
v1  validate_only, upgrade_type instead of allow_downgrade (KIP-778)
v2  no results of single features any more: all are updated or none
"""

from __future__ import annotations

from minibroker.wire.authorization import OnCluster, Operation
from minibroker.wire.routing import Controller
from minibroker.wire.schema import Bool, Int8, Int16, Int32, String, field, struct

API_KEY = 57
VERSIONS = (0, 2)
ROUTED_BY = Controller()
AUTHORIZES = (OnCluster((Operation.ALTER,)),)
FLEXIBLE_SINCE = 0


@struct
class FeatureUpdate:
    """Kafka's name is FeatureUpdateKey."""

    feature: String
    max_version_level: Int16  #: below 1: finalize it no longer
    allow_downgrade: Bool = field(until=0, default=False)
    upgrade_type: Int8 = field(since=1, default=1)  #: 1 upgrade, 2 safe downgrade, 3 unsafe downgrade


@struct
class Request:
    timeout_ms: Int32 = field(default=60000)
    feature_updates: list[FeatureUpdate]
    validate_only: Bool = field(since=1, default=False)


@struct
class Result:
    """Up to v1."""

    feature: String
    error_code: Int16
    error_message: String | None


@struct
class Response:
    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16
    error_message: String | None
    results: list[Result] = field(until=1, default=())
