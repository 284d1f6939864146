"""Temporary folders in memory for tests of the tier `check`, whose brokers create thousands of small files and sync them.

On a disk, and in most containers' file systems, an fsync takes milliseconds; in /dev/shm it costs nothing. Folders of tests that
start processes stay on the disk: /dev/shm may forbid to execute files, and may be small.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Final

MEMORY: Final = Path("/dev/shm")  # noqa: S108  each run has a folder of its own there
FREE_MIN: Final = 1 << 30  #: a run takes about 100 MB
_OWN: Final = "minibroker-tests-{}-"


@cache
def memory_folder() -> Path | None:
    """Return this process's folder in memory; None where there is no such file system, or little space. `remove_memory_folder` ends it."""
    if not os.access(MEMORY, os.W_OK) or shutil.disk_usage(MEMORY).free < FREE_MIN:
        return None
    for old in MEMORY.glob(_OWN.format("*") + "*"):
        pid = re.search(r"\d+", old.name)
        if pid and not Path(f"/proc/{pid[0]}").exists():  # a run that was killed
            shutil.rmtree(old, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=_OWN.format(os.getpid()), dir=MEMORY))


def remove_memory_folder() -> None:
    """Remove the folder in memory at the end of a run."""
    if memory_folder.cache_info().currsize and (folder := memory_folder()):
        shutil.rmtree(folder, ignore_errors=True)
