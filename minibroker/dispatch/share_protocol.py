"""Whether share groups are served: a cluster must have finalized share.version, as a new one has."""

from __future__ import annotations

from typing import Final

from minibroker.cluster.features import SHARE_VERSION_FEATURE
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
