"""`Secret`: the text of a password or a key, which no log line, error or representation shows."""

from __future__ import annotations

import hmac
import re
from typing import Final, NoReturn

HIDDEN: Final = "[hidden]"
_USER_OF_URL: Final = re.compile(r"(?<=://)[^/?#\s]*@")


def without_password(text: str) -> str:
    """Return a text with user and password of each URL hidden."""
    return _USER_OF_URL.sub(f"{HIDDEN}@", text)


class Secret:
    """A text that is only available by `reveal()`. Comparison takes the same time wherever two texts differ."""

    __slots__ = ("_text",)
    __hash__ = None  # type: ignore[assignment]  # a dictionary would compare by time

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Return the text itself. Pass it on only to what needs it."""
        return str(self._text)

    def __str__(self) -> str:
        return HIDDEN

    __repr__ = __str__

    def __bool__(self) -> bool:
        return bool(self._text)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        return hmac.compare_digest(self._text.encode(), other._text.encode())

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Secret is not copied to other processes or files")
