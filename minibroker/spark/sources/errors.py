"""What goes wrong with a pipeline and is for its user: one line that says what, where, and what to do."""

from __future__ import annotations


class SourceError(Exception):
    """The base of all errors of pipelines; `str(error)` is one line."""
