"""One kind of time-out of the members of a group: it removes members that let it expire.

If the removal cannot be stored, the member stays, and its time-out starts again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from functools import partial

from minibroker.clock import Clock, Timer
from minibroker.errors import KafkaError

_LOG = logging.getLogger(__name__)


class MemberTimeouts:
    """Timers by member id."""

    __slots__ = ("_clock", "_group_id", "_remove", "_timers", "_why")

    def __init__(self, group_id: str, clock: Clock, remove: Callable[[str], None], why: str) -> None:
        """Create the time-outs. `remove` raises KafkaError if the removal cannot be stored; `why` is for the log."""
        self._group_id = group_id
        self._clock = clock
        self._remove = remove
        self._why = why
        self._timers: dict[str, Timer] = {}

    @property
    def member_ids(self) -> AbstractSet[str]:
        """The members whose time-out runs."""
        return self._timers.keys()

    def arm(self, member_id: str, delay_ms: int) -> None:
        """Start the time-out of a member, again if it runs."""
        self.cancel(member_id)
        self._timers[member_id] = self._clock.call_later_ms(delay_ms, partial(self._time_out, member_id, delay_ms))

    def cancel(self, member_id: str) -> None:
        """Cancel the time-out of a member, if it runs."""
        timer = self._timers.pop(member_id, None)
        if timer is not None:
            timer.cancel()

    def clear(self) -> None:
        """Cancel all time-outs."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _time_out(self, member_id: str, delay_ms: int) -> None:
        try:
            self._remove(member_id)
        except KafkaError as error:
            _LOG.warning("group %s: could not remove member %s, though %s: %s (will retry)", self._group_id, member_id, self._why, error)
            self.arm(member_id, delay_ms)
        else:
            _LOG.info("group %s: member %s is gone: %s", self._group_id, member_id, self._why)
