"""Samples of the meter (metrics/meter.py) in the last 15 minutes, and how late the loop was."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from minibroker.console.observer import Observer
from minibroker.console.pace import paced
from minibroker.metrics.counts import Times
from minibroker.metrics.meter import Meter
from minibroker.schemas import k00_produce
from minibroker.server.broker import Broker
from minibroker.testing.options import BrokerError

INTERVAL_S: Final = 5.0
KEPT: Final = 181


class Sample(NamedTuple):
    """One look at the counters."""

    time_s: float
    requests: int
    errors: int
    received: int
    sent: int
    records: int  #: log end offsets of all partitions together
    connections: int
    waiting: int  #: parked requests
    produce_times: tuple[int, ...]  #: Produce requests by their duration, as metrics/counts.py divides them
    delay_ms: float  #: how much later than planned the loop ran this sample


class Samples:
    """Takes a sample every few seconds while the console runs."""

    interval_s = INTERVAL_S

    def __init__(self, broker: Callable[[], Broker], observer: Observer, meter: Meter) -> None:
        self._broker = broker
        self._observer = observer
        self._meter = meter
        self._samples: deque[Sample] = deque(maxlen=KEPT)
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    def stop(self) -> None:
        """Stop."""
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        delay_ms = 0.0
        while True:
            with contextlib.suppress(RuntimeError, BrokerError):  # the broker is stopped, or exchanges its data
                self._samples.append(await self._look(delay_ms))
            planned_s = time.monotonic() + INTERVAL_S
            await asyncio.sleep(INTERVAL_S)
            delay_ms = max(time.monotonic() - planned_s, 0.0) * 1000

    async def _look(self, delay_ms: float) -> Sample:
        broker, records = self._broker(), 0
        if not broker.nodes:
            raise RuntimeError("the broker is not running")
        self._observer.group_events.follow(broker.nodes[0].services)
        async for topic in paced(list(broker.cluster.topics.values())):
            if not topic.is_internal:
                records += sum(log.log_end_offset for each in topic.partitions if (log := each.online_log) is not None)
        apis, produce = self._meter.apis.values(), self._meter.apis.get(k00_produce.API_KEY)
        return Sample(
            time.monotonic(),
            sum(sum(each.requests.values()) for each in apis),
            sum(sum(each.failures.values()) for each in apis),
            sum(each.request_bytes for each in apis),
            sum(each.response_bytes for each in apis),
            records,
            len(broker.connections),
            broker.purgatory.count,
            () if produce is None else tuple(produce.total.buckets),
            delay_ms,
        )

    def charts(self) -> list[dict[str, Any]]:
        """Return the series of each chart, oldest first, at equal distances."""
        samples = list(self._samples)
        steps = list(itertools.pairwise(samples))

        def rate(name: str) -> list[float | None]:
            return [
                round((getattr(after, name) - getattr(before, name)) / max(after.time_s - before.time_s, 0.001), 2)
                if getattr(after, name) >= getattr(before, name)
                else None
                for before, after in steps
            ]

        def level(name: str) -> list[float | None]:
            return [float(round(getattr(each, name), 2)) for each in samples[1:]]

        series = (
            ("Records appended", "/s", rate("records")),
            ("Requests", "/s", rate("requests")),
            ("Errors in answers", "/s", rate("errors")),
            ("Produce requests: 99 % answered within", " ms", [_quantile_ms(before, after) for before, after in steps]),
            ("Received", " B/s", rate("received")),
            ("Sent", " B/s", rate("sent")),
            ("Connections", "", level("connections")),
            ("Waiting requests", "", level("waiting")),
            ("Delay of the event loop", " ms", level("delay_ms")),
        )
        return [{"name": name, "unit": unit, "values": values} for name, unit, values in series]


def _quantile_ms(before: Sample, after: Sample) -> float | None:
    """Return within how many milliseconds 99 % of the Produce requests between two samples were answered; None without any."""
    earlier = before.produce_times or (0,) * len(after.produce_times)
    between = Times()
    between.buckets = [new - old for old, new in zip(earlier, after.produce_times, strict=False)]
    if not between.buckets or min(between.buckets) < 0 or not between.count:
        return None
    return round(between.quantile(0.99) * 1000, 2)
