"""UpdateFeatures (key 57): finalize features at other levels (KIP-584, KIP-778).

Versions: 0 to 2; all flexible; 1 has validate_only and upgrade_type, 2 has no results of single features any more.
All features are updated or none: the first one that may not be is told as INVALID_UPDATE_VERSION of the whole request. Which levels there
are: cluster/metadata/features.py. A new level holds from the next request on; a client acts upon it when it asks ApiVersions again.
As in Apache Kafka 4.3.1, allow_downgrade of version 0 allows nothing, the message of each update that went well is "NONE", and
metadata.version cannot go below one that changed the records of the metadata log, not even by an unsafe downgrade.
kraft.version 1 is a control record of the metadata log; no downgrade leads below it.
`timeout_ms` is never used.
"""

from __future__ import annotations

from typing import Final

from minibroker.cluster.metadata.features import FeatureUpdate
from minibroker.config.request_limits import FEATURE_UPDATES_MAX
from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.pieces import ElementLimit
from minibroker.dispatch.registry import handles
from minibroker.schemas import k57_update_features as schema

RESULTS_UNTIL: Final = 1


@handles(schema, limit=ElementLimit(FEATURE_UPDATES_MAX))
def update_features(ctx: RequestContext, request: schema.Request) -> schema.Response:
    """Answer when the levels are on the disk."""
    updates = [FeatureUpdate(each.feature, each.max_version_level, each.upgrade_type) for each in request.feature_updates]
    ctx.cluster.update_features(updates, validate_only=request.validate_only)
    results = [schema.Result(feature=each.name, error_code=0, error_message="NONE") for each in updates]
    return schema.Response(error_code=0, error_message=None, results=results if ctx.api_version <= RESULTS_UNTIL else [])
