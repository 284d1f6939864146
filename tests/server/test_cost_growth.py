"""CPU of a request does not grow with what else there is: partitions, segments, connections; by timestamp with the logarithm at most.

Counted in instructions of Python (tests/support/opcodes.py), from the bytes of a request to those of its answer. The server's rooms are
above all others, so that this file may look at connections, too.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest

from minibroker.dispatch.delayed import Delayed
from minibroker.schemas import k00_produce, k01_fetch, k02_list_offsets, k08_offset_commit, k12_heartbeat
from minibroker.server.connection import Connection
from minibroker.server.listener import ConnectionLimits, Listener
from tests.support.broker_in_memory import BrokerInMemory, frame_of, records
from tests.support.committed_offsets import broker_with_groups
from tests.support.group_members import GROUP, stable
from tests.support.opcodes import least_opcodes

TOLERANCE = 1.15
MANY_PARTITIONS = 1000
MANY_SEGMENTS = 100
MANY_CONNECTIONS = 1000
STEP_MS = 10

Work = Callable[[], object]


class Broker:
    """A broker with `partition_count` partitions of one topic, and `segment_count` segments of the first of them."""

    def __init__(self, partition_count: int = 1, segment_count: int = 1, batches_a_segment: int = 10) -> None:
        self.memory = broker_with_groups({"orders": partition_count})
        self.first_ms = self.memory.clock.now_ms()
        log = self.memory.cluster.partition("orders", 0).log
        self.batch_count = segment_count * batches_a_segment
        size = len(records(1))
        self.memory.cluster.configs.alter_topic("orders", {"segment.bytes": str(size * batches_a_segment), "index.interval.bytes": "1"})
        for number in range(self.batch_count):
            self.memory.append("orders", 0, records(1, timestamp=self.first_ms + number * STEP_MS))
        assert len(log.segments) == segment_count
        self.memory.cluster.configs.alter_topic("orders", {})
        self.end_offset = log.log_end_offset

    def dispatch(self, frame: memoryview) -> Work:
        def work() -> None:
            answer = self.memory.dispatcher.dispatch(self.memory.connection, frame)
            assert isinstance(answer, list)

        return work


def produce(broker: Broker) -> Callable[[], Work]:
    batch = records(1, timestamp=broker.first_ms)
    data = k00_produce.Partition(index=0, records=batch)
    request = k00_produce.Request(acks=-1, timeout_ms=1000, topic_data=[k00_produce.Topic(name="orders", partition_data=[data])])
    return lambda: broker.dispatch(memoryview(bytearray(frame_of(request, 9))))


class Session:
    """Polls within a session of all partitions, the first of which changes: its consumer asks for what comes behind the last answer."""

    def __init__(self, broker: Broker, **fields: Any) -> None:
        self.broker = broker
        self.fields = {"min_bytes": 1, "isolation_level": 0} | fields
        self.session_id = self.epoch = 0
        count = len(broker.memory.cluster.topic("orders").partitions)
        opening = self.request(dict.fromkeys(range(1, count), 0) | {0: broker.end_offset})
        self.session_id = broker.memory.ask(opening, 12).session_id

    def request(self, offsets: dict[int, int], wait_ms: int = 0) -> k01_fetch.Request:
        asked = [
            k01_fetch.Partition(partition=index, fetch_offset=offset, partition_max_bytes=1 << 20) for index, offset in offsets.items()
        ]
        topics = [k01_fetch.Topic(topic="orders", partitions=asked)]
        self.epoch += 1
        return k01_fetch.Request(
            max_wait_ms=wait_ms, session_id=self.session_id, session_epoch=self.epoch - 1, topics=topics, **self.fields
        )

    def append(self) -> int:
        return self.broker.memory.append("orders", 0, records(1, timestamp=self.broker.first_ms)).base_offset


def fetch(broker: Broker) -> Callable[[], Work]:
    session = Session(broker)
    return lambda: broker.dispatch(frame_of(session.request({0: session.append()}), 12))


def waiting_fetch(broker: Broker) -> Callable[[], Work]:
    """From its arrival to its answer, with the appends that bring what it waits for: the first one is too little."""
    session = Session(broker, min_bytes=len(records(1)) + 1, isolation_level=1)

    def one_more() -> Work:
        frame = frame_of(session.request({0: session.append() + 1}, wait_ms=500), 12)

        def work() -> None:
            answer = broker.memory.dispatcher.dispatch(broker.memory.connection, frame)
            assert isinstance(answer, Delayed)
            for _ in range(2):
                assert not answer.is_done
                session.append()
                broker.memory.clock.advance(0)
            assert answer.is_done

        return work

    return one_more


def list_offsets(timestamp: int) -> Callable[[Broker], Callable[[], Work]]:
    """`timestamp`: a special one, or milliseconds behind the middle of the log."""

    def case(broker: Broker) -> Callable[[], Work]:
        target = timestamp if timestamp < 0 else broker.first_ms + broker.batch_count // 2 * STEP_MS + timestamp
        asked = k02_list_offsets.Partition(partition_index=0, timestamp=target)
        request = k02_list_offsets.Request(replica_id=-1, topics=[k02_list_offsets.Topic(name="orders", partitions=[asked])])
        return lambda: broker.dispatch(frame_of(request, 7))

    return case


def offset_commit(broker: Broker) -> Callable[[], Work]:
    offset = k08_offset_commit.Partition(partition_index=0, committed_offset=1, committed_metadata=None)
    request = k08_offset_commit.Request(group_id=GROUP, member_id="", topics=[k08_offset_commit.Topic(name="orders", partitions=[offset])])
    return lambda: broker.dispatch(frame_of(request, 8))


def heartbeat(broker: Broker) -> Callable[[], Work]:
    joined = stable(broker.memory)
    request = k12_heartbeat.Request(group_id=GROUP, generation_id=joined.generation_id, member_id=joined.member_id)
    return lambda: broker.dispatch(frame_of(request, 4))


CASES: dict[str, Callable[[Broker], Callable[[], Work]]] = {
    "Produce": produce,
    "Fetch": fetch,
    "Fetch that waits": waiting_fetch,
    "ListOffsets -1": list_offsets(-1),
    "ListOffsets -2": list_offsets(-2),
    "ListOffsets -3": list_offsets(-3),
    "ListOffsets by timestamp": list_offsets(1),
    "OffsetCommit": offset_commit,
    "Heartbeat": heartbeat,
}


@cache
def cost(case: str, **sizes: int) -> int:
    broker = Broker(**sizes)
    try:
        return least_opcodes(CASES[case](broker))
    finally:
        broker.memory.cluster.close(clean=False)


@pytest.mark.parametrize("case", CASES)
def test_partitions(case: str) -> None:
    assert cost(case, partition_count=MANY_PARTITIONS) <= TOLERANCE * cost(case)


@pytest.mark.parametrize("case", [case for case in CASES if case != "ListOffsets by timestamp"])
def test_segments(case: str) -> None:
    assert cost(case, segment_count=MANY_SEGMENTS) <= TOLERANCE * cost(case)


def test_by_timestamp_with_the_logarithm_of_the_segments() -> None:
    """Bisection is C's: nothing is left of it to count."""
    case = "ListOffsets by timestamp"
    assert cost(case, segment_count=MANY_SEGMENTS) <= TOLERANCE * cost(case)


