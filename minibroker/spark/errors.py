"""Errors of pipelines that are for the user: one line says what is wrong, where, and what to do."""

from __future__ import annotations


class SourceError(Exception):
    """The base of all pipeline errors; `str(error)` is one line."""


class OptionError(SourceError):
    """An option of `kafka-log` that cannot be followed."""


class ReplayError(SourceError):
    """A replay that cannot run, or cannot go on."""
