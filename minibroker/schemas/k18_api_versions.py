"""ApiVersions, API key 18: the APIs that the broker serves; the first request on most connections.

v1  throttle_time_ms
v2  answer carries throttle_time_ms before the quota delay, not after it
v3  flexible; the client sends its name, the broker its features (KIP-511, KIP-584)
v4  a feature's min_version may be 0; below v4 such a feature is left out (KAFKA-17011)

Two rules of its own, since it is sent before the versions are known (KIP-511): the response header is version 0 at every
version, and a version that the broker does not know is answered with UNSUPPORTED_VERSION in the v0 layout.
"""

from __future__ import annotations

from minibroker.wire.authorization import UNRESTRICTED
from minibroker.wire.routing import AnyBroker
from minibroker.wire.schema import Bool, Int16, Int32, Int64, String, field, struct

API_KEY = 18
VERSIONS = (0, 4)
ROUTED_BY = AnyBroker()
AUTHORIZES = UNRESTRICTED
FLEXIBLE_SINCE = 3


@struct
class Request:
    client_software_name: String = field(since=3, default="")  #: letters, digits, dots and dashes, or INVALID_REQUEST
    client_software_version: String = field(since=3, default="")


@struct
class ApiVersion:
    api_key: Int16
    min_version: Int16
    max_version: Int16


@struct
class SupportedFeature:
    name: String
    min_version: Int16
    max_version: Int16


@struct
class FinalizedFeature:
    name: String
    max_version_level: Int16
    min_version_level: Int16


@struct
class Response:
    error_code: Int16
    api_keys: list[ApiVersion]
    throttle_time_ms: Int32 = field(since=1, default=0)
    supported_features: list[SupportedFeature] = field(since=3, tag=0, default=())
    finalized_features_epoch: Int64 = field(since=3, tag=1, default=-1)  #: -1 unknown: finalized_features mean nothing then
    finalized_features: list[FinalizedFeature] = field(since=3, tag=2, default=())  #: clients act upon these
    zk_migration_ready: Bool = field(since=3, tag=3, default=False)