def test_by_timestamp_with_the_logarithm_of_the_index() -> None:
    case, opcodes_a_step = "ListOffsets by timestamp", 40
    few, many = cost(case, batches_a_segment=50), cost(case, batches_a_segment=3200)
    assert many - few <= 2 * opcodes_a_step * math.log2(3200 / 50)  # two indexes


class Transport(asyncio.Transport):
    """Takes everything."""

    def write(self, data: Any) -> None:
        assert data

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def abort(self) -> None:
        pass


@pytest.fixture
def memory() -> Iterator[BrokerInMemory]:
    memory = BrokerInMemory(topics={"orders": 1})
    yield memory
    memory.cluster.close(clean=False)


def test_connections(memory: BrokerInMemory) -> None:
    listener = Listener("PLAINTEXT", memory.dispatcher, memory.clock, ConnectionLimits, Connection)
    asked = k02_list_offsets.Partition(partition_index=0, timestamp=-1)
    request = frame_of(k02_list_offsets.Request(replica_id=-1, topics=[k02_list_offsets.Topic(name="orders", partitions=[asked])]), 5)
    data = len(request).to_bytes(4, "big") + request

    def connect() -> Connection:
        connection = Connection(listener)
        connection.connection_made(Transport())
        return connection

    connection = connect()

    def work() -> None:
        connection.get_buffer(-1)[: len(data)] = data
        connection.buffer_updated(len(data))

    alone = least_opcodes(lambda: work)
    others = [connect() for _ in range(MANY_CONNECTIONS)]
    assert len(listener.connections) == 1 + len(others)
    assert least_opcodes(lambda: work) <= TOLERANCE * alone
