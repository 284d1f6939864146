"""Deletion of files: renamed at once, so that they are not found, and removed later, so that current readers can finish.

A crash between the two leaves `.deleted` files and `-delete` folders; the next start removes both.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from minibroker.background import Background
from minibroker.clock import Clock
from minibroker.storage.files import Files

logger = logging.getLogger(__name__)


def remove_files(files: Files, paths: Sequence[str]) -> None:
    """Remove files; skips those that do not exist."""
    for path in paths:
        files.remove(path)


def remove_folder(files: Files, path: str) -> None:
    """Remove a partition's folder and the files in it; does nothing if it does not exist."""
    try:
        names = files.names(path)
    except FileNotFoundError:
        return
    remove_files(files, [f"{path}/{name}" for name in names])
    files.remove_directory(path)


def remove_later(work: Callable[[], None], *, delay_ms: int, clock: Clock, background: Background | None) -> None:
    """Run `work`, a removal, after a delay and off the loop; without a delay and a background immediately. Failures are logged."""

    def done(result: object) -> None:
        if isinstance(result, OSError):
            logger.warning("could not remove a file: %s", result)
        elif isinstance(result, BaseException):
            raise result

    def start() -> None:
        if background is not None:
            background.submit(work, done)
            return
        try:
            work()
        except OSError as error:
            done(error)

    if delay_ms <= 0:
        start()
    else:
        clock.call_later_ms(delay_ms, start)
