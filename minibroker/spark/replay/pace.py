"""So many records a second, and no more."""

from __future__ import annotations

import time
from collections.abc import Callable


class Pace:
    """Lets records through at `records_per_s`; None does not wait. `now_s` and `sleep` are a test's to replace."""

    def __init__(
        self, records_per_s: float | None, *, now_s: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._records_per_s = records_per_s
        self._now_s = now_s
        self._sleep = sleep
        self._next_s = now_s()

    @property
    def burst_records(self) -> int:
        """What may go at once: a second's worth, so that batches do not come by the minute."""
        return 1 << 31 if self._records_per_s is None else max(1, int(self._records_per_s))

    def wait(self, count: int) -> None:
        """Return when `count` more records may go; the time that nobody used is not made up for."""
        if self._records_per_s is None:
            return
        now_s = self._now_s()
        if self._next_s > now_s:
            self._sleep(self._next_s - now_s)
        self._next_s = max(self._next_s, now_s) + count / self._records_per_s
