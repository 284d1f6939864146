"""The progress of a run: a line per load and round with the first figure of each broker, and below it how far the run is.

The last line lives on a terminal only; elsewhere, in a file or in CI, the time left stands at the end of each load's line.
"""

from __future__ import annotations

import shutil
import sys
from typing import TextIO

import click
from loads.figures import Better, better
from measure import Step
from reporting.results import OURS, Measurement
from reporting.tables import number

BAR = 20
EIGHTHS = " ▏▎▍▌▋▊▉█"
CLEAR_LINE = "\r\x1b[2K"


class Progress:
    """A Watcher that writes to a terminal."""

    def __init__(self, rounds: int, out: TextIO | None = None) -> None:
        self._out = sys.stderr if out is None else out
        self._live = self._out.isatty()
        self._rounds = rounds
        self._place = (0, "")
        self._figure, self._values = "", dict[str, float]()
        self._left_s = 0.0

    def begins(self, step: Step, done: float, left_s: float) -> None:
        """Show the step that runs."""
        place = (step.round, step.load.name)
        if place != self._place:
            self._end_load()
            if step.round != self._place[0]:
                self._write(click.style(f"round {step.round} of {self._rounds}\n", bold=True))
            self._place = place
        self._left_s = left_s
        if self._live:
            line = f"  {bar(done)} {done:4.0%}, {duration(left_s)} left: {step.load.name}, {step.peer} ..."
            self._write(CLEAR_LINE + line[: shutil.get_terminal_size().columns - 1])

    def measured(self, step: Step, measurement: Measurement) -> None:
        """Remember the first figure for the load's line."""
        self._figure = self._figure or next(iter(measurement.figures), "")
        if self._figure in measurement.figures:
            self._values[step.peer] = measurement.figures[self._figure]

    def left_out(self, line: str) -> None:
        """Print the reason on its own line."""
        self._write((CLEAR_LINE if self._live else "") + click.style(f"  left out: {line}\n", fg="yellow"))

    def close(self) -> None:
        """End the last line."""
        self._end_load()

    def _end_load(self) -> None:
        if self._live:
            self._write(CLEAR_LINE)
        if self._values:
            left = "" if self._live else f"   ({duration(self._left_s)} left)"
            self._write("  " + load_line(self._place[1], self._figure, self._values) + left + "\n")
        self._figure, self._values = "", {}

    def _write(self, text: str) -> None:
        click.echo(text, file=self._out, nl=False)


def load_line(load: str, figure: str, values: dict[str, float]) -> str:
    """Return one load's first figure of each broker, and minibroker's ratio to Kafka."""
    texts = [f"{peer} {number(value)}" for peer, value in values.items()]
    return f"{load:34.34} {figure:22.22} {', '.join(texts)}{_against_kafka(figure, values)}"


def _against_kafka(figure: str, values: dict[str, float]) -> str:
    direction = better(figure)
    if direction is Better.NEITHER or not values.get(OURS) or not values.get("kafka"):
        return ""
    ratio = values[OURS] / values["kafka"]
    wins = (ratio >= 1) == (direction is Better.HIGHER)
    return "  " + click.style(f"{ratio:.2f} x Kafka's", fg="green" if wins else "red")


def bar(part: float) -> str:
    """Return a bar that is filled up to `part`."""
    eighths = round(max(0.0, min(1.0, part)) * BAR * 8)
    whole, rest = divmod(eighths, 8)
    return ("█" * whole + (EIGHTHS[rest] if rest else "")).ljust(BAR, "░")


def duration(seconds: float) -> str:
    """Return a duration in words, as precise as an estimate is."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02} min"
