"""The tracker on a broker: the same on minibroker and on Apache Kafka, but for what only minibroker can do, which skips."""

from __future__ import annotations

from minibroker.testing import AsyncSurface
from orders_async.status import Status
from orders_async.tests.conftest import Trackers, event, kept, tell, until
from orders_async.tracker import EVENTS, STATUSES


async def test_the_status_of_an_order_follows_its_events(minibroker_async: AsyncSurface, trackers: Trackers) -> None:
    following = await trackers.start()
    await tell(minibroker_async, "o1", "placed", "paid")
    await minibroker_async.produce(EVENTS, "nonsense", key="o1")
    await tell(minibroker_async, "o1", "shipped", first=3)
    assert await kept(minibroker_async, "o1", 3) == Status("o1", "shipped", 3)
    await until(lambda: following.status("o1") == Status("o1", "shipped", 3))


async def test_a_new_tracker_knows_what_the_last_one_knew(minibroker_async: AsyncSurface, trackers: Trackers) -> None:
    first = await trackers.start("one")
    await tell(minibroker_async, "o1", "placed", "paid")
    await kept(minibroker_async, "o1", 2)
    await trackers.stop(first)
    await tell(minibroker_async, "o1", "paid", first=2)  # once more, as after a crash
    await tell(minibroker_async, "o1", "shipped", first=3)
    await trackers.start("two")
    assert await kept(minibroker_async, "o1", 3) == Status("o1", "shipped", 3)


async def test_two_trackers_have_half_of_the_orders_each(minibroker_async: AsyncSurface, trackers: Trackers) -> None:
    for partition in (0, 1):
        await minibroker_async.produce(EVENTS, event(f"o{partition}", "placed", 1), key=f"o{partition}", partition=partition)
    first = await trackers.start("one")
    for partition in (0, 1):
        await kept(minibroker_async, f"o{partition}", 1)
    second = await trackers.start("two")
    assigned = await minibroker_async.wait_assigned("tracker", members=2)
    assert sorted(assigned.values()) == [[(EVENTS, 0)], [(EVENTS, 1)]]
    await until(lambda: sorted(first.partitions + second.partitions) == [0, 1])
    for partition in (0, 1):
        following = first if partition in first.partitions else second
        assert following.status(f"o{partition}") == Status(f"o{partition}", "open", 1)
        await minibroker_async.produce(EVENTS, event(f"o{partition}", "paid", 2), key=f"o{partition}", partition=partition)
        assert await kept(minibroker_async, f"o{partition}", 2) == Status(f"o{partition}", "paid", 2)
    assert len(await minibroker_async.records(STATUSES)) == 4


async def test_a_tracker_that_was_taken_for_dead_joins_again(minibroker_async: AsyncSurface, trackers: Trackers) -> None:
    await trackers.start()
    await tell(minibroker_async, "o1", "placed")
    await kept(minibroker_async, "o1", 1)
    await minibroker_async.advance(minutes=1)
    await tell(minibroker_async, "o1", "paid", first=2)
    assert await kept(minibroker_async, "o1", 2) == Status("o1", "paid", 2)
    assert minibroker_async.request_log.of(error="UNKNOWN_MEMBER_ID", group="tracker")
