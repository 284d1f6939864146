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
    """One measurement of the plan."""

    round: int
    load: Load
    peer: str
    scale: float

    @property
    def place(self) -> tuple[int, str, str]:
        """What identifies this step in a run."""
        return (self.round, self.load.name, self.peer)


class Watcher(Protocol):
    """Receives the progress of a run."""

    def begins(self, step: Step, done: float, left_s: float) -> None:
        """`step` begins; `done` is the part of the time that is over, and `left_s` the estimate for this step and all later ones."""

    def measured(self, step: Step, measurement: Measurement) -> None:
        """`step` has its figures."""

    def left_out(self, line: str) -> None:
        """Something was left out, with the reason."""


def plan(loads: Sequence[Load], kinds: Mapping[str, type[Peer]], *, rounds: int, scale: float, quick: bool) -> list[Step]:
    """Return every measurement of a run in order; a quick run takes the scale that each load declares."""
    return [
        Step(number, load, peer, load.quick * scale if quick else scale)
        for number in range(1, rounds + 1)
        for load in loads
        for peer, kind in kinds.items()
        if load.needs <= kind.gives
    ]


def lacking(run: Run, steps: Sequence[Step]) -> list[Step]:
    """Return the steps that a run has not measured yet."""
    done = {(each.round, each.load, each.peer) for each in run.measurements}
    return [step for step in steps if step.place not in done]


class Estimate:
    """Estimates the seconds of a step: as long as the same step took before, otherwise the load's guess, corrected by earlier ones."""

    def __init__(self, before: Iterable[Measurement] = ()) -> None:
        self._took: dict[tuple[str, str], list[float]] = {}
        self._guessed_s = self._took_s = 0.0
        for each in before:
            self._took.setdefault((each.load, each.peer), []).append(each.seconds)

    def learn(self, step: Step, seconds: float) -> None:
        """Record how long a step took."""
        self._took.setdefault((step.load.name, step.peer), []).append(seconds)
        self._guessed_s += _guess_s(step)
        self._took_s += seconds

    def seconds(self, steps: Iterable[Step]) -> float:
        """Return the estimated seconds of all steps."""
        worth = self._took_s / self._guessed_s if self._guessed_s else 1.0
        return sum(self._one(step, worth) for step in steps)

    def _one(self, step: Step, worth: float) -> float:
        took = self._took.get((step.load.name, step.peer))
        return sum(took) / len(took) if took else _guess_s(step) * worth


#: The part of a step's guess that starting and warming up a broker takes at any scale.
FIXED_S = 4.0


def _guess_s(step: Step) -> float:
    fixed = min(FIXED_S, step.load.seconds)
    return fixed + (step.load.seconds - fixed) * min(step.scale, 1.0)


class Session:
    """Makes the measurements that a run still lacks, and stores each at once."""

    def __init__(
        self,
        run: Run,
        kinds: Mapping[str, type[Peer]],
        keep: Callable[[], object],
        watcher: Watcher,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.run = run
        self.broke = False  #: whether a load failed unexpectedly
        self._kinds, self._keep, self._watcher, self._clock = kinds, keep, watcher, clock
        self._gone: set[str] = set()
        self._unavailable: set[tuple[str, str]] = set()

    def go_through(self, steps: Sequence[Step], *, minutes: float | None = None) -> None:
        """Make all missing measurements; with `minutes`, start none that would end after that time."""
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
            self._leave(f"{step.peer} cannot run here: {reason}")
        except Unavailable as reason:
            self._unavailable.add((step.load.name, step.peer))
            self._leave(f"{step.load.name}, {step.peer}: {reason}")
        except Exception as error:  # noqa: BLE001  a run of hours continues after a load that fails
            self.broke = True
            self._leave(f"{step.load.name}, {step.peer}, round {step.round}: {type(error).__name__}: {error}")
        else:
            measurement = Measurement(step.round, step.peer, step.load.name, round(self._clock() - began, 2), figures, server)
            self.run.measurements.append(measurement)
            self._keep()
            self._watcher.measured(step, measurement)

    def _leave_rest(self, steps: Sequence[Step], minutes: float) -> None:
        """Report the loads without any figure; the report's head shows which have fewer rounds."""
        have = {each.load for each in self.run.measurements}
        lacking = [name for name in dict.fromkeys(step.load.name for step in steps) if name not in have]
        lost = f" Without any figure: {', '.join(lacking)}." if lacking else ""
        self._leave(f"{len(steps)} measurements would have exceeded {minutes:g} minutes.{lost}")

    def _leave(self, line: str) -> None:
        self.run.left_out.append(line)
        self._keep()
        self._watcher.left_out(line)


class CannotStart(Unavailable):
    """A broker does not start; the message is the output of its start."""


def measure(step: Step, kind: type[Peer]) -> tuple[dict[str, float], dict[str, float]]:
    """Start a broker on a fresh directory, run the load and stop it. Return the figures and the total cost for the server."""
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
    """Return CPU and memory of the server with its children, empty if the load has ended it."""
    try:
        return {"CPU s": round(peer.tree_cpu_seconds(), 2), "memory MB": round(peer.tree_memory_mb(), 1)}
    except (Unavailable, OSError):
        return {}


def available(kinds: Mapping[str, type[Peer]], say: Callable[[str], object]) -> tuple[dict[str, type[Peer]], list[str]]:
    """Return the peers that run on this machine, fetched or built where necessary, and a line for each other peer."""
    found: dict[str, type[Peer]] = {}
    left_out: list[str] = []
    for key, kind in kinds.items():
        say(key)
        peer = kind()
        try:
            peer.prepare()
            found[key] = kind
        except Unavailable as reason:
            left_out.append(f"{key} cannot run here: {reason}")
        finally:
            peer.stop()
    return found, left_out


def results_path(folder: Path, *, quick: bool) -> Path:
    """Return the file for a run that starts now."""
    return folder / (time.strftime("%Y-%m-%d_%H%M", time.gmtime()) + ("_quick" if quick else "") + ".json")
