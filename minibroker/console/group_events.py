"""The time line of groups: each change of state, epoch or members, when the coordinator makes it, and errors of their members' requests.

A change during a request is that of the request. Others are the coordinator's own: a session or a rebalance that timed out.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Any, Final

from minibroker.cluster.topic import CONSUMER_OFFSETS_TOPIC
from minibroker.coordinator.group.live_groups import LiveGroups
from minibroker.dispatch.context import Services
from minibroker.errors import KafkaError
from minibroker.testing.request_log import WAITING, LoggedRequest

GROUPS_MAX: Final = 500
EVENTS_MAX: Final = 60  #: of one group


class _Seen:
    def __init__(self) -> None:
        self.state: tuple[Any, ...] | None = None
        self.entry: LoggedRequest | None = None  #: of the last event
        self.events: deque[dict[str, Any]] = deque(maxlen=EVENTS_MAX)


class GroupEvents:
    """The events of the groups that changed last."""

    def __init__(self) -> None:
        self._groups: OrderedDict[str, _Seen] = OrderedDict()
        self._followed: LiveGroups | None = None
        self._serving: LoggedRequest | None = None

    def follow(self, services: Services) -> None:
        """Get notified of changes, unless that is so. The broker may have exchanged its data, and so its groups."""
        if CONSUMER_OFFSETS_TOPIC not in services.cluster.topics:
            return
        live = services.coordinators.groups.live
        if live is not self._followed:
            self._followed = live
            self._groups.clear()
            live.on_change = self._changed

    def began(self, services: Services, entry: LoggedRequest) -> None:
        """Note the request that is being served."""
        if entry.group is not None:
            self.follow(services)
        self._serving = entry

    def served(self) -> None:
        """Note that the request waits, or was answered."""
        self._serving = None

    def failed(self, entry: LoggedRequest) -> None:
        """Note an error of a member, unless it is one that every heartbeat repeats."""
        seen = None if entry.group is None else self._groups.get(entry.group)
        if seen is None or self._followed is None or entry.api.endswith("Heartbeat"):
            return
        if seen.entry is entry:
            seen.events[-1]["errors"] = [*entry.errors]
        else:
            self._note(seen, entry, seen.state)

    def _changed(self, group_id: str) -> None:
        """Compare a group with how it was. The coordinator calls this."""
        if self._followed is None:
            return
        state = _state_of(self._followed, group_id)
        seen = self._groups.get(group_id)
        if seen is None:
            seen = self._groups[group_id] = _Seen()
            if len(self._groups) > GROUPS_MAX:
                self._groups.popitem(last=False)
        self._groups.move_to_end(group_id)
        if state == seen.state:
            return
        serving = self._serving
        self._note(seen, serving if serving is not None and serving.outcome == WAITING else None, state)

    def _note(self, seen: _Seen, entry: LoggedRequest | None, state: tuple[Any, ...] | None) -> None:
        before, seen.state, seen.entry = seen.state, state, entry
        if self._followed is not None:
            seen.events.append(_event(self._followed.clock.now_ms(), entry, before, state))

    def of(self, group_id: str) -> list[dict[str, Any]]:
        """Return the events of a group, newest first."""
        seen = self._groups.get(group_id)
        return [] if seen is None else [*reversed(seen.events)]


def _state_of(live: LiveGroups, group_id: str) -> tuple[Any, ...] | None:
    """Return state, epoch and number of members of a group; None if there is no such group."""
    try:
        group: Any = live.peek(group_id)
    except KafkaError:
        return None
    if group is None:
        return None
    image = getattr(group, "image", None)
    epoch = getattr(group, "generation_id", None)
    if epoch is None:
        epoch = getattr(image, "epoch", getattr(image, "group_epoch", None))
    members: Any = getattr(group, "members", None)
    if members is None:
        members = getattr(image, "members", ())
    return group.state.value, epoch, len(members)


def _event(now_ms: int, entry: LoggedRequest | None, before: tuple[Any, ...] | None, state: tuple[Any, ...] | None) -> dict[str, Any]:
    return {
        "time_ms": now_ms,
        "request": None if entry is None else entry.api,
        "client_id": None if entry is None else entry.client_id,
        "errors": [] if entry is None else [*entry.errors],
        "state": "Dead" if state is None else state[0],
        "state_before": None if before is None else before[0],
        "epoch": None if state is None else state[1],
        "members": 0 if state is None else state[2],
        "members_before": None if before is None else before[2],
    }
