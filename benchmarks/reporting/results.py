"""The figures of a run, and the file that keeps them.

A run is a list of measurements: one load, against one broker, in one round. The file is JSON, written anew after every measurement, so that
what was measured outlives whatever ends the run; runs of one machine and one size can be put together.
"""

from __future__ import annotations

import json
import os
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

FORMAT = 2
OURS = "minibroker"


#: What made a merged run; each run's own file has its own command.
SEVERAL_RUNS = "benchmarks/run.py --load ..."


class Spread(NamedTuple):
    """Of the values of all rounds."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Of one value at least."""
        return cls(statistics.median(values), min(values), max(values))


@dataclass(frozen=True)
class Measurement:
    """One load against one broker, once."""

    round: int
    peer: str  #: its key: kafka, kfake ...
    load: str
    seconds: float  #: that it took in all, the broker's start included
    figures: dict[str, float]
    server: dict[str, float] = field(default_factory=dict)  #: CPU s from its start to the end of the load, memory MB at that end


@dataclass(frozen=True)
class About:
    """When, where, of what and how; everything that a reader needs to judge the figures, or to repeat them."""

    date: str  #: in UTC, to the minute
    commit: str
    command: str  #: that a reader can give again
    machine: dict[str, str] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)  #: of each broker, by key
    peers: tuple[str, ...] = ()  #: that were to be measured
    loads: tuple[str, ...] = ()
    rounds: int = 1  #: that were to be made
    scale: float = 1.0
    quick: bool = False
    minutes: float | None = None  #: after which nothing new was begun


@dataclass
class Run:
    """What was measured, and what was not."""

    about: About
    measurements: list[Measurement] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)  #: a line each: what, and why

    def loads(self) -> list[str]:
        """Those with figures, in the order of the plan."""
        found = dict.fromkeys(each.load for each in self.measurements)
        return sorted(found, key=lambda load: self.about.loads.index(load) if load in self.about.loads else len(self.about.loads))

    def peers(self) -> list[str]:
        """Those with figures; minibroker comes first, then in the order of the plan."""
        found = dict.fromkeys(each.peer for each in self.measurements)
        order = [OURS, *self.about.peers, *found]
        return sorted(found, key=order.index)

    def figures(self, load: str) -> list[str]:
        """What was measured of a load, by any broker."""
        return list(dict.fromkeys(figure for each in self.measurements if each.load == load for figure in each.figures))

    def by_round(self, peer: str, load: str, figure: str) -> dict[int, float]:
        """Round to value."""
        return {
            each.round: each.figures[figure]
            for each in self.measurements
            if (each.peer, each.load) == (peer, load) and figure in each.figures
        }

    def spread(self, peer: str, load: str, figure: str) -> Spread | None:
        """Median and range of all rounds; None: was not measured."""
        values = list(self.by_round(peer, load, figure).values())
        return Spread.of(values) if values else None

    def server(self, peer: str, load: str, figure: str) -> Spread | None:
        """What the load cost the server as a whole, its start and the warming up included."""
        values = [each.server[figure] for each in self.measurements if (each.peer, each.load) == (peer, load) and figure in each.server]
        return Spread.of(values) if values else None

    def ratio(self, peer: str, load: str, figure: str) -> Spread | None:
        """Minibroker's figure by the peer's: the median of the rounds' ratios, and their range.

        In a round both ran one after the other, so that what slowed the machine down for minutes slowed both; medians of
        each broker's own rounds may come from different moments.
        """
        ours, theirs = self.by_round(OURS, load, figure), self.by_round(peer, load, figure)
        ratios = [ours[number] / theirs[number] for number in ours.keys() & theirs.keys() if theirs[number]]
        return Spread.of(ratios) if ratios else None

    def rounds(self) -> tuple[int, int]:
        """The least and the most rounds that any load has."""
        counts = [len({each.round for each in self.measurements if each.load == load}) for load in self.loads()]
        return (min(counts), max(counts)) if counts else (0, 0)

    def write(self, path: Path) -> None:
        """Whole or not at all."""
        path.parent.mkdir(parents=True, exist_ok=True)
        document = {"format": FORMAT, **asdict(self)}
        partial = path.with_suffix(".partial")
        partial.write_text(_compact(document))
        partial.replace(path)


