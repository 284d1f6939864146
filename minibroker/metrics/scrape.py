"""One scrape: read the state of the broker and make the text, in slices between which the broker serves."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from difflib import get_close_matches
from functools import cached_property
from typing import Any, Final

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_open_metrics

from minibroker.config.request_limits import TELEMETRY_TEXT_MAX
from minibroker.metrics.family import Family, Sample
from minibroker.metrics.labels import labels
from minibroker.metrics.meter import Meter
from minibroker.metrics.names import families_of
from minibroker.metrics.names.exporters import OF_ASSIGNMENTS
from minibroker.metrics.state import LastScrape, State, loop_delay_s
from minibroker.server.broker import Broker
from minibroker.telemetry.families import Family as ClientFamily
from minibroker.telemetry.families import client_families

SLICE_S: Final = 0.001  #: of work without a pause; a piece of it takes less than that again
_END: Final = "# EOF\n"
_SUFFIXES: Final = frozenset({"total", "sum", "count", "bucket", "created", "info"})
_LOG: Final = logging.getLogger(__name__)


class Scraper:
    """Scrapes one broker; lives on its loop's thread."""

    def __init__(
        self, broker: Callable[[], Broker], meter: Meter, families: Sequence[Family], *, now_s: Callable[[], float] = time.perf_counter
    ) -> None:
        """Create a scraper.

        Args:
            broker: returns the broker, which runs.
            meter: counts its requests.
            families: what to show, before the metrics that clients push.
            now_s: the clock by which slices end.
        """
        self._now_s = now_s
        self._broker = broker
        self._meter = meter
        self._families = families
        self._with_assignments = any(family.name in OF_ASSIGNMENTS for family in families)
        self._last = LastScrape()
        self._process = ProcessCollector(registry=None)
        self._lock = asyncio.Lock()  #: one scrape at a time
        self._is_cut = False  #: whether the last scrape left out some metrics of clients
        self.cpu_s = 0.0  #: of the last scrape, on the loop's thread
        self.longest_slice_s = 0.0  #: CPU time of its longest slice

    async def text(self, *, is_open_metrics: bool = False) -> str:
        """Return the text of all metrics."""
        async with self._lock:
            state = await self.state()
            pieces: list[str] = []
            await self._in_slices(self._text(state, pieces, is_open_metrics=is_open_metrics))
            return "".join(pieces)

    async def state(self) -> State:
        """Read the state of the broker."""
        self.cpu_s = self.longest_slice_s = 0.0
        self._meter.time_all()
        self._last.texts.begin()
        state = State(self._broker(), self._meter, self._last, await loop_delay_s())
        await self._in_slices(state.read(with_assignments=self._with_assignments))
        return state

    def log_directories(self) -> dict[str, str | None]:
        """Return why each log directory failed; None for one that works."""
        return {
            each.path: None if each.offline_cause is None else str(each.offline_cause) for each in self._broker().cluster.log_directories
        }

    async def series(self, name: str) -> list[dict[str, Any]]:
        """Return the samples with a name: `labels` and `value`. LookupError: there is no such name."""
        found = [each for each in self._families if name == each.name or name.removeprefix(each.name) in each.suffixes]
        if not found:
            return self._process_series(name)
        family = found[0]
        if name == family.name and name not in {family.name + suffix for suffix in family.suffixes}:
            raise LookupError(f"{name} is a {family.kind}: its series are {', '.join(name + suffix for suffix in family.suffixes)}")
        async with self._lock:
            state = await self.state()
            return [
                {"labels": of_series.as_dict(), "value": value}
                for suffix, of_series, value in family.samples(state)
                if family.name + suffix == name
            ]

    def _process_series(self, name: str) -> list[dict[str, Any]]:
        """Return the samples of a metric of the process."""
        known = {sample.name: sample for metric in self._process.collect() for sample in metric.samples}
        if name not in known:
            close = get_close_matches(name, [each.name for each in self._families] + list(known), 1)
            raise LookupError(f"there is no metric {name!r}{f': did you mean {close[0]}?' if close else ''}")
        return [{"labels": dict(known[name].labels), "value": known[name].value}]

    def _text(self, state: State, pieces: list[str], *, is_open_metrics: bool) -> Iterator[None]:
        generate = generate_open_metrics if is_open_metrics else generate_latest
        for family in self._families:
            for piece in family.text(state, is_open_metrics=is_open_metrics):
                pieces.append(piece)
                yield
        for metric in self._process.collect():
            pieces.append(generate(_One(metric)).decode().removesuffix(_END))
            yield
        yield from self._pushed_text(state, pieces, is_open_metrics=is_open_metrics)
        if is_open_metrics:
            pieces.append(_END)

    def _pushed_text(self, state: State, pieces: list[str], *, is_open_metrics: bool) -> Iterator[None]:
        """Add the metrics that clients push (docs/telemetry.md), until their text is too long."""
        left = TELEMETRY_TEXT_MAX
        for pushed in self._pushed(state):
            for piece in () if pushed is None else pushed.text(state, is_open_metrics=is_open_metrics):
                left -= len(piece)
                if left < 0:
                    if not self._is_cut:
                        _LOG.warning(
                            "/metrics leaves out some metrics that clients pushed: they take more than %d letters", TELEMETRY_TEXT_MAX
                        )
                    self._is_cut = True
                    return
                pieces.append(piece)
                yield
            yield
        self._is_cut = False

    def _pushed(self, state: State) -> Iterator[Family | None]:
        """Yield the metrics that clients push, None for a pause; without those that have a name of ours."""
        telemetry = state.services.telemetry
        if telemetry is None:
            return
        found: Iterable[ClientFamily | None] = client_families(telemetry.clients())
        shown: set[str] = set()
        for pushed in found:
            if pushed is None:
                yield None
                continue
            # In OpenMetrics, the counter `a_total` is a family `a`.
            name = pushed.name.removesuffix("_total") if pushed.kind == "counter" else pushed.name
            if _base(pushed.name) not in self._own_names and name not in shown:
                shown.add(name)
                yield _family_of(pushed)

    @cached_property
    def _own_names(self) -> frozenset[str]:
        """The names of the families that are not pushed, without suffixes of samples. They do not change."""
        own = [*(family.name for family in self._families), *(metric.name for metric in self._process.collect())]
        return frozenset(map(_base, own))

    async def _in_slices(self, steps: Iterator[None]) -> None:
        began_s, cpu_s = self._now_s(), time.thread_time()
        for _ in steps:
            if self._now_s() - began_s >= SLICE_S:
                self._count(time.thread_time() - cpu_s)
                await asyncio.sleep(0)
                began_s, cpu_s = self._now_s(), time.thread_time()
        self._count(time.thread_time() - cpu_s)

    def _count(self, slice_s: float) -> None:
        self.cpu_s += slice_s
        self.longest_slice_s = max(self.longest_slice_s, slice_s)


class _One(CollectorRegistry):
    """A registry of one metric, to make its text."""

    def __init__(self, metric: Metric) -> None:
        super().__init__()
        self._metric = metric

    def collect(self) -> Iterator[Metric]:
        """Return the metric."""
        yield self._metric


def scraper_of(broker: Callable[[], Broker], meter: Meter, names: Iterable[str]) -> Scraper:
    """Return what scrapes a broker for some sets of names. ConfigurationError: there is no such set."""
    return Scraper(broker, meter, families_of(names))


def _base(name: str) -> str:
    """Return a name without the suffix of a sample: in OpenMetrics, two families must not have the same."""
    base, _, suffix = name.rpartition("_")
    return base if suffix in _SUFFIXES else name


def _family_of(pushed: ClientFamily) -> Family:
    kind = "untyped" if pushed.kind == "counter" and not pushed.name.endswith("_total") else pushed.kind
    return Family(pushed.name, kind, pushed.documentation.replace("\\", r"\\").replace("\n", r"\n"), lambda _: _samples_of(pushed))


def _samples_of(pushed: ClientFamily) -> Iterator[Sample]:
    return (("", labels(**of_series), value) for of_series, value in pushed.samples())
