"""What metrics cost: nothing where there are none, some dozens of instructions a request where they are, and short slices in a scrape."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from minibroker.config.broker_config import BrokerConfig
from minibroker.coordinator.group.kind import Membership
from minibroker.coordinator.group.offsets import NewOffset
from minibroker.dispatch.dispatcher import Dispatcher
from minibroker.metrics.meter import Meter, MeteredConnection
from minibroker.metrics.names import DEFAULT
from minibroker.schemas import k00_produce
from minibroker.server.broker import Broker as ServerBroker
from minibroker.server.connection import Connection
from minibroker.server.listener import ConnectionLimits, Listener
from minibroker.testing import Broker
from tests.metrics.conftest import Scraped
from tests.server.test_cost_growth import Transport
from tests.support.broker_in_memory import BrokerInMemory, frame_of, records
from tests.support.opcodes import least_opcodes

COUNTED_MAX = 180  #: instructions that the counters of a Produce take under load, of some 2,000
WARM_UP = 1100  #: requests until one of 16 has its times counted
PARTITIONS = 1000
GROUPS = 100


def cost_of_produce(make: Callable[[Listener], Connection], around: Callable[[Dispatcher], Dispatcher]) -> int:
    memory = BrokerInMemory(topics={"orders": 1})
    listener = Listener("PLAINTEXT", around(memory.dispatcher), memory.clock, ConnectionLimits, make)
    data = k00_produce.Partition(index=0, records=records(1))
    request = k00_produce.Request(acks=-1, timeout_ms=1000, topic_data=[k00_produce.Topic(name="orders", partition_data=[data])])
    frame = frame_of(request, 9)
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


def test_counters_take_few_instructions() -> None:
    meter = Meter()
    plain = cost_of_produce(Connection, lambda dispatcher: dispatcher)
    counted = cost_of_produce(lambda listener: meter.connect(MeteredConnection(listener)), meter.around)
    produces = meter.apis[0]
    assert sum(produces.requests.values()) == WARM_UP + 5
    assert abs(produces.total.count - WARM_UP) <= 16  # one stands for several
    assert plain < counted <= plain + COUNTED_MAX


async def test_a_broker_without_metrics_has_no_counters(tmp_path: Any) -> None:
    broker = ServerBroker(BrokerConfig({"log.dirs": str(tmp_path), "listeners": "PLAINTEXT://127.0.0.1:0"}))
    await broker.start()
    try:
        (node,) = broker.nodes
        assert "run" not in vars(node._dispatcher)
        assert broker._make_connection is Connection
    finally:
        await broker.stop()


async def test_a_scrape_of_a_thousand_partitions_pauses() -> None:
    async with Broker(topics={"orders": PARTITIONS}) as broker:
        groups = broker._hosted.broker.nodes[0].services.coordinators.groups
        groups.ensure_topic()
        for index in range(groups.live.store.partition_count):
            groups.live.store.shard(index)  # which are empty
        for number in range(GROUPS):
            offsets = [NewOffset(("orders", number * 10 + index), 0) for index in range(10)]
            groups.commit(f"group-{number}", offsets, Membership())
        scraped = Scraped(broker, DEFAULT)
        await scraped.scraper.text()
        turns = 0

        async def count() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        counting = asyncio.create_task(count())
        text = await scraped.scraper.text()
        counting.cancel()
        assert text.count("\nkafka_topic_partition_current_offset{") == PARTITIONS + groups.live.store.partition_count
        assert text.count("\nkafka_consumergroup_lag{") == GROUPS * 10
        assert turns > 10  # others had their turns


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
