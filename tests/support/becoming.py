"""Wait for what a broker or a client does on its own."""

from __future__ import annotations

import time
from collections.abc import Callable

_PAUSE_S = 0.01


def becomes(is_so: Callable[[], bool], timeout_s: float = 60) -> bool:
    """Poll until `is_so` returns True. Return False after the time-out."""
    end_s = time.monotonic() + timeout_s
    while not is_so():
        if time.monotonic() > end_s:
            return False
        time.sleep(_PAUSE_S)
    return True


def wait_until(is_so: Callable[[], bool], what: str | Callable[[], str], timeout_s: float = 60) -> None:
    """Poll until `is_so` returns True. After the time-out, fail the test with `what`."""
    assert becomes(is_so, timeout_s), f"{what if isinstance(what, str) else what()}: not within {timeout_s} s"
