"""One time-out of the members of a group: a member that lets it pass is removed.

Where the removal cannot be stored the member stays, and is given the same time once more.
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
    """By member id."""

    __slots__ = ("_clock", "_group_id", "_remove", "_timers", "_why")

    def __init__(self, group_id: str, clock: Clock, remove: Callable[[str], None], why: str) -> None:
        """`remove` raises KafkaError where that cannot be stored; `why` is for the log."""
        self._group_id = group_id
        self._clock = clock
        self._remove = remove
        self._why = why
        self._timers: dict[str, Timer] = {}

    @property
    def member_ids(self) -> AbstractSet[str]:
        """Whose time runs."""
        return self._timers.keys()

    def arm(self, member_id: str, delay_ms: int) -> None:
        """The member's time begins, or begins anew."""
        self.cancel(member_id)
        self._timers[member_id] = self._clock.call_later_ms(delay_ms, partial(self._time_out, member_id, delay_ms))

    def cancel(self, member_id: str) -> None:
        """The member did what it was to do, or is gone."""
        timer = self._timers.pop(member_id, None)
        if timer is not None:
            timer.cancel()

    def clear(self) -> None:
        """Nobody's time runs any more."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _time_out(self, member_id: str, delay_ms: int) -> None:
        try:
            self._remove(member_id)
        except KafkaError as error:
            _LOG.warning("group %s: member %s cannot be removed, though %s: %s", self._group_id, member_id, self._why, error)
            self.arm(member_id, delay_ms)
        else:
            _LOG.info("group %s: member %s is gone: %s", self._group_id, member_id, self._why)
