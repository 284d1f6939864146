"""Requests and responses as JSON for a page: cut, without records, and without secrets."""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

from minibroker.console.values import visible
from minibroker.wire.schema import Struct

_VALUES_MAX: Final = 400  #: of one body
_ELEMENTS_SHOWN: Final = 20  #: of one list
_LETTERS_SHOWN: Final = 300
_BYTES_SHOWN: Final = 24
#: Fields with secrets, or with what allows guessing them.
_SECRET_FIELDS: Final = frozenset({"auth_bytes", "salted_password", "salt", "hmac", "stored_key", "server_key"})
_SECRET_WORDS: Final = ("password", "secret", "jaas", "credential", ".key", "token")
_HIDDEN: Final = "[hidden]"


class _Budget:
    def __init__(self) -> None:
        self.left = _VALUES_MAX


def body_of(struct: Any) -> Any:
    """Return a request or a response as JSON; None if there is none."""
    return None if not isinstance(struct, Struct) else _plain(struct, _Budget())


def _plain(value: Any, budget: _Budget) -> Any:
    budget.left -= 1
    if isinstance(value, Struct):
        return _object(value, budget)
    if isinstance(value, list | tuple):
        return _list(value, budget)
    if isinstance(value, str):
        return visible(value if len(value) <= _LETTERS_SHOWN else f"{value[:_LETTERS_SHOWN]}... ({len(value)} letters)")
    if isinstance(value, bytes | bytearray | memoryview):
        head = bytes(value[:_BYTES_SHOWN]).hex(" ")
        return f"{len(value)} bytes: {head}{' ...' if len(value) > _BYTES_SHOWN else ''}" if len(value) else "0 bytes"
    return str(value) if isinstance(value, UUID) else value if isinstance(value, bool | int | float | None) else f"<{type(value).__name__}>"


def _object(struct: Struct, budget: _Budget) -> dict[str, Any]:
    found: dict[str, Any] = {}
    names = type(struct).declared_
    hides_value = any(word in str(getattr(struct, "name", "")).lower() for word in _SECRET_WORDS) if "value" in names else False
    for name in names:
        if budget.left <= 0:
            found["..."] = "cut"
            break
        value = getattr(struct, name, None)
        if name in _SECRET_FIELDS or (name == "value" and hides_value and value is not None):
            found[name] = _HIDDEN
        elif name == "records" and value is not None:
            found[name] = f"{len(value)} bytes"
        else:
            found[name] = _plain(value, budget)
    return found


def _list(values: Any, budget: _Budget) -> list[Any]:
    shown: list[Any] = []
    for value in values[:_ELEMENTS_SHOWN]:
        if budget.left <= 0:
            break
        shown.append(_plain(value, budget))
    if len(shown) < len(values):
        shown.append(f"... {len(values) - len(shown)} more")
    return shown
