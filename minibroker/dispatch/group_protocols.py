"""Check whether the newer protocols of groups are served: the cluster must have finalized their feature.

Source: KafkaApis.isConsumerGroupProtocolEnabled of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from typing import Final

from minibroker.cluster.metadata.features import GROUP_VERSION_FEATURE, SHARE_VERSION_FEATURE, STREAMS_VERSION_FEATURE
from minibroker.dispatch.context import RequestContext
from minibroker.errors import UnsupportedVersion

#: protocol, as group.coordinator.rebalance.protocols has it -> feature
_FEATURES: Final = {"consumer": GROUP_VERSION_FEATURE, "streams": STREAMS_VERSION_FEATURE}


def check_protocol(ctx: RequestContext, protocol: str) -> None:
    """Raise UnsupportedVersion if groups of a protocol ("consumer", "streams") are not served."""
    if not ctx.cluster.feature_level(_FEATURES[protocol]) or protocol not in ctx.broker.config.group_coordinator_rebalance_protocols:
        raise UnsupportedVersion


def check_share_groups(ctx: RequestContext) -> None:
    """Raise UnsupportedVersion if share groups are not served. No property of the broker forbids them."""
    if not ctx.cluster.feature_level(SHARE_VERSION_FEATURE):
        raise UnsupportedVersion
