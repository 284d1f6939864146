"""What goes wrong with a replay and is for its user."""

from __future__ import annotations

from minibroker.spark.sources.errors import SourceError


class ReplayError(SourceError):
    """One line: what cannot be replayed, and what to do."""
