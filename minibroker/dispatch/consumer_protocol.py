"""Whether the newer protocols of groups are served: the cluster must have finalized the feature, and the broker must not forbid it.

Source: KafkaApis.isConsumerGroupProtocolEnabled of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from typing import Final

from minibroker.cluster.metadata.features import GROUP_VERSION_FEATURE
from minibroker.dispatch.context import RequestContext
from minibroker.errors import UnsupportedVersion

CONSUMER: Final = "consumer"  #: as group.coordinator.rebalance.protocols has it


def check_served(ctx: RequestContext, feature: str = GROUP_VERSION_FEATURE, protocol: str = CONSUMER) -> None:
    """UnsupportedVersion where groups of that protocol are not served."""
    if not ctx.cluster.feature_level(feature) or protocol not in ctx.broker.config.group_coordinator_rebalance_protocols:
        raise UnsupportedVersion
