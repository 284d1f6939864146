"""Families of series, and their text: Prometheus 0.0.4 and OpenMetrics 1.0.

A family computes its samples from a `State` when it is scraped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Generic, NamedTuple, TypeVar

from prometheus_client.utils import floatToGoString

from minibroker.metrics.labels import NO_LABELS, Labels
from minibroker.metrics.state import State
from minibroker.metrics.texts import LETTERS_A_PIECE, SAMPLES_A_PIECE, Row, rendered

go_float: Callable[[float], str] = floatToGoString  # it has no annotations

Sample = tuple[str, Labels, float]  #: (suffix of the name, labels, value)
Samples = Iterable[Sample]


R = TypeVar("R", bound=Row)


class Column(Generic[R]):
    """The samples of a family with one whole number for each row.

    The text of each piece is kept, and used again in the next scrape if neither labels nor numbers changed.
    """

    def __init__(self, rows: Callable[[State], Sequence[R]], value: Callable[[R], int]) -> None:
        """Create it. Columns with the same function `rows` share the texts of the labels."""
        self._rows = rows
        self._value = value

    def __call__(self, state: State) -> Samples:
        """Return the samples."""
        value = self._value
        return (("", row.labels, value(row)) for row in self._rows(state))

    def text(self, state: State, name: str) -> Iterator[str]:
        """Yield the text in pieces."""
        rows, value, texts = self._rows(state), self._value, state.texts
        known = texts.of_columns.setdefault(name, [])
        for number, start in enumerate(range(0, len(rows), SAMPLES_A_PIECE)):
            piece = rows[start : start + SAMPLES_A_PIECE]
            labels, values = texts.labels_of(self._rows, number, piece), list(map(value, piece))
            if number >= len(known):
                known.append(rendered(name, labels, values))
            elif known[number].labels is not labels or known[number].values != values:
                known[number] = rendered(name, labels, values)
            yield known[number].text
        del known[-(-len(rows) // SAMPLES_A_PIECE) :]


class Family(NamedTuple):
    """One metric with all its series."""

    name: str  #: as it appears in samples; that of a counter with _total, unless it is `untyped`
    kind: str  #: counter, gauge, untyped, histogram or summary
    help: str
    samples: Callable[[State], Samples]

    @property
    def suffixes(self) -> tuple[str, ...]:
        """What the names of samples have after the family's name."""
        return {"histogram": ("_bucket", "_sum", "_count"), "summary": ("", "_sum", "_count")}.get(self.kind, ("",))

    def header(self, *, is_open_metrics: bool) -> str:
        """Return the lines HELP and TYPE."""
        name, kind = self.name, self.kind
        if is_open_metrics:
            name = name.removesuffix("_total") if kind == "counter" else name
            kind = "unknown" if kind == "untyped" else kind
        return f"# HELP {name} {self.help}\n# TYPE {name} {kind}\n"

    def text(self, state: State, *, is_open_metrics: bool) -> Iterator[str]:
        """Yield the text in pieces."""
        name = self.name
        if isinstance(self.samples, Column):
            yield self.header(is_open_metrics=is_open_metrics)
            yield from self.samples.text(state, name)
            return
        lines = [self.header(is_open_metrics=is_open_metrics)]
        size = 0
        for suffix, of_series, value in self.samples(state):
            number = value if type(value) is int else go_float(value)
            lines.append(f"{name}{suffix}{of_series.text} {number}\n")
            size += len(of_series.text)
            if len(lines) >= SAMPLES_A_PIECE or size >= LETTERS_A_PIECE:
                yield "".join(lines)
                lines.clear()
                size = 0
        if lines:
            yield "".join(lines)


def single(value: Callable[[State], float]) -> Callable[[State], Samples]:
    """Return the samples of a family without labels."""
    return lambda state: (("", NO_LABELS, value(state)),)


class Names(NamedTuple):
    """A set of families that can be selected by name."""

    name: str
    families: tuple[Family, ...]
