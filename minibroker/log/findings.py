"""Problems that a check of files finds."""

from __future__ import annotations

from typing import NamedTuple

ERROR = "error"
WARNING = "warning"
REPEATED_MAX = 20  #: of one kind in one file; more are only counted


class Finding(NamedTuple):
    """A problem in a file.

    ERROR: damage that no broker leaves, even if it was killed. WARNING: leftovers of a crash or an interrupted removal that the next start
    repairs, or something that may be intended.
    """

    severity: str
    path: str
    position: int | None  #: in the file, bytes
    problem: str


class Findings:
    """Collects the findings of a check."""

    def __init__(self) -> None:
        self._found: list[Finding] = []
        self._counts: dict[tuple[str, str, str], int] = {}

    def add(self, severity: str, path: str, problem: str, position: int | None = None, *, kind: str | None = None) -> None:
        """Add a finding; at most REPEATED_MAX of one `kind` in a file."""
        if kind is not None:
            key = severity, path, kind
            count = self._counts[key] = self._counts.get(key, 0) + 1
            if count > REPEATED_MAX:
                return
        self._found.append(Finding(severity, path, position, problem))

    def all(self) -> tuple[Finding, ...]:
        """Return all in order, then how many were left out."""
        more = [
            Finding(severity, path, None, f"{count - REPEATED_MAX} more of: {kind}")
            for (severity, path, kind), count in self._counts.items()
            if count > REPEATED_MAX
        ]
        return (*self._found, *more)
