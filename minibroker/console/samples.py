"""Samples of the last 15 minutes: what came in and went out, and how late the loop was."""

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
    delay_ms: float  #: how much later than planned the loop ran this sample


class Samples:
    """Takes a sample every few seconds while the console runs."""

    interval_s = INTERVAL_S

    def __init__(self, broker: Callable[[], Broker], observer: Observer) -> None:
        self._broker = broker
        self._observer = observer
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
        self._observer.group_events.follow(broker.nodes[0].services)
        async for topic in paced(list(broker.cluster.topics.values())):
            if not topic.is_internal:
                records += sum(log.log_end_offset for each in topic.partitions if (log := each.online_log) is not None)
        seen = self._observer
        return Sample(
            time.monotonic(), seen.count, seen.error_count, seen.received, seen.sent, records, len(broker.connections),
            broker.purgatory.count, delay_ms,
        )  # fmt: skip

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
            ("Received", " B/s", rate("received")),
            ("Sent", " B/s", rate("sent")),
            ("Connections", "", level("connections")),
            ("Waiting requests", "", level("waiting")),
            ("Delay of the event loop", " ms", level("delay_ms")),
        )
        return [{"name": name, "unit": unit, "values": values} for name, unit, values in series]
