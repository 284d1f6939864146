"""Consumer groups among the kinds of groups (../kinds.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from minibroker.coordinator.group.consumer.group import Limits
from minibroker.coordinator.group.consumer.image import GroupImage
from minibroker.coordinator.group.consumer.migration import ClassicHeirs, Migration
from minibroker.coordinator.group.consumer.mixed_group import MixedGroup
from minibroker.coordinator.group.kinds import Kind, Persist

if TYPE_CHECKING:
    from minibroker.config.broker_config import BrokerConfig
    from minibroker.coordinator.group.live_groups import LiveGroups


def _make(groups: LiveGroups, group_id: str, image: GroupImage, persist: Persist) -> MixedGroup:
    def limits() -> Limits:
        own = groups.cluster.group_config(group_id)
        return Limits(
            groups.config.group_consumer_max_size,
            own.consumer_session_timeout_ms,
            own.consumer_heartbeat_interval_ms,
            own.consumer_assignment_interval_ms,
            groups.config.group_consumer_assignors,
        )

    def downgraded(heirs: ClassicHeirs) -> None:
        groups.take_over(group_id, heirs.members, must_rebalance=heirs.must_rebalance)

    return MixedGroup(
        group_id,
        clock=groups.clock,
        topics=groups.topics,
        persist=persist,
        limits=limits,
        image=image,
        migration=lambda: migration_of(groups.config),
        downgraded=downgraded,
    )


def migration_of(config: BrokerConfig) -> Migration:
    """What the configuration says of upgrade and downgrade."""
    return Migration(config.group_consumer_migration_policy.lower(), config.group_max_size)  # written in any case


KIND: Final = Kind(GroupImage, _make)
