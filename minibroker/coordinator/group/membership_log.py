"""Log lines about groups: one line (INFO) for each generation or epoch, with the members that joined and left.

group billing: generation 4, members: 2; joined: rdkafka-6f… (rdkafka at 127.0.0.1)
group billing: epoch 7, members: 1; gone: 1nwyHDkRTHqFEcT
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, Protocol

from minibroker.storage.record_frame import CoordinatorRecord

NAMED: Final = 10  #: a line names so many members at most

_LOG = logging.getLogger(__name__)


class Who(Protocol):
    """A member."""

    @property
    def client_id(self) -> str:
        """The client id that it sent."""

    @property
    def client_host(self) -> str:
        """The address of the client."""


class Membered(Protocol):
    """The image of a group with epochs."""

    @property
    def epoch(self) -> int:
        """The epoch of the group."""

    @property
    def members(self) -> Mapping[str, Who]:
        """By member id."""


def is_logged() -> bool:
    """Whether the lines are logged at all: if not, callers need not remember the members before a change."""
    return _LOG.isEnabledFor(logging.INFO)


def log_members(group_id: str, what: str, before: Collection[str], members: Mapping[str, Who]) -> None:
    """Log one line. `what` is the generation or epoch, `before` has the member ids before it."""
    joined = [
        f"{member_id} ({who.client_id} at {who.client_host.removeprefix('/')})"
        for member_id, who in members.items()
        if member_id not in before
    ]
    gone = [member_id for member_id in before if member_id not in members]
    _LOG.info("group %s: %s, members: %d%s%s", group_id, what, len(members), _named("joined", joined), _named("gone", gone))


def with_log_lines(
    group_id: str, image: Membered, persist: Callable[[Sequence[CoordinatorRecord]], None]
) -> Callable[[Sequence[CoordinatorRecord]], None]:
    """Return `persist`, followed by a log line if the records change the epoch or the members of `image`."""

    def persist_and_log(records: Sequence[CoordinatorRecord]) -> None:
        if not is_logged():
            persist(records)
            return
        epoch, before = image.epoch, dict.fromkeys(image.members)
        persist(records)
        if before and not image.members and image.epoch <= epoch:  # when members leave, the epoch grows
            _LOG.info("group %s: it goes on as a classic group", group_id)
        elif (image.epoch, image.members.keys()) != (epoch, before.keys()):
            log_members(group_id, f"epoch {image.epoch}", before, image.members)

    return persist_and_log


def _named(how: str, members: list[str]) -> str:
    if not members:
        return ""
    more = f" and {len(members) - NAMED} more" if len(members) > NAMED else ""
    return f"; {how}: {', '.join(members[:NAMED])}{more}"
