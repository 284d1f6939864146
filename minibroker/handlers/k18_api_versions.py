"""ApiVersions (key 18): the APIs and versions that this broker serves.

It is the first request on most connections.

Versions: 0 to 4; 3 is flexible. The dispatcher answers higher versions (error 35 in the layout of
version 0). From version 3 on the client sends the name of its software. INVALID_REQUEST if it has
other characters than letters, digits, dots and dashes. Produce, Fetch and ListOffsets are served
from version 0, although Apache Kafka 4 dropped the oldest versions (KIP-896): librdkafka checks for
Produce 0 before it compresses; without it, it silently sends gzip and snappy batches uncompressed.
Features are those of cluster/metadata/features.py, at the levels of the metadata log. A feature may
only be listed if all its APIs are served, because clients rely on it. Below version 4 features
whose lowest level is 0 are not among the supported ones (KAFKA-17011).
"""

from __future__ import annotations

import re
from typing import Final

from minibroker.cluster.metadata.features import SERVED
from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.registry import handles
from minibroker.errors import InvalidRequest
from minibroker.schemas import k18_api_versions as schema

LEVEL_0_SINCE: Final = 4

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")  #: as in Kafka's ApiVersionsRequest.isValid


@handles(schema)
def api_versions(ctx: RequestContext, request: schema.Request) -> schema.Response:
    """List every registered API with its range."""
    if ctx.api_version >= 3:
        if not (_SOFTWARE.fullmatch(request.client_software_name) and _SOFTWARE.fullmatch(request.client_software_version)):
            return schema.Response(error_code=InvalidRequest.code, api_keys=[])
        ctx.connection.client_software_name = request.client_software_name
        ctx.connection.client_software_version = request.client_software_version
    levels = ctx.cluster.features
    return schema.Response(
        error_code=0,
        api_keys=[
            schema.ApiVersion(api_key=api.key, min_version=api.min_version, max_version=api.max_version)
            for api in ctx.broker.registry.apis()
        ],
        supported_features=[
            schema.SupportedFeature(name=name, min_version=lowest, max_version=highest)
            for name, (lowest, highest) in SERVED.items()
            if lowest > 0 or ctx.api_version >= LEVEL_0_SINCE
        ],
        finalized_features_epoch=ctx.cluster.metadata.last_offset,
        finalized_features=[
            schema.FinalizedFeature(name=name, max_version_level=levels[name], min_version_level=levels[name])
            for name in SERVED
            if name in levels
        ],
    )
