"""A file system with a limited rate, for background work that must not occupy the disk (`log.cleaner.io.max.bytes.per.second`)."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from minibroker.storage.files import RealFiles

if TYPE_CHECKING:
    from typing_extensions import Buffer

_LEAST_SLEEP_S: Final = 0.02  #: shorter sleeps are postponed until they add up


class ThrottledFiles(RealFiles):
    """RealFiles whose reads and writes together take `bytes_per_second`, on average since the first of them."""

    def __init__(
        self, bytes_per_second: float, *, now_s: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        super().__init__()
        self._bytes_per_second = bytes_per_second
        self._now_s = now_s
        self._sleep = sleep
        self._moved_bytes = 0
        self._started_s: float | None = None

    def __reduce__(self) -> tuple[type[RealFiles], tuple[float, ...]]:  # type: ignore[override]  # as RealFiles, with its one argument
        return ThrottledFiles, (self._bytes_per_second,)

    def read_at(self, descriptor: int, size: int, position: int, /) -> bytes:
        """As RealFiles, then sleep as the rate requires."""
        data = os.pread(descriptor, size, position)
        self._moved(len(data))
        return data

    def write(self, descriptor: int, data: Buffer, /) -> int:
        """As RealFiles, then sleep as the rate requires."""
        taken = os.write(descriptor, data)
        self._moved(taken)
        return taken

    def _moved(self, size: int) -> None:
        now_s = self._now_s()
        if self._started_s is None:
            self._started_s = now_s
        self._moved_bytes += size
        ahead_s = self._moved_bytes / self._bytes_per_second - (now_s - self._started_s)
        if ahead_s >= _LEAST_SLEEP_S:
            self._sleep(ahead_s)
