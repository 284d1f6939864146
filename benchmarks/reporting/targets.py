"""minibroker's targets beside Apache Kafka and kfake on disk, as medians of the rounds' ratios of one run, and the results."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from loads.declaration import AT
from loads.figures import Better, better

from reporting.results import OURS, Run, Spread

#: CPU per request may differ by this part from one end of a curve to the other.
FLAT = 0.15


class Outcome(Enum):
    """The outcome of one comparison."""

    MET = "met"
    MISSED = "NOT met"
    UNKNOWN = "not measured"


@dataclass(frozen=True)
class Target:
    """minibroker's median by that of another broker: at least the bound where more is better, at most the bound where less is."""

    what: str
    load: str
    figure: str
    kafka: float
    kfake: float | None = None  #: None: no target

    def bounds(self) -> Iterator[tuple[str, float]]:
        """Return each peer with its bound."""
        yield "kafka", self.kafka
        if self.kfake is not None:
            yield "kfake", self.kfake


TARGETS = (
    Target("one-record produce, requests/s", "produce 1 x 100 B", "requests/s", 3.0, 1.3),
    Target("one-record produce, CPU a request", "produce 1 x 100 B", "CPU us/request", 0.25, 0.7),
    Target("ListOffsets, requests/s", "ListOffsets", "requests/s", 3.0, 1.5),
    Target("ListOffsets, CPU a request", "ListOffsets", "CPU us/request", 0.25, 0.6),
    Target("produce 64 x 1 kB, MB/s", "produce 64 x 1 kB", "MB/s", 2.7, 1.2),
    Target("produce 64 x 1 kB, CPU s/GB", "produce 64 x 1 kB", "CPU s/GB", 0.4, 0.8),
    Target("produce lz4, MB/s", "produce 64 x 1 kB, lz4", "MB/s", 2.0, 1.0),
    Target("produce zstd, MB/s", "produce 64 x 1 kB, zstd", "MB/s", 2.0, 1.0),
    Target("fetch by 1 consumer, MB/s", "fetch by 1 consumer", "MB/s", 1.8, 5.0),
    Target("fetch by 4 consumers, MB/s", "fetch 1 MiB", "MB/s", 1.8, 5.0),
    Target("fetch by 4 consumers, CPU s/GB", "fetch 1 MiB", "CPU s/GB", 0.7, 0.3),
    Target("fetch by 50 consumers, MB/s", "fetch by 50 consumers", "MB/s", 1.2, 3.0),
    Target("produce latency p50", "latency", "acknowledged p50 us", 0.6, 0.8),
    Target("produce latency p99", "latency", "acknowledged p99 us", 0.6, 0.8),
    Target("produce-to-fetch latency p50", "latency", "delivered p50 us", 0.4, 1.0),
    Target("produce-to-fetch latency p99", "latency", "delivered p99 us", 0.4, 1.0),
    Target("rebalance of a group of 20, p50", "group of 20", "rebalance of 20 p50 us", 0.29, 1.0),
    Target("offset commits/s", "group, commits", "commits/s", 3.0, 1.0),
    Target("transactions of 4 x 16 kB/s", "transactions 4 x 16 kB", "transactions/s", 3.9, 1.0),
    Target("Spark batch read of small ranges, wall", "Spark, small ranges", "wall s", 0.65),
    Target("Spark read of 1,000,000 records, wall", "Spark, 1,000,000 records", "wall s", 0.35),
    Target("cold start", "start", "cold start ms", 0.08),
    Target("idle memory", "start", "idle memory MB", 0.09),
    Target("memory of an idle connection", "idle connections", "kB/connection", 0.5),
)


@dataclass(frozen=True)
class Comparison:
    """One bound, and the measured ratio."""

    peer: str
    bound: float
    more_is_better: bool
    ratio: Spread | None
    rounds: int  #: rounds with figures of both
    rounds_met: int

    @property
    def outcome(self) -> Outcome:
        """The outcome by the median of the rounds' ratios."""
        if self.ratio is None:
            return Outcome.UNKNOWN
        return Outcome.MET if _keeps(self.ratio.median, self.bound, more_is_better=self.more_is_better) else Outcome.MISSED

    @property
    def bound_text(self) -> str:
        """The bound as text."""
        return f"{'>=' if self.more_is_better else '<='} {self.bound:g}"


