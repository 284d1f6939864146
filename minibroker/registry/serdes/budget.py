"""Limits of one value that is decoded or encoded.

Some values take no bytes, for example an array of a billion nulls. So values are counted, and what
is more than their bytes can hold is refused. A preview stops instead, and is marked as cut.
"""

from __future__ import annotations

from typing import Final

from minibroker.registry.serdes.errors import LimitError

DEPTH_MAX: Final = 250  #: nesting of values
_VALUES: Final = 10_000  #: that may take no bytes
_VALUES_PER_BYTE: Final = 16  #: a record of one field of one byte are two values, and there are records in records


class Budget:
    """What may still be decoded of one value."""

    def __init__(self, size: int, preview_bytes: int | None = None) -> None:
        """`size` is that of the value in bytes. A preview ends after about `preview_bytes` of JSON."""
        self._values_max = self._values_left = _VALUES + _VALUES_PER_BYTE * size
        self.letters_left = preview_bytes  #: None: this is no preview
        self.is_cut = False
        self._depth = 0

    def enter(self) -> None:
        """Begin a value; `leave` ends it. Raises LimitError."""
        self._depth += 1
        self._values_left -= 1
        if self._depth > DEPTH_MAX:
            raise LimitError(f"more than {DEPTH_MAX} nested values")
        if self._values_left < 0:
            if self.letters_left is None:
                raise LimitError(f"more than {self._values_max} values, which is more than its size allows")
            self.is_cut = True

    def leave(self) -> None:
        """End a value."""
        self._depth -= 1

    def spend(self, letters: int) -> None:
        """Count letters of JSON."""
        if self.letters_left is not None:
            self.letters_left -= letters
            self.is_cut = self.is_cut or self.letters_left <= 0
