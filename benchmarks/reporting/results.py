"""The figures of a run, and the file that stores them.

A run is a list of measurements: one load, against one broker, in one round. The file is JSON, rewritten after every measurement, so that
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
    """Median and range of the values of all rounds."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Return the spread of at least one value."""
        return cls(statistics.median(values), min(values), max(values))


@dataclass(frozen=True)
class Measurement:
    """One load against one broker, once."""

    round: int
    peer: str  #: its key: kafka, kfake ...
    load: str
    seconds: float  #: total time with the broker's start
    figures: dict[str, float]
    server: dict[str, float] = field(default_factory=dict)  #: CPU s from its start to the end of the load, memory MB at that end


@dataclass(frozen=True)
class About:
    """The facts that a reader needs to judge the figures or to repeat the run."""

    date: str  #: UTC, to the minute
    commit: str
    command: str  #: a command that a reader can repeat
    machine: dict[str, str] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)  #: by broker key
    broker_python: str = ""  #: the command of the interpreter that runs minibroker; empty: the one that runs the benchmark
    interpreters: dict[str, str] = field(default_factory=dict)  #: the command of each further interpreter, by broker key
    peers: tuple[str, ...] = ()  #: the planned brokers
    loads: tuple[str, ...] = ()
    rounds: int = 1  #: the planned rounds
    scale: float = 1.0
    quick: bool = False
    minutes: float | None = None  #: no new measurement started after this time


@dataclass
class Run:
    """The measurements of a run, and what was left out."""

    about: About
    measurements: list[Measurement] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)  #: a line each with the reason

    def loads(self) -> list[str]:
        """Return the loads with figures, in the order of the plan."""
        found = dict.fromkeys(each.load for each in self.measurements)
        return sorted(found, key=lambda load: self.about.loads.index(load) if load in self.about.loads else len(self.about.loads))

    def peers(self) -> list[str]:
        """Return the brokers with figures; minibroker comes first, then in the order of the plan."""
        found = dict.fromkeys(each.peer for each in self.measurements)
        order = [OURS, *self.about.peers, *found]
        return sorted(found, key=order.index)

    def figures(self, load: str) -> list[str]:
        """Return the names of a load's figures over all brokers."""
        return list(dict.fromkeys(figure for each in self.measurements if each.load == load for figure in each.figures))

    def by_round(self, peer: str, load: str, figure: str) -> dict[int, float]:
        """Return the value of each round."""
        return {
            each.round: each.figures[figure]
            for each in self.measurements
            if (each.peer, each.load) == (peer, load) and figure in each.figures
        }

    def spread(self, peer: str, load: str, figure: str) -> Spread | None:
        """Return median and range of all rounds, or None if not measured."""
        values = list(self.by_round(peer, load, figure).values())
        return Spread.of(values) if values else None

    def server(self, peer: str, load: str, figure: str) -> Spread | None:
        """Return the total cost of a load for the server, including start and warming up."""
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
        """Return the least and the most rounds of any load."""
        counts = [len({each.round for each in self.measurements if each.load == load}) for load in self.loads()]
        return (min(counts), max(counts)) if counts else (0, 0)

    def write(self, path: Path) -> None:
        """Write the file atomically."""
        path.parent.mkdir(parents=True, exist_ok=True)
        document = {"format": FORMAT, **asdict(self)}
        partial = path.with_suffix(".partial")
        partial.write_text(_compact(document))
        partial.replace(path)


class UnlikeRuns(ValueError):  # noqa: N818  names the runs
    """Runs whose figures must not stand in one table."""


def _compact(document: dict[str, Any]) -> str:
    """Return JSON with a line per measurement, for readable diffs."""
    rest = {name: value for name, value in document.items() if name != "measurements"}
    lines = ",\n".join("  " + json.dumps(each) for each in document["measurements"])
    return json.dumps(rest, indent=1)[:-2] + f',\n "measurements": [\n{lines}\n ]\n}}\n'


def read(path: Path) -> Run:
    """Read a results file of any age."""
    document = json.loads(path.read_text())
    if "format" not in document:
        return _first_format(document, path)
    about = document["about"]
    about = About(**(about | {"peers": tuple(about["peers"]), "loads": tuple(about["loads"])}))
    return Run(about, [Measurement(**each) for each in document["measurements"]], document["left_out"])


def _first_format(document: dict[str, Any], path: Path) -> Run:
    """Read the old format: machine and commit in one line, and a list of values per figure."""
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
            interpreters={key: command for run in runs for key, command in run.about.interpreters.items()},
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
    """Merge names in the order of the longest list, so that the plan of a whole run decides."""
    lists = sorted(names, key=len, reverse=True)
    return tuple(dict.fromkeys(name for each in lists for name in each))


def shown(path: Path) -> str:
    """Return a path as a reader types it."""
    relative = os.path.relpath(path)
    return str(path) if relative.startswith("..") else relative