@dataclass(frozen=True)
class Verdict:
    """A target with all its comparisons."""

    target: Target
    comparisons: tuple[Comparison, ...]

    @property
    def outcome(self) -> Outcome:
        """Missed if one comparison is, otherwise unknown if one is."""
        outcomes = [each.outcome for each in self.comparisons]
        return next((each for each in (Outcome.MISSED, Outcome.UNKNOWN) if each in outcomes), Outcome.MET)


def judge(run: Run) -> list[Verdict]:
    """Return every target in the table's order."""
    return [Verdict(target, tuple(_compare(run, target, peer, bound) for peer, bound in target.bounds())) for target in TARGETS]


def _compare(run: Run, target: Target, peer: str, bound: float) -> Comparison:
    more = better(target.figure) is Better.HIGHER
    ours, theirs = run.by_round(OURS, target.load, target.figure), run.by_round(peer, target.load, target.figure)
    common = [number for number in ours.keys() & theirs.keys() if theirs[number]]
    met = sum(_keeps(ours[number] / theirs[number], bound, more_is_better=more) for number in common)
    return Comparison(peer, bound, more, run.ratio(peer, target.load, target.figure), len(common), met)


def _keeps(ratio: float, bound: float, *, more_is_better: bool) -> bool:
    return ratio >= bound if more_is_better else ratio <= bound


@dataclass(frozen=True)
class Curve:
    """The growth of one figure along an axis: the medians of each broker."""

    load: str
    figure: str  #: the name without the place
    axis: str  #: the counted thing: partitions, segments ...
    points: dict[str, dict[float, Spread]]  #: broker to place to figure

    @property
    def title(self) -> str:
        """Title of the curve."""
        return f"{self.figure}, {self.along}"

    @property
    def along(self) -> str:
        """Name of the load, or of its axis."""
        return f"by {self.load.removeprefix('growth, ') if self.axis in self.load else self.axis}"

    @property
    def growth(self) -> float | None:
        """The last point of minibroker divided by its first; None with fewer than two."""
        ours = sorted(self.points.get(OURS, {}).items())
        if len(ours) < 2 or not ours[0][1].median:
            return None
        return ours[-1][1].median / ours[0][1].median

    @property
    def may_grow(self) -> float | None:
        """The largest allowed ratio: CPU stays flat, and by timestamp may grow by a fixed part for each tenfold. None: no target."""
        places = sorted(self.points.get(OURS, {}))
        if "CPU" not in self.figure or len(places) < 2:
            return None
        return 1 + FLAT * (math.log10(places[-1] / places[0]) if "by timestamp" in self.figure else 1)

    @property
    def outcome(self) -> Outcome:
        """Whether the growth is within the limit."""
        if self.growth is None or self.may_grow is None:
            return Outcome.UNKNOWN
        return Outcome.MET if self.growth <= self.may_grow else Outcome.MISSED


def curves(run: Run) -> list[Curve]:
    """Return the curves of a run, from the figures with a place in their names."""
    found: dict[tuple[str, str, str], dict[str, dict[float, Spread]]] = {}
    for load in run.loads():
        for name in run.figures(load):
            figure, is_point, place = name.partition(AT)
            if not is_point:
                continue
            number, _, axis = place.partition(" ")
            for peer in run.peers():
                if (spread := run.spread(peer, load, name)) is not None:
                    found.setdefault((load, figure, axis), {}).setdefault(peer, {})[float(number.replace(",", ""))] = spread
    return [Curve(*key, points) for key, points in found.items()]


def with_targets(run: Run) -> list[Curve]:
    """Return the curves that have a limit."""
    return [curve for curve in curves(run) if curve.outcome is not Outcome.UNKNOWN]
