"""What a check of files finds wrong, and how much of it is told."""

from __future__ import annotations

from typing import NamedTuple

ERROR = "error"
WARNING = "warning"
REPEATED_MAX = 20  #: of one kind in one file; more are only counted


class Finding(NamedTuple):
    """Something that is not as it should be.

    ERROR: damage, which no broker leaves, not even one that was killed. WARNING: what a crash or an interrupted removal leaves and the
    next start repairs, or something that may have its reason.
    """

    severity: str
    path: str
    position: int | None  #: in the file, bytes
    problem: str


class Findings:
    """Collects them."""

    def __init__(self) -> None:
        self._found: list[Finding] = []
        self._counts: dict[tuple[str, str, str], int] = {}

    def add(self, severity: str, path: str, problem: str, position: int | None = None, *, kind: str | None = None) -> None:
        """Note one; of one `kind` in a file only so many."""
        if kind is not None:
            key = severity, path, kind
            count = self._counts[key] = self._counts.get(key, 0) + 1
            if count > REPEATED_MAX:
                return
        self._found.append(Finding(severity, path, position, problem))

    def all(self) -> tuple[Finding, ...]:
        """In the order in which they were found, then how many were left out."""
        more = [
            Finding(severity, path, None, f"{count - REPEATED_MAX} more of: {kind}")
            for (severity, path, kind), count in self._counts.items()
            if count > REPEATED_MAX
        ]
        return (*self._found, *more)
