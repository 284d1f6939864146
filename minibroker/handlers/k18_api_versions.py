"""ApiVersions (key 18): what this broker serves, asked first on most connections.

Versions: 0 to 4; 3 is flexible. A version beyond that is answered by the dispatcher (error 35, layout of version 0).
From version 3 the client names its software; a name that is not letters, digits, dots and dashes is INVALID_REQUEST.
Produce, Fetch and ListOffsets are listed, and served, from 0: Apache Kafka 4 dropped the oldest (KIP-896). librdkafka looks for Produce 0
before it compresses, and where it is missing it silently sends gzip and snappy uncompressed.
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

METADATA_VERSION: Final = "metadata.version"
METADATA_VERSION_MIN: Final = 7  #: 3.3-IV3, the oldest that Kafka 4 supports
METADATA_VERSION_LEVEL: Final = 30  #: 4.3-IV0

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
            schema.ApiVersion(api_key=api.key, min_version=api.min_version, max_version=api.max_version) for api in ctx.registry.apis()
        ],
        supported_features=[_SUPPORTED],
        finalized_features_epoch=ctx.cluster.metadata_offset,
        finalized_features=[_FINALIZED],
    )
