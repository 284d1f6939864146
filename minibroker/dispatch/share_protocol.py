"""Whether share groups are served: a cluster must have finalized share.version, as a new one has."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from minibroker.cluster.metadata.features import SHARE_VERSION_FEATURE
from minibroker.config.request_limits import SHARE_PARTITIONS_MAX
from minibroker.dispatch.context import RequestContext
from minibroker.errors import InvalidRequest, UnsupportedVersion

MAX_MEMBER_ID_LENGTH: Final = 36


def check_served(ctx: RequestContext) -> None:
    """UnsupportedVersion."""
    if not ctx.cluster.feature_level(SHARE_VERSION_FEATURE):
        raise UnsupportedVersion


def check_member_id(member_id: str | None) -> None:
    """A member chooses its id itself, but not any: InvalidRequest."""
    if not member_id or len(member_id) > MAX_MEMBER_ID_LENGTH:
        raise InvalidRequest("Invalid member id in the request.")


def check_size(topics: Iterable[Any]) -> None:
    """Refuse a request of too many topics and partitions: InvalidRequest."""
    if sum(1 + len(topic.partitions) for topic in topics) > SHARE_PARTITIONS_MAX:
        raise InvalidRequest(f"A request may have {SHARE_PARTITIONS_MAX} topics and partitions at most.")
