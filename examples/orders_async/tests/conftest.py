"""What every test of the tracker finds: its two topics; and trackers that run beside the test."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import suppress

import pytest
import pytest_asyncio

from minibroker.testing import AsyncSurface, Surface
from orders_async.status import Status, from_json
from orders_async.tracker import EVENTS, STATUSES, Tracker

PARTITIONS = 2
#: aiokafka's pauses are for clusters far away.
QUICK = {"heartbeat_interval_ms": 200, "retry_backoff_ms": 20, "fetch_max_wait_ms": 50}


@pytest.fixture(scope="session")
def minibroker_seed() -> Callable[[Surface], None]:
    def seed(broker: Surface) -> None:
        broker.create_topic(EVENTS, partitions=PARTITIONS)
        broker.create_topic(STATUSES, partitions=PARTITIONS, cleanup_policy="compact")

    return seed


class Trackers:
    """Those that run beside a test."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._running: dict[Tracker, asyncio.Task[None]] = {}

    async def start(self, name: str = "one") -> Tracker:
        tracker = await Tracker(self._bootstrap_servers, name=name, settings=QUICK).start()
        self._running[tracker] = asyncio.create_task(tracker.run())
        return tracker

    async def stop(self, tracker: Tracker) -> None:
        """Fails where the tracker had failed."""
        running = self._running.pop(tracker)
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
        await tracker.close()

    async def stop_all(self) -> None:
        for tracker in [*self._running]:
            await self.stop(tracker)


@pytest_asyncio.fixture
async def trackers(minibroker_async: AsyncSurface) -> AsyncIterator[Trackers]:
    trackers = Trackers(minibroker_async.bootstrap_servers)
    yield trackers
    await trackers.stop_all()


def event(order_id: str, kind: str, number: int) -> str:
    return json.dumps({"order_id": order_id, "event": kind, "number": number})


async def tell(broker: AsyncSurface, order_id: str, *kinds: str, first: int = 1) -> None:
    """Events of one order."""
    values = [event(order_id, kind, number) for number, kind in enumerate(kinds, first)]
    await broker.produce(EVENTS, *values, key=order_id)


async def until(is_so: Callable[[], bool], timeout_s: float = 30) -> None:
    async with asyncio.timeout(timeout_s):
        while not is_so():  # noqa: ASYNC110  the tracker tells nobody
            await asyncio.sleep(0.01)


async def kept(broker: AsyncSurface, order_id: str, number: int) -> Status:
    """The status of an order in the topic, when its `number`-th event has counted."""
    count = 0
    while True:
        records = await broker.records(STATUSES, count=count + 1)
        count = len(records)
        found = [from_json(record.value or b"") for record in records if record.key == order_id.encode()]
        if found and found[-1].number >= number:
            return found[-1]
