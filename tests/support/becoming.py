"""Waiting for what a broker or a client does by itself."""

from __future__ import annotations

import time
from collections.abc import Callable

_PAUSE_S = 0.01


def becomes(is_so: Callable[[], bool], timeout_s: float = 60) -> bool:
    """Ask until it is so, for at most so many seconds; whether it became so."""
    end_s = time.monotonic() + timeout_s
    while not is_so():
        if time.monotonic() > end_s:
            return False
        time.sleep(_PAUSE_S)
    return True
