"""Log lines about groups: one line (INFO) for each generation or epoch, with the members that joined and left.

group billing: generation 4, members: 2; joined: rdkafka-6f… (rdkafka at 127.0.0.1)
group billing: epoch 7, members: 1; gone: 1nwyHDkRTHqFEcT
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, Protocol

from minibroker.storage.record_frame import CoordinatorRecord

NAMED: Final = 10  #: the most members that a line names

_LOG = logging.getLogger(__name__)


class LoggedMember(Protocol):
    """A member, as the lines show it."""

    @property
    def client_id(self) -> str:
        """The client id that it sent."""

    @property
    def client_host(self) -> str:
        """The address of the client."""


class EpochImage(Protocol):
    """The image of a group with epochs."""

    @property
    def epoch(self) -> int:
        """The epoch of the group."""

    @property
    def members(self) -> Mapping[str, LoggedMember]:
        """By member id."""


def is_logged() -> bool:
    """Whether the lines are logged. If not, callers need not remember the members before a change."""
    return _LOG.isEnabledFor(logging.INFO)


def log_members(group_id: str, generation: str, before: Collection[str], members: Mapping[str, LoggedMember]) -> None:
    """Log one line.

    `generation` names the generation or epoch, `before` has the member ids before it.
    """
    joined = [
        f"{member_id} ({member.client_id} at {member.client_host.removeprefix('/')})"
        for member_id, member in members.items()
        if member_id not in before
    ]
    gone = [member_id for member_id in before if member_id not in members]
    _LOG.info("group %s: %s, members: %d%s%s", group_id, generation, len(members), _named("joined", joined), _named("gone", gone))


def with_log_lines(
    group_id: str, image: EpochImage, persist: Callable[[Sequence[CoordinatorRecord]], None]
) -> Callable[[Sequence[CoordinatorRecord]], None]:
    """Return `persist`, followed by a log line if the records change the epoch or the members of `image`."""

    def persist_and_log(records: Sequence[CoordinatorRecord]) -> None:
        if not is_logged():
            persist(records)
            return
        epoch, before = image.epoch, dict.fromkeys(image.members)
        persist(records)
        if before and not image.members and image.epoch <= epoch:  # when members leave, the epoch grows
            _LOG.info("group %s now uses the classic protocol", group_id)
        elif (image.epoch, image.members.keys()) != (epoch, before.keys()):
            log_members(group_id, f"epoch {image.epoch}", before, image.members)

    return persist_and_log


def _named(change: str, members: list[str]) -> str:
    if not members:
        return ""
    more = f" and {len(members) - NAMED} more" if len(members) > NAMED else ""
    return f"; {change}: {', '.join(members[:NAMED])}{more}"
