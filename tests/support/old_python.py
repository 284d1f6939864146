"""Old releases of kafka-python, each in a folder of its own in the cache, to be put before everything else on a child's path."""

from __future__ import annotations

import fcntl
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.java import cache_folder

#: not a dependency, but without it kafka-python knows no lz4 as clients of before 0.10 wrote it
XXHASH = "xxhash==3.5.0"


def old_kafka_python(version: str) -> Path:
    """The folder with kafka-python `version`; fetched at the first call, by one process at a time."""
    if sys.version_info >= (3, 12):
        pytest.skip(f"Python 3.12 and newer cannot import kafka-python {version}")
    folder = cache_folder() / f"kafka-python-{version}"
    done = folder / ".done"
    if not done.exists():
        if importlib.util.find_spec("pip") is None:
            pytest.skip("pip is not installed")
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not done.exists():
                command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--upgrade", "--target", str(folder)]
                subprocess.run([*command, f"kafka-python=={version}", XXHASH], check=True)
                done.touch()
    return folder
