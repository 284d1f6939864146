"""The folder that Spark 4.0 leaves in the working directory of whoever starts it: `artifacts/spark-UUID`, one a session.

It is for files that sessions share with executors, and empty where nobody shares any; Spark deletes the inner folder when its process ends,
and never the outer one. There is no setting for its place.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

FOLDER = "artifacts"


class Leftovers:
    """Made before Spark starts; takes away what is new since then, as far as it is empty."""

    def __init__(self, working_directory: Path) -> None:
        self._folder = working_directory / FOLDER
        self._was_there = self._folder.exists()
        self._before = set(self._inner())

    def remove(self) -> None:
        """After Spark has stopped; whatever holds a file stays, and so does what was there before."""
        for path in self._inner():
            if path not in self._before:
                with suppress(OSError):
                    path.rmdir()
        if not self._was_there:
            with suppress(OSError):
                self._folder.rmdir()

    def _inner(self) -> list[Path]:
        return list(self._folder.glob("spark-*"))
