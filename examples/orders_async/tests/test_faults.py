"""What may go wrong on the way, at the moment where it hurts; only minibroker can be told so, and on another Kafka these skip."""

from __future__ import annotations

import asyncio

from minibroker.testing import AsyncSurface
from orders_async.status import Status
from orders_async.tests.conftest import Trackers, kept, tell
from orders_async.tracker import STATUSES


async def test_a_leader_that_moves_is_waited_for(minibroker_async: AsyncSurface, trackers: Trackers) -> None:
    await minibroker_async.faults.inject("Produce", "NOT_LEADER_OR_FOLLOWER", topic=STATUSES).once()
    await trackers.start()
    await tell(minibroker_async, "o1", "placed")
    assert await kept(minibroker_async, "o1", 1) == Status("o1", "open", 1)
    assert minibroker_async.request_log.of("Produce", topic=STATUSES, injected=True)


async def test_a_status_whose_acknowledgement_is_lost_is_there_once(minibroker_async: AsyncSurface, trackers: Trackers) -> None:
    await minibroker_async.faults.disconnect("Produce", when="after", topic=STATUSES).once()
    tracker = await trackers.start()
    await tell(minibroker_async, "o1", "placed")
    await tell(minibroker_async, "o1", "paid", first=2)
    assert await kept(minibroker_async, "o1", 2) == Status("o1", "paid", 2)
    await trackers.stop(tracker)
    asked = minibroker_async.request_log.of("Produce", topic=STATUSES)
    statuses = [record.json()["number"] for record in await minibroker_async.records(STATUSES)]
    assert len(asked) == len(statuses) + 1  # one was sent twice
    assert statuses == sorted(set(statuses))


async def test_a_tracker_whose_offsets_are_refused_follows_again_and_counts_once(
    minibroker_async: AsyncSurface, trackers: Trackers
) -> None:
    await minibroker_async.faults.inject("OffsetCommit", "ILLEGAL_GENERATION", group="tracker").once()
    await trackers.start()
    await tell(minibroker_async, "o1", "placed")
    await kept(minibroker_async, "o1", 1)
    await tell(minibroker_async, "o1", "paid", first=2)
    assert await kept(minibroker_async, "o1", 2) == Status("o1", "paid", 2)
    assert minibroker_async.request_log.of("OffsetCommit", injected=True)


async def test_a_group_that_rebalances_loses_nothing(minibroker_async: AsyncSurface, trackers: Trackers) -> None:
    await trackers.start()
    await tell(minibroker_async, "o1", "placed")
    await kept(minibroker_async, "o1", 1)
    async with minibroker_async.faults.inject("Heartbeat", "REBALANCE_IN_PROGRESS", group="tracker").once() as rebalance:
        async with asyncio.timeout(30):
            while not await rebalance.hits:  # noqa: ASYNC110  a heartbeat comes when it does
                await asyncio.sleep(0.05)
    await tell(minibroker_async, "o1", "paid", first=2)
    assert await kept(minibroker_async, "o1", 2) == Status("o1", "paid", 2)
