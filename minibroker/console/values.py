"""Keys and values of records as a page shows them: text, JSON or bytes, cut to a preview.

{"kind": "json", "text": "{...}", "line": "{...}", "size": 1200, "is_cut": false}       kinds: null, text, json, bytes
"""

from __future__ import annotations

import codecs
import json
from typing import Any, Final

PREVIEW_BYTES: Final = 4096
_BYTES_SHOWN: Final = 256  #: of content that is not text: 16 lines of a hex dump
_LINE: Final = 16
_LINE_LETTERS: Final = 240  #: of the line in a list
#: Control characters, and those that change the direction of text, would let a value look like another one.
_VISIBLE: Final = {
    **{code: chr(0x2400 + code) for code in range(0x20) if code not in {0x09, 0x0A, 0x0D}},
    0x7F: "\u2421",
    **{code: f"<U+{code:04X}>" for code in (*range(0x80, 0xA0), 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))},
}


def visible(text: str) -> str:
    """Return a text with its control characters replaced by visible ones."""
    return text.translate(_VISIBLE)


def shown(content: bytes | None, limit: int = PREVIEW_BYTES) -> dict[str, Any]:
    """Return the preview of a key or value."""
    if content is None:
        return {"kind": "null", "text": "", "line": "", "size": 0, "is_cut": False}
    size = len(content)
    head = content[:limit]
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(head, final=size <= limit)
    except UnicodeDecodeError:
        return shown_bytes(content)
    pretty = _pretty(text) if size <= limit else None
    line = visible(" ".join(text[:_LINE_LETTERS].split())) + (" ..." if len(text) > _LINE_LETTERS else "")
    kind = "text" if pretty is None else "json"
    return {"kind": kind, "text": visible(pretty or text), "line": line, "size": size, "is_cut": size > limit}


def shown_bytes(content: bytes) -> dict[str, Any]:
    """Return the preview of a key or value that is not text, whatever its bytes are."""
    size = len(content)
    line = content[:_LINE].hex(" ") + (" ..." if size > _LINE else "")
    return {"kind": "bytes", "text": hex_dump(content[:_BYTES_SHOWN]), "line": line, "size": size, "is_cut": size > _BYTES_SHOWN}


def one_line(content: bytes | None, letters: int = 120) -> str:
    """Return a short text for a list; invalid UTF-8 is replaced."""
    if content is None:
        return "null"
    text = visible(" ".join(content[: letters * 4].decode(errors="replace").split()))
    return text if len(text) <= letters else f"{text[:letters]}..."


def hex_dump(content: bytes, first: int = 0) -> str:
    """Return lines of 16 bytes in hexadecimal, with printable ASCII beside them."""
    lines = []
    for start in range(0, len(content), _LINE):
        piece = content[start : start + _LINE]
        letters = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in piece)
        lines.append(f"{first + start:08x}  {piece.hex(' '):<47}  {letters}")
    return "\n".join(lines)


def _pretty(text: str) -> str | None:
    """Return JSON with indents; None if the text is not an object or a list."""
    if text[:1] not in {"{", "["}:
        return None
    try:
        pretty = json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return None
    return pretty.encode("utf-8", "backslashreplace").decode()  # half of a surrogate pair stays escaped: it has no bytes in UTF-8
