"""KMinion's metrics of groups: who has which partitions, and how often a group commits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.errors import OffsetMetadataTooLargeError

from minibroker.metrics.assignments import Assignments, assignments_of
from minibroker.metrics.meter import Meter
from minibroker.schemas.internal.consumer_protocol import ConsumerProtocolAssignment, TopicPartitions
from minibroker.testing import Broker
from minibroker.wire.compiled import encoder
from tests.metrics.conftest import Scraped
from tests.metrics.test_values import commit, produce
from tests.support.committed_offsets import broker_with_groups
from tests.support.confluent import Consumer
from tests.support.group_members import GROUP, enter

TOPIC_MEMBERS = "kminion_kafka_consumer_group_topic_members"
ASSIGNED = "kminion_kafka_consumer_group_topic_assigned_partitions"
EMPTY = "kminion_kafka_consumer_group_empty_members"
COMMITS = "kminion_kafka_consumer_group_offset_commits_total"


@asynccontextmanager
async def members(broker: Broker, count: int) -> AsyncIterator[None]:
    async with AsyncExitStack() as stack:
        consumers = [AIOKafkaConsumer("orders", bootstrap_servers=broker.bootstrap_servers, group_id="readers") for _ in range(count)]
        await asyncio.gather(*(stack.enter_async_context(each) for each in consumers))
        for _ in range(2_000):
            if sorted(len(each.assignment()) for each in consumers) == sorted([1] * min(count, 2) + [0] * (count - 2)):
                break
            await asyncio.sleep(0.01)
        yield


async def test_members_of_a_classic_group(broker: Broker, scraped: Scraped) -> None:
    async with members(broker, 3):
        assert await scraped(TOPIC_MEMBERS, group_id="readers", topic_name="orders") == 2
        assert await scraped(ASSIGNED, group_id="readers", topic_name="orders") == 2
        assert await scraped(EMPTY, group_id="readers") == 1
        assert await scraped("kminion_kafka_consumer_group_info", group_id="readers", state="Stable") == 1
        (known,) = scraped.scraper._last.assignments.values()
        await scraped.all()
        assert list(scraped.scraper._last.assignments.values()) == [known]  # it did not change, and is not read again
    assert await scraped(TOPIC_MEMBERS, group_id="readers") is None
    assert await scraped("kminion_kafka_consumer_group_info", group_id="readers") in {0, None}


async def test_members_of_kip_848(broker: Broker, scraped: Scraped) -> None:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "modern", "group.protocol": "consumer"})
    consumer.subscribe(["orders"])
    try:
        for _ in range(200):
            await asyncio.to_thread(consumer.poll, 0.05)
            if await scraped(ASSIGNED, group_id="modern", topic_name="orders") == 2:
                break
        assert await scraped(TOPIC_MEMBERS, group_id="modern", topic_name="orders") == 1
        assert await scraped(ASSIGNED, group_id="modern", topic_name="orders") == 2
        assert await scraped(EMPTY, group_id="modern") is None
    finally:
        await asyncio.to_thread(consumer.close)


async def test_commits_of_a_group(broker: Broker, scraped: Scraped) -> None:
    await produce(broker, "orders", 1)
    for _ in range(3):
        await commit(broker, "readers", "orders", 1)
    await commit(broker, "readers", "orders", 1, partition=1)
    await commit(broker, "others", "orders", 1)
    assert await scraped(COMMITS, group_id="readers") == 4
    assert await scraped(COMMITS, group_id="others") == 1
    await broker.faults.inject("OffsetCommit", "OFFSET_METADATA_TOO_LARGE").once()
    with pytest.raises(OffsetMetadataTooLargeError):
        await commit(broker, "others", "orders", 1)
    assert await scraped(COMMITS, group_id="others") == 1
    counts = broker._hosted.meter.commits
    assert counts is not None
    await broker.delete_topic("orders")
    await broker.reset()
    assert counts.by_group == {}


def test_a_broker_without_these_names_does_not_count_commits() -> None:
    assert Meter().commits is None


def assignment_of(count: int) -> bytes:
    topics = [TopicPartitions(topic=f"topic-{number}", partitions=[0, 1]) for number in range(count)]
    return b"\0\0" + b"".join(
        encoder(ConsumerProtocolAssignment, 0, flexible=False)(ConsumerProtocolAssignment(assigned_partitions=topics))
    )


def read(group: object, before: Assignments | None = None) -> Assignments:
    *pauses, found = assignments_of(group, before, {})  # type: ignore[arg-type]  # a live group
    assert set(pauses) <= {None}
    assert found is not None
    return found


def test_assignments_are_read_only_after_a_change() -> None:
    broker = broker_with_groups({"a": 1})
    enter(broker)
    live = broker.services.coordinators.groups.live.shard_of(GROUP).live[GROUP]
    for member in live.members:  # type: ignore[attr-defined]  # of a classic group
        member.assignment = assignment_of(3)
    found = read(live)
    assert (found.empty_members, found.members) == (0, dict.fromkeys(["topic-0", "topic-1", "topic-2"], 1))
    assert found.partitions["topic-1"] == 2
    assert read(live, found) is found
    for member in live.members:  # type: ignore[attr-defined]  # as above
        member.assignment = b"?"
    again = read(live, Assignments("an earlier generation"))
    assert (again.empty_members, again.members) == (0, {})  # what cannot be decoded is not counted
    broker.cluster.close(clean=False)