class UnlikeRuns(ValueError):  # noqa: N818  says what they are
    """Runs whose figures must not stand in one table."""


def _compact(document: dict[str, Any]) -> str:
    """JSON with a line a measurement: a file that a diff can show."""
    rest = {name: value for name, value in document.items() if name != "measurements"}
    lines = ",\n".join("  " + json.dumps(each) for each in document["measurements"])
    return json.dumps(rest, indent=1)[:-2] + f',\n "measurements": [\n{lines}\n ]\n}}\n'


def read(path: Path) -> Run:
    """A file of any age."""
    document = json.loads(path.read_text())
    if "format" not in document:
        return _first_format(document, path)
    about = document["about"]
    about = About(**(about | {"peers": tuple(about["peers"]), "loads": tuple(about["loads"])}))
    return Run(about, [Measurement(**each) for each in document["measurements"]], document["left_out"])


def _first_format(document: dict[str, Any], path: Path) -> Run:
    """Files of before: machine and commit in one line, and per figure a list of values."""
    words = [part.strip() for part in document["machine"].split(",")]
    about = About(
        date=path.stem.replace("_", " "),
        commit=words[1].removeprefix("commit "),
        command="make bench",
        machine={"processor": ", ".join(words[2:-1]), "python": words[-1].removeprefix("Python ")},
        rounds=max(len(each["values"]) for each in document["figures"]),
    )
    found: dict[tuple[int, str, str], dict[str, float]] = {}
    for each in document["figures"]:
        for number, value in enumerate(each["values"], 1):
            found.setdefault((number, each["broker"], each["load"]), {})[each["figure"]] = value
    return Run(about, [Measurement(number, peer, load, 0.0, figures) for (number, peer, load), figures in found.items()])


def merge(runs: Sequence[Run]) -> Run:
    """One run of all of them, with the newest one's date; UnlikeRuns where they differ in machine or size.

    Rounds are numbered on, so that a ratio of single rounds stays one of neighbours in time.
    """
    runs = sorted(runs, key=lambda run: run.about.date)
    newest = runs[-1].about
    for run in runs[:-1]:
        _check_alike(run.about, newest)
    merged = Run(
        replace(
            newest,
            command=newest.command if len(runs) == 1 else SEVERAL_RUNS,
            commit=", ".join(dict.fromkeys(run.about.commit for run in runs)),
            peers=_joined(run.about.peers for run in runs),
            loads=_joined(run.about.loads for run in runs),
            versions={name: version for run in runs for name, version in run.about.versions.items()},
            rounds=sum(run.about.rounds for run in runs),
        )
    )
    first = 0
    for run in runs:
        merged.measurements += [replace(each, round=each.round + first) for each in run.measurements]
        merged.left_out += [line for line in run.left_out if line not in merged.left_out]
        first += max((each.round for each in run.measurements), default=0)
    return merged


def _check_alike(one: About, other: About) -> None:
    for what in ("machine", "scale", "quick"):
        if getattr(one, what) != getattr(other, what):
            raise UnlikeRuns(f"runs of {one.date} and {other.date} differ in {what}: {getattr(one, what)} and {getattr(other, what)}")


def _joined(names: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    """In the order of the longest list, so that the plan of a whole run decides."""
    lists = sorted(names, key=len, reverse=True)
    return tuple(dict.fromkeys(name for each in lists for name in each))


def shown(path: Path) -> str:
    """A path as a reader types it."""
    relative = os.path.relpath(path)
    return str(path) if relative.startswith("..") else relative
