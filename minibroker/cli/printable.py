"""Text of others on a terminal: names, values and errors may hold control characters, which would move the cursor or change its colours."""

from __future__ import annotations

from typing import Final

#: C0 and C1 without tab and line feed, and DEL
_ESCAPES: Final = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0)) if code not in {0x09, 0x0A}}


def printable(text: str) -> str:
    """Return the text with hexadecimal escapes in the place of control characters."""
    return text if text.isprintable() else text.translate(_ESCAPES)
