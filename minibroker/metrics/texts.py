"""The text of the last scrape: what did not change is not rendered again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, Protocol

from minibroker.metrics.labels import Labels

SAMPLES_A_PIECE: Final = 200  #: between two looks at the time: a fraction of a millisecond
LETTERS_A_PIECE: Final = 65_536  #: likewise, where labels are long


class Row(Protocol):
    """What has one sample in several families, always with the same labels."""

    @property
    def labels(self) -> Labels:
        """The labels."""


class Piece(NamedTuple):
    """Some samples of a column."""

    labels: list[str]
    values: list[int]
    text: str


def rendered(name: str, labels: list[str], values: list[int]) -> Piece:
    """Render some samples."""
    return Piece(labels, values, "".join([f"{name}{text} {value}\n" for text, value in zip(labels, values, strict=True)]))


class Texts:
    """The texts of the last scrape, to be used again."""

    def __init__(self) -> None:
        self.of_columns: dict[str, list[Piece]] = {}  #: by name of the family
        self._labels: dict[Any, list[str]] = {}  #: by function for rows and number of the piece, of this scrape
        self._before: dict[Any, list[str]] = {}  #: likewise, of the last one

    def begin(self) -> None:
        """Begin a scrape. Forget the labels that the last one did not use."""
        self._before, self._labels = self._labels, {}

    def labels_of(self, rows: Any, number: int, piece: Sequence[Row]) -> list[str]:
        """Return the texts of the labels of a piece. It is the same list as before if they did not change."""
        key = rows, number
        found = self._labels.get(key)
        if found is None:
            found = [row.labels.text for row in piece]
            before = self._before.get(key)
            if before == found:
                found = before
            self._labels[key] = found
        return found
