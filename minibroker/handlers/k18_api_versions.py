"""ApiVersions (key 18): what this broker serves, asked first on most connections.

Versions: 0 to 4; 3 is flexible. A version beyond that is answered by the dispatcher (error 35, layout of version 0).
From version 3 the client names its software; a name that is not letters, digits, dots and dashes is INVALID_REQUEST.
Produce is listed from 0, as Apache Kafka 4 lists it (KAFKA-18659), though 3 is the lowest that is served: librdkafka looks for
Produce 0 before it compresses, and would silently send gzip and snappy uncompressed. A client takes the highest common version.
Features: `metadata.version` alone, the one whose APIs are all served. Finalized features are acted upon by clients: one
that stands for API versions that we lack (transaction.version, group.version, share.version) would break them.
"""

from __future__ import annotations

import re
from typing import Final

from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.registry import handles
from minibroker.errors import InvalidRequest
from minibroker.schemas import k18_api_versions as schema
from minibroker.wire.api import Api

METADATA_VERSION: Final = "metadata.version"
METADATA_VERSION_MIN: Final = 7  #: 3.3-IV3, the oldest that Kafka 4 supports
METADATA_VERSION_LEVEL: Final = 30  #: 4.3-IV0

_PRODUCE: Final = 0

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")  #: as in Kafka's ApiVersionsRequest.isValid

_SUPPORTED = schema.SupportedFeature(name=METADATA_VERSION, min_version=METADATA_VERSION_MIN, max_version=METADATA_VERSION_LEVEL)
_FINALIZED = schema.FinalizedFeature(
    name=METADATA_VERSION, max_version_level=METADATA_VERSION_LEVEL, min_version_level=METADATA_VERSION_LEVEL
)


@handles(schema)
def api_versions(ctx: RequestContext, request: schema.Request) -> schema.Response:
    """List every registered API with its range."""
    if ctx.api_version >= 3:
        if not (_SOFTWARE.fullmatch(request.client_software_name) and _SOFTWARE.fullmatch(request.client_software_version)):
            return schema.Response(error_code=InvalidRequest.code, api_keys=[])
        ctx.connection.client_software_name = request.client_software_name
        ctx.connection.client_software_version = request.client_software_version
    return schema.Response(
        error_code=0,
        api_keys=[
            schema.ApiVersion(api_key=api.key, min_version=_advertised_min(api), max_version=api.max_version) for api in ctx.registry.apis()
        ],
        supported_features=[_SUPPORTED],
        finalized_features_epoch=ctx.cluster.metadata_offset,
        finalized_features=[_FINALIZED],
    )


def _advertised_min(api: Api) -> int:
    return 0 if api.key == _PRODUCE else api.min_version
