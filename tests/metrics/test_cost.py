"""What metrics cost: nothing where there are none, 15 to 45 instructions a request where they are, and short slices in a scrape."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest

from minibroker.config.broker_config import BrokerConfig
from minibroker.coordinator.group.kind import Membership
from minibroker.coordinator.group.offsets import NewOffset
from minibroker.dispatch.dispatcher import Dispatcher
from minibroker.metrics.meter import Meter, MeteredConnection
from minibroker.metrics.names import DEFAULT, families_of
from minibroker.metrics.scrape import Scraper
from minibroker.metrics.state import OFFSETS_A_SLICE, LastScrape, State
from minibroker.schemas import k00_produce, k01_fetch, k02_list_offsets
from minibroker.server.broker import Broker as ServerBroker
from minibroker.server.connection import Connection
from minibroker.server.listener import ConnectionLimits, Listener
from minibroker.testing import Broker
from tests.metrics.conftest import Scraped
from tests.server.test_cost_growth import Transport
from tests.support.broker_in_memory import BrokerInMemory, frame_of, records
from tests.support.compiled import skip_if_compiled
from tests.support.opcodes import least_opcodes

#: instructions that the counters of a request take under load, of 1,300 to 2,200
COUNTED_MAX = {"Produce": 32, "ListOffsets": 21, "Fetch": 50}
RESPONSE_SIZE = {"Produce": 57, "ListOffsets": 51, "Fetch": 139}  #: bytes of the answer to `request_of`, with its size field
WARM_UP = 1100  #: requests until one of 16 has its times counted
PARTITIONS = 1000
GROUPS = 100


def request_of(api: str) -> memoryview:
    """A request for one partition with one record."""
    if api == "Produce":
        data = k00_produce.Partition(index=0, records=records(1))
        topic = k00_produce.Topic(name="orders", partition_data=[data])
        return frame_of(k00_produce.Request(acks=-1, timeout_ms=1000, topic_data=[topic]), 9)
    if api == "ListOffsets":
        wanted = k02_list_offsets.Partition(partition_index=0, timestamp=-1)
        return frame_of(k02_list_offsets.Request(replica_id=-1, topics=[k02_list_offsets.Topic(name="orders", partitions=[wanted])]), 7)
    place = k01_fetch.Partition(partition=0, fetch_offset=0, partition_max_bytes=1000)
    topics = [k01_fetch.Topic(topic="orders", partitions=[place])]
    return frame_of(k01_fetch.Request(max_wait_ms=0, session_epoch=-1, min_bytes=1, isolation_level=0, topics=topics), 12)


def cost_of(api: str, make: Callable[[Listener], Connection], around: Callable[[Dispatcher], Dispatcher]) -> int:
    memory = BrokerInMemory(topics={"orders": 1})
    memory.append("orders", 0, records(1))
    listener = Listener("PLAINTEXT", around(memory.dispatcher), memory.clock, ConnectionLimits, make)
    frame = request_of(api)
    sent = len(frame).to_bytes(4, "big") + frame
    connection = make(listener)
    connection.connection_made(Transport())

    def work() -> None:
        connection.get_buffer(-1)[: len(sent)] = sent
        connection.buffer_updated(len(sent))

    for _ in range(WARM_UP):
        work()
    cost = least_opcodes(lambda: work)
    memory.cluster.close(clean=False)
    return cost


@pytest.mark.parametrize("api", COUNTED_MAX)
def test_counters_take_few_instructions(api: str) -> None:
    meter = Meter()
    plain = cost_of(api, Connection, lambda dispatcher: dispatcher)
    counted = cost_of(api, lambda listener: meter.connect(MeteredConnection(listener)), meter.around)
    (counts,) = meter.apis.values()
    assert counts.name == api
    assert sum(counts.requests.values()) == WARM_UP + 5
    assert 0 <= counts.total.count - (WARM_UP + 5) < 16  # one stands for several
    assert counts.response_bytes == counts.total.count * RESPONSE_SIZE[api]
    assert plain < counted <= plain + COUNTED_MAX[api]


async def test_a_broker_without_metrics_has_no_counters(tmp_path: Any) -> None:
    skip_if_compiled()  # a compiled dispatcher has no __dict__
    broker = ServerBroker(BrokerConfig({"log.dirs": str(tmp_path), "listeners": "PLAINTEXT://127.0.0.1:0"}))
    await broker.start()
    try:
        (node,) = broker.nodes
        assert vars(node._dispatcher).keys() == {"_services", "_plans"}
        assert broker._make_connection is Connection
    finally:
        await broker.stop()


class CountedSteps:
    """A clock by which each step of a scrape takes 0.3 ms."""

    def __init__(self) -> None:
        self.looks = 0

    def __call__(self) -> float:
        self.looks += 1
        return self.looks * 0.000_3


async def with_groups(broker: Broker, group_count: int) -> None:
    """Commit ten offsets of each group."""
    groups = broker._hosted.broker.nodes[0].services.coordinators.groups
    groups.ensure_topic()
    for index in range(groups.live.store.partition_count):
        groups.live.store.shard(index)  # which are empty
    for number in range(group_count):
        offsets = [NewOffset(("orders", number * 10 + index), 0) for index in range(10)]
        groups.commit(f"group-{number}", offsets, Membership())


async def test_a_scrape_pauses_within_a_group() -> None:
    async with Broker(topics={"orders": PARTITIONS}) as broker:
        await with_groups(broker, 0)
        groups = broker._hosted.broker.nodes[0].services.coordinators.groups
        groups.commit("large", [NewOffset(("orders", index), 0) for index in range(PARTITIONS)], Membership())
        state = State(broker._hosted.broker, broker._hosted.meter, LastScrape(), 0.0)
        deque(state._read_topics())
        assert sum(1 for _ in state._read_groups()) >= PARTITIONS // OFFSETS_A_SLICE
        assert [len(group.offsets) for group in state.groups] == [PARTITIONS]


async def test_a_scrape_of_a_thousand_partitions_pauses() -> None:
    async with Broker(topics={"orders": PARTITIONS}) as broker:
        await with_groups(broker, GROUPS)
        steps, pauses = CountedSteps(), 0
        internal = broker._hosted.broker.nodes[0].services.coordinators.groups.live.store.partition_count
        scraper = Scraper(lambda: broker._hosted.broker, broker._hosted.meter, families_of(DEFAULT), now_s=steps)
        text = await scraper.text()  # coordinators have created their topics
        steps.looks = 0

        async def count() -> None:
            nonlocal pauses
            while True:
                pauses += 1
                await asyncio.sleep(0)

        counting = asyncio.create_task(count())
        text = await scraper.text()
        counting.cancel()
        assert text.count("\nkafka_consumergroup_lag{") == GROUPS * 10
        assert text.count('\nkafka_topic_partition_current_offset{partition="') == PARTITIONS + internal
        assert pauses >= steps.looks // 5  # after each four steps the loop had a turn
        assert pauses > 50


async def test_text_that_did_not_change_is_used_again() -> None:
    """The numbers of a scrape are compared with those of the one before, and only pieces that differ are rendered."""
    async with Broker(topics={"orders": PARTITIONS}) as broker:
        await with_groups(broker, 10)
        scraped = Scraped(broker, DEFAULT)
        texts = scraped.scraper._last.texts.of_columns
        await scraped.scraper.text()
        before = {name: list(pieces) for name, pieces in texts.items()}
        cluster = broker._hosted.broker.cluster
        cluster.partition("orders", 999).append(memoryview(bytearray(records(1))))
        text = await scraped.scraper.text()
        changed = [
            (name, number)
            for name, pieces in texts.items()
            for number, piece in enumerate(pieces)
            if number >= len(before[name]) or piece is not before[name][number]
        ]
        assert ("kafka_topic_partition_current_offset", 4) in changed
        assert ("kafka_topic_partition_current_offset", 3) not in changed
        assert ("kafka_topic_partition_oldest_offset", 4) not in changed
        fresh = await Scraped(broker, DEFAULT).scraper.text()
        assert [line for line in text.splitlines() if "orders" in line] == [line for line in fresh.splitlines() if "orders" in line]
        await broker.delete_topic("orders")
        assert 'topic="orders"' not in await scraped.scraper.text()


@pytest.mark.parametrize("count", [1, 50])
async def test_what_a_step_of_a_scrape_does_is_bounded(count: int) -> None:
    """No step of a scrape reads or writes all series."""
    async with Broker(topics={f"topic-{number}": 20 for number in range(count)}) as broker:
        scraped = Scraped(broker, DEFAULT)
        state = await scraped.scraper.state()
        pieces: list[str] = []
        sizes = [pieces[-1].count("\n") for _ in scraped.scraper._text(state, pieces, is_open_metrics=False)]
        assert max(sizes) <= 202
        assert sum(1 for _ in state.read()) >= count * 20 // 50
