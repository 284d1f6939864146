"""UpdateFeatures (key 57): finalize features at other levels (KIP-584, KIP-778).

Versions: 0 to 2; all flexible; 1 adds validate_only and upgrade_type, 2 drops the results of single
features. All features are updated or none. The first invalid one is returned as
INVALID_UPDATE_VERSION of the whole request. For the levels see cluster/metadata/features.py. A new
level applies from the next request on; clients learn it from ApiVersions. As in Apache Kafka 4.3.1,
allow_downgrade of version 0 has no effect, and the message of each successful update is "NONE".
Even an unsafe downgrade cannot set metadata.version below a version that changed the records of the
metadata log. kraft.version 1 is a control record of the metadata log and cannot be downgraded.
`timeout_ms` is not used.
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
    """Update the features. The response is sent when the levels are on the disk."""
    updates = [FeatureUpdate(each.feature, each.max_version_level, each.upgrade_type) for each in request.feature_updates]
    ctx.cluster.update_features(updates, validate_only=request.validate_only)
    results = [schema.Result(feature=each.name, error_code=0, error_message="NONE") for each in updates]
    return schema.Response(error_code=0, error_message=None, results=results if ctx.api_version <= RESULTS_UNTIL else [])
