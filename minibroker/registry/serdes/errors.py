"""Why a key or value cannot be decoded or encoded. The messages are for users."""

from __future__ import annotations

from typing import Self


class SerdesError(ValueError):
    """A value that does not fit its schema, a schema that cannot be used, or a limit."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self._reason = reason
        self._path: list[str] = []

    def within(self, name: str) -> Self:
        """Note that the value is part of a field, or of an element such as `[3]`."""
        self._path.append(name)
        return self

    def __str__(self) -> str:
        """`field address.lines[3]: a text was expected, got 5`."""
        path = ""
        for name in reversed(self._path):
            path += name if name.startswith("[") or not path else f".{name}"
        return f"field {path}: {self._reason}" if path else self._reason


class LimitError(SerdesError):
    """A value is larger, deeper or more work than is allowed. Another branch of a union is not tried then."""
