"""The time line of groups: their states as requests of their members change them.

A group is looked at after each request that names it. What happens between two requests, such as the end of a session, is seen at the next
request, or when somebody looks at the group's page.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Any, Final

from minibroker.cluster.topic import CONSUMER_OFFSETS_TOPIC
from minibroker.dispatch.context import Services
from minibroker.errors import KafkaError
from minibroker.testing.request_log import LoggedRequest

GROUPS_MAX: Final = 500
EVENTS_MAX: Final = 60  #: of one group
#: Requests that do not change a group unless they fail.
_QUIET: Final = frozenset({"Heartbeat", "OffsetFetch", "FindCoordinator", "DescribeGroups", "ConsumerGroupDescribe", "ListGroups"})


class _Seen:
    def __init__(self) -> None:
        self.state: tuple[Any, ...] | None = None
        self.events: deque[dict[str, Any]] = deque(maxlen=EVENTS_MAX)


class GroupEvents:
    """The events of the groups that were active last."""

    def __init__(self) -> None:
        self._groups: OrderedDict[str, _Seen] = OrderedDict()

    def look(self, services: Services, entry: LoggedRequest | None, group_id: str | None = None) -> None:
        """Compare a group with how it was, and note what changed."""
        name = group_id if entry is None else entry.group
        if name is None or CONSUMER_OFFSETS_TOPIC not in services.cluster.topics:
            return
        seen = self._groups.get(name)
        state = _state_of(services, name)
        if seen is None:
            if state is None:
                return
            seen = self._groups[name] = _Seen()
            if len(self._groups) > GROUPS_MAX:
                self._groups.popitem(last=False)
        self._groups.move_to_end(name)
        is_new = state != seen.state
        if not is_new and (entry is None or (not entry.errors and entry.api in _QUIET) or entry.api.endswith("Heartbeat")):
            return
        if not is_new and entry is not None and entry.api == "OffsetCommit" and not entry.errors:
            return  # consumers commit every few seconds
        before, seen.state = seen.state, state
        seen.events.append(_event(services.clock.now_ms(), entry, before, state))

    def of(self, group_id: str) -> list[dict[str, Any]]:
        """Return the events of a group, newest first."""
        seen = self._groups.get(group_id)
        return [] if seen is None else [*reversed(seen.events)]


def _state_of(services: Services, group_id: str) -> tuple[Any, ...] | None:
    """Return state, epoch and number of members of a group; None if there is no such group."""
    try:
        live = services.coordinators.groups.live
        group: Any = live.find(live.shard_of(group_id), group_id)
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
        "members_before": 0 if before is None else before[2],
    }
