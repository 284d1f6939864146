"""The order of a run, the time that it still takes, and one measurement after the other.

Round by round, and in each round load by load, the brokers in turn: what the machine does to one of them it does to its
neighbours, and a run that ends early has something of every load. Only the broker that is measured runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from loads.declaration import Load
from peers import Peer, Unavailable
from reporting.results import Measurement, Run


@dataclass(frozen=True)
class Step:
    """One measurement to be made."""

    round: int
    load: Load
    peer: str
    scale: float

    @property
    def place(self) -> tuple[int, str, str]:
        """What makes it that one."""
        return (self.round, self.load.name, self.peer)


class Watcher(Protocol):
    """Who is told how a run goes on."""

    def begins(self, step: Step, done: float, left_s: float) -> None:
        """This is measured now; such a part of the time is over, and all that follows, it included, takes about so long."""

    def measured(self, step: Step, measurement: Measurement) -> None:
        """It has its figures."""

    def left_out(self, line: str) -> None:
        """Something has none, and why."""


def plan(loads: Sequence[Load], kinds: Mapping[str, type[Peer]], *, rounds: int, scale: float, quick: bool) -> list[Step]:
    """Every measurement of a run, in order; a quick one has a scale of each load's own."""
    return [
        Step(number, load, peer, load.quick * scale if quick else scale)
        for number in range(1, rounds + 1)
        for load in loads
        for peer, kind in kinds.items()
        if load.needs <= kind.gives
    ]


def lacking(run: Run, steps: Sequence[Step]) -> list[Step]:
    """Those of them that a run has not made yet."""
    done = {(each.round, each.load, each.peer) for each in run.measurements}
    return [step for step in steps if step.place not in done]


class Estimate:
    """Seconds that steps take: as the same one took before; else the guess that stands in its load, by what guesses were worth so far."""

    def __init__(self, before: Iterable[Measurement] = ()) -> None:
        self._took: dict[tuple[str, str], list[float]] = {}
        self._guessed_s = self._took_s = 0.0
        for each in before:
            self._took.setdefault((each.load, each.peer), []).append(each.seconds)

    def learn(self, step: Step, seconds: float) -> None:
        """It took so long."""
        self._took.setdefault((step.load.name, step.peer), []).append(seconds)
        self._guessed_s += _guess_s(step)
        self._took_s += seconds

    def seconds(self, steps: Iterable[Step]) -> float:
        """Of all of them."""
        worth = self._took_s / self._guessed_s if self._guessed_s else 1.0
        return sum(self._one(step, worth) for step in steps)

    def _one(self, step: Step, worth: float) -> float:
        took = self._took.get((step.load.name, step.peer))
        return sum(took) / len(took) if took else _guess_s(step) * worth


#: Of a step's guess, what starting a broker and warming it up takes at any scale.
FIXED_S = 4.0


def _guess_s(step: Step) -> float:
    fixed = min(FIXED_S, step.load.seconds)
    return fixed + (step.load.seconds - fixed) * min(step.scale, 1.0)


class Session:
    """Makes the measurements that a run still lacks, and keeps each at once."""

    def __init__(
        self,
        run: Run,
        kinds: Mapping[str, type[Peer]],
        keep: Callable[[], object],
        watcher: Watcher,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.run = run
        self.broke = False  #: whether a load failed that should not
        self._kinds, self._keep, self._watcher, self._clock = kinds, keep, watcher, clock
        self._gone: set[str] = set()
        self._unavailable: set[tuple[str, str]] = set()

    def go_through(self, steps: Sequence[Step], *, minutes: float | None = None) -> None:
        """Make all that are not made yet; with `minutes`, begin none that would end after them."""
        steps = lacking(self.run, steps)
        estimate = Estimate(self.run.measurements)
        started = self._clock()
        for number, step in enumerate(steps):
            if step.peer in self._gone or (step.load.name, step.peer) in self._unavailable:
                continue
            passed_s, left_s = self._clock() - started, estimate.seconds(steps[number:])
            if minutes is not None:
                if passed_s + estimate.seconds([step]) > minutes * 60:
                    self._leave_rest(steps[number:], minutes)
                    return
                left_s = min(left_s, minutes * 60 - passed_s)
            self._watcher.begins(step, passed_s / (passed_s + left_s), left_s)
            began = self._clock()
            self._make(step)
            estimate.learn(step, self._clock() - began)

    def _make(self, step: Step) -> None:
        began = self._clock()
        try:
            figures, server = measure(step, self._kinds[step.peer])
        except CannotStart as reason:
            if not any(each.peer == step.peer for each in self.run.measurements):
                self._gone.add(step.peer)
            self._leave(f"{step.peer} cannot be had here: {reason}")
        except Unavailable as reason:
            self._unavailable.add((step.load.name, step.peer))
            self._leave(f"{step.load.name}, {step.peer}: {reason}")
        except Exception as error:  # noqa: BLE001  a run of hours outlives a load that breaks
            self.broke = True
            self._leave(f"{step.load.name}, {step.peer}, round {step.round}: {type(error).__name__}: {error}")
        else:
            measurement = Measurement(step.round, step.peer, step.load.name, round(self._clock() - began, 2), figures, server)
            self.run.measurements.append(measurement)
            self._keep()
            self._watcher.measured(step, measurement)

    def _leave_rest(self, steps: Sequence[Step], minutes: float) -> None:
        """Say which loads are left without any figure; that others have fewer rounds is told in the report's head."""
        have = {each.load for each in self.run.measurements}
        lacking = [name for name in dict.fromkeys(step.load.name for step in steps) if name not in have]
        lost = f" Without any figure: {', '.join(lacking)}." if lacking else ""
        self._leave(f"{len(steps)} measurements would have gone beyond {minutes:g} minutes.{lost}")

    def _leave(self, line: str) -> None:
        self.run.left_out.append(line)
        self._keep()
        self._watcher.left_out(line)


class CannotStart(Unavailable):
    """A broker does not come up: what its start said."""


def measure(step: Step, kind: type[Peer]) -> tuple[dict[str, float], dict[str, float]]:
    """Start a broker on a fresh directory, run the load, end it: the figures, and what it cost the server as a whole."""
    peer = kind(step.load.properties)
    try:
        try:
            peer.start()
        except Unavailable as reason:
            raise CannotStart(*reason.args) from reason
        figures = step.load.run(peer, step.scale)
        return figures, _cost(peer)
    finally:
        peer.stop()


def _cost(peer: Peer) -> dict[str, float]:
    """Of the server with its children; nothing where the load has ended it."""
    try:
        return {"CPU s": round(peer.tree_cpu_seconds(), 2), "memory MB": round(peer.tree_memory_mb(), 1)}
    except (Unavailable, OSError):
        return {}


def available(kinds: Mapping[str, type[Peer]], say: Callable[[str], object]) -> tuple[dict[str, type[Peer]], list[str]]:
    """Those that can be had on this machine, fetched or built where they must be; and a line for each other one."""
    found: dict[str, type[Peer]] = {}
    left_out: list[str] = []
    for key, kind in kinds.items():
        say(key)
        peer = kind()
        try:
            peer.prepare()
            found[key] = kind
        except Unavailable as reason:
            left_out.append(f"{key} cannot be had here: {reason}")
        finally:
            peer.stop()
    return found, left_out


def results_path(folder: Path, *, quick: bool) -> Path:
    """Where a run that begins now is kept."""
    return folder / (time.strftime("%Y-%m-%d_%H%M", time.gmtime()) + ("_quick" if quick else "") + ".json")
