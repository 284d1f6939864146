"""Escape control characters of names, values and errors, which could move the cursor of a terminal or change its colours."""

from __future__ import annotations

from typing import Final

#: C0 and C1 without tab and line feed, and DEL
_ESCAPES: Final = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0)) if code not in {0x09, 0x0A}}


def printable(text: str) -> str:
    """Replace control characters by hexadecimal escapes."""
    return text if text.isprintable() else text.translate(_ESCAPES)
