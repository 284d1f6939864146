"""JSON as Java writes it: compact, characters above ASCII as they are, doubles as Double.toString.

Keys of `_schemas` are compared byte for byte by compaction, and the digest of a schema is that of its
text. So both must be what Confluent's registry, which is written in Java, would write.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

DEPTH_MAX: Final = 100  #: nesting of objects and arrays that is read

_ESCAPES: Final = {code: f"\\u{code:04X}" for code in range(32)} | {
    8: "\\b",
    9: "\\t",
    10: "\\n",
    12: "\\f",
    13: "\\r",
    34: '\\"',
    92: "\\\\",
}


_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, check_circular=False, separators=(",", ":"))
_MAY_DIFFER: Final = re.compile(r"\\u|[0-9]\.[0-9]|[0-9]e[-+]|NaN|Infinity")  #: where Python's encoder may not write what Java does


_STARTS: Final = ("{", "[", '"')  #: of almost all schemas: no byte order mark, and nothing that looks like UTF-16
_BRACKETS: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)|[\[\]{}]', re.DOTALL)


def write_json(value: Any) -> str:
    """The text of a value. Mappings keep their order."""
    try:
        text = _ENCODER.encode(value)
    except TypeError:
        return _write(value)
    return _write(value) if _MAY_DIFFER.search(text) else text


def _write(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return f'"{value.translate(_ESCAPES)}"'
        case int():
            return str(value)
        case float():
            return _write_double(value)
        case Mapping():
            return "{" + ",".join(f"{_write(key)}:{_write(each)}" for key, each in value.items()) + "}"
        case Sequence():
            return "[" + ",".join(map(_write, value)) + "]"
    raise TypeError(f"{type(value).__name__} is not JSON")


def read_json(text: str | bytes) -> Any:
    """Read a value. Raises ValueError: not JSON, too deep, with NaN or Infinity, or with an unpaired surrogate."""
    data = text.encode() if isinstance(text, str) else text
    if _depth_of(data) > DEPTH_MAX:
        raise ValueError(f"more than {DEPTH_MAX} nested levels")
    if isinstance(text, str) and text[:1] in _STARTS:
        value = _DECODER.decode(text)
    else:
        value = _DECODER.decode(data.decode(json.detect_encoding(data), "surrogatepass"))
    if b"\\ud" in data or b"\\uD" in data:
        write_json(value).encode()  # half of a surrogate pair is no character: it has no bytes in UTF-8
    return value


def _depth_of(data: bytes) -> int:
    """The nesting; 0 if there are too few brackets for more than `DEPTH_MAX`. Counting ends when it is more than that.

    Texts are skipped by the regular expression: a request has a whole schema in one.
    """
    if data.count(b"{") + data.count(b"[") <= DEPTH_MAX:
        return 0
    depth = deepest = 0
    for match in _BRACKETS.finditer(data):
        first = data[match.start()]
        if first in b"{[":
            depth += 1
            deepest = max(deepest, depth)
            if deepest > DEPTH_MAX:
                break
        elif first in b"}]":
            depth -= 1
    return deepest


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is not a number")


_DECODER: Final = json.JSONDecoder(parse_constant=_no_number)


def _write_double(value: float) -> str:
    """Double.toString: plain from 10^-3 to 10^7, else with one digit before the point and an exponent."""
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        text = f"{Decimal(repr(value)):f}"
        return text if "." in text else f"{text}.0"
    sign, digits, exponent = Decimal(repr(value)).as_tuple()
    shown = "".join(map(str, digits)).rstrip("0") or "0"
    power = int(exponent) + len(digits) - 1
    return f"{'-' if sign else ''}{shown[0]}.{shown[1:] or '0'}E{power}"
