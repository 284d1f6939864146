"""Tests that need the source: they put something in the place of a constant or a function of a compiled module."""

from __future__ import annotations

import pytest

from minibroker.compilation import is_compiled


def skip_if_compiled() -> None:
    """Skip the calling test in a compiled build."""
    if is_compiled():
        pytest.skip("compiled code does not see what a test puts in the place of its constants and functions")
