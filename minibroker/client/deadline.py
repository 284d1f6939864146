"""The point in time by which an operation must be done, with its retries."""

from __future__ import annotations

import time

from minibroker.client.errors import TimedOut, describe

#: pauses between attempts, in seconds. The first are short, because a new topic has its leader within milliseconds.
PAUSES_S = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0)


class Deadline:
    """Counts down from `timeout_ms`; None has no end."""

    __slots__ = ("_end_s", "_tries", "timeout_ms")

    def __init__(self, timeout_ms: int | None) -> None:
        self.timeout_ms = timeout_ms
        self._end_s = None if timeout_ms is None else time.monotonic() + timeout_ms / 1000
        self._tries = 0

    def remaining_s(self) -> float | None:
        """Seconds left, never negative; None without an end."""
        return None if self._end_s is None else max(0.0, self._end_s - time.monotonic())

    def remaining_ms(self, most: int) -> int:
        """Milliseconds left, at least 1 and at most `most`: a value for the timeout_ms of a request."""
        left = self.remaining_s()
        return most if left is None else max(1, min(most, int(left * 1000)))

    @property
    def over(self) -> bool:
        """Whether the deadline has passed."""
        return self.remaining_s() == 0.0

    def pause(self, reason: BaseException) -> None:
        """Wait before another attempt; raise TimedOut with the reason of the last failure if no time is left."""
        pause_s = PAUSES_S[min(self._tries, len(PAUSES_S) - 1)]
        self._tries += 1
        left = self.remaining_s()
        if left is not None and left <= pause_s:
            raise TimedOut(f"gave up after {(self.timeout_ms or 0) / 1000:g} s: {describe(reason)}") from reason
        time.sleep(pause_s)
