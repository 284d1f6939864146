"""Share groups among the kinds of groups (../kinds.py)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from minibroker.coordinator.group.kinds import Kind, Persist
from minibroker.coordinator.group.share.group import Limits, ShareGroup
from minibroker.coordinator.group.share.image import GroupImage

if TYPE_CHECKING:
    from minibroker.coordinator.group.live_groups import LiveGroups


def _make(groups: LiveGroups, group_id: str, image: GroupImage, persist: Persist) -> ShareGroup:
    return ShareGroup(
        group_id,
        clock=groups.clock,
        topics=groups.topics,
        persist=persist,
        states=groups.share_persister(),
        image=image,
        limits=partial(_limits, groups, group_id),
        on_member_gone=partial(_tell_gone, groups, group_id),
        initializes_later=groups.config.minibroker_like_kafka,
    )


def _limits(groups: LiveGroups, group_id: str) -> Limits:
    """As they are now: some of them change while the broker runs."""
    config = groups.cluster.group_config(group_id)
    return Limits(
        max_size=groups.config.group_share_max_size,
        session_timeout_ms=config.share_session_timeout_ms,
        heartbeat_interval_ms=config.share_heartbeat_interval_ms,
        assignment_interval_ms=config.share_assignment_interval_ms,
    )


def _tell_gone(groups: LiveGroups, group_id: str, member_id: str) -> None:
    for hear in groups.on_share_member_gone:
        hear(group_id, member_id)


KIND: Final = Kind(GroupImage, _make)
