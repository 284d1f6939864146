"""What the broker's log says of groups: one line (INFO) for each generation or epoch, with who came and who is gone.

group billing: generation 4, members: 2; joined: rdkafka-6f… (rdkafka at 127.0.0.1)
group billing: epoch 7, members: 1; gone: 1nwyHDkRTHqFEcT
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, Protocol

from minibroker.coordinator.record_frame import CoordinatorRecord

NAMED: Final = 10  #: of more members only the number is told

_LOG = logging.getLogger(__name__)


class Who(Protocol):
    """A member."""

    @property
    def client_id(self) -> str:
        """As it calls itself."""

    @property
    def client_host(self) -> str:
        """Where it is."""


class Membered(Protocol):
    """The image of a group that has epochs."""

    @property
    def epoch(self) -> int:
        """Of the group."""

    @property
    def members(self) -> Mapping[str, Who]:
        """By member id."""


def is_told() -> bool:
    """Whether anybody wants to know: then who was there before is worth its cost."""
    return _LOG.isEnabledFor(logging.INFO)


def tell(group_id: str, what: str, before: Collection[str], members: Mapping[str, Who]) -> None:
    """`what`: which generation or epoch; `before`: the ids of who was there before."""
    joined = [
        f"{member_id} ({who.client_id} at {who.client_host.removeprefix('/')})"
        for member_id, who in members.items()
        if member_id not in before
    ]
    gone = [member_id for member_id in before if member_id not in members]
    _LOG.info("group %s: %s, members: %d%s%s", group_id, what, len(members), _named("joined", joined), _named("gone", gone))


def telling(
    group_id: str, image: Membered, persist: Callable[[Sequence[CoordinatorRecord]], None]
) -> Callable[[Sequence[CoordinatorRecord]], None]:
    """`persist`, with a line where the records change the group's epoch or who is in it. They are replayed into `image`."""

    def persist_and_tell(records: Sequence[CoordinatorRecord]) -> None:
        if not is_told():
            persist(records)
            return
        epoch, before = image.epoch, dict.fromkeys(image.members)
        persist(records)
        if before and not image.members and image.epoch <= epoch:  # members that leave end in an epoch of their own
            _LOG.info("group %s: it goes on as a classic group", group_id)
        elif (image.epoch, image.members.keys()) != (epoch, before.keys()):
            tell(group_id, f"epoch {image.epoch}", before, image.members)

    return persist_and_tell


def _named(how: str, members: list[str]) -> str:
    if not members:
        return ""
    more = f" and {len(members) - NAMED} more" if len(members) > NAMED else ""
    return f"; {how}: {', '.join(members[:NAMED])}{more}"
