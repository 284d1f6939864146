"""No page holds the event loop longer than some slices: counted in calls of functions, with a clock that these calls move."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Coroutine, Iterator
from types import FrameType, SimpleNamespace
from typing import Any, cast

import pytest

from minibroker.config.broker_config import BrokerConfig
from minibroker.console import pace
from minibroker.console.host import Host
from minibroker.console.live import Stream
from minibroker.console.observer import KEPT, Observer
from minibroker.console.page import Visit
from minibroker.console.rendering import Templates
from minibroker.console.table import PAGES
from minibroker.console.tail import BUSY_INTERVAL_S, INTERVAL_S, ROWS_MAX, TailRequest, tail
from minibroker.console.visitor import Visitor
from minibroker.records.builder import build_batch
from minibroker.records.record import Record
from minibroker.schemas import k00_produce as k00
from minibroker.schemas import k08_offset_commit as k08
from minibroker.schemas import k10_find_coordinator as k10
from minibroker.schemas import k19_create_topics as k19
from minibroker.schemas import k68_consumer_group_heartbeat as k68
from minibroker.server.broker import Broker
from minibroker.testing.memory_files import MemoryFiles
from minibroker.testing.request_log import LoggedRequest
from tests.console.test_group_kinds import FRAME, InMemoryConsole
from tests.support.broker_in_memory import BrokerInMemory, records

CALL_S = 1e-7  #: that a call takes on a usual machine, by the clock of this test
SLICE = int(pace.SLICE_S / CALL_S)  #: calls
SLICES_MAX = 3  #: of a turn: the last piece of one, and what a page does before its first pause
TOPICS, PARTITIONS, MEMBERS, GROUPS = 1_000, 200, 150, 150


class Calls:
    """Counts calls on this thread."""

    def __init__(self) -> None:
        self.count = 0

    def now_s(self) -> float:
        """Return a time that the calls move."""
        return self.count * CALL_S

    def note(self, _frame: FrameType, event: str, _argument: Any) -> None:
        """Count an event of sys.setprofile."""
        if event in {"call", "c_call"}:
            self.count += 1


class CountingLoop(asyncio.SelectorEventLoop):
    """Knows the longest turn since `reset`."""

    def __init__(self, calls: Calls) -> None:
        super().__init__()
        self._calls = calls
        self.longest = 0

    def _run_once(self) -> None:
        before = self._calls.count
        super()._run_once()  # type: ignore[misc]  # of the standard library
        self.longest = max(self.longest, self._calls.count - before)


class Scene:
    """A broker in memory with much of everything, and its console."""

    def __init__(self, calls: Calls) -> None:
        self.calls = calls
        self.loop = CountingLoop(calls)
        self.templates = Templates()
        self.host = self.loop.run_until_complete(self._host())

    async def _host(self) -> Host:
        properties = {"log.dirs": "/slices", "listeners": "PLAINTEXT://127.0.0.1:0", "offsets.topic.num.partitions": "1"}
        properties["log.retention.ms"] = "-1"  # the records are old, and a slow machine takes longer than the first look at them
        self.broker = Broker(BrokerConfig(properties), MemoryFiles())
        await self.broker.start()
        host = Host(lambda: self.broker, Observer())
        self.visitor = Visitor(host.services)
        await self._fill(Visit(host, self.visitor, {}))
        return host

    async def _fill(self, visit: Visit) -> None:
        topics = [
            k19.Topic(name=f"t{number}", num_partitions=1, replication_factor=1, assignments=[], configs=[]) for number in range(TOPICS)
        ]
        topics.append(k19.Topic(name="wide", num_partitions=PARTITIONS, replication_factor=1, assignments=[], configs=[]))
        await visit.ask(k19.Request(topics=topics, timeout_ms=30_000))
        for _ in range(3):
            batch = build_batch([Record(index, 1, b"key", b'{"id": 1}') for index in range(1_000)])
            data = k00.Partition(index=0, records=memoryview(batch))
            request = k00.Request(acks=-1, timeout_ms=30_000, topic_data=[k00.Topic(name="wide", partition_data=[data])])
            await visit.ask(request, 11)
        await visit.ask(k10.Request(key_type=k10.GROUP, coordinator_keys=["any"]))
        for number in range(MEMBERS):
            member = k68.Request(group_id="big", member_id=f"{number:022}", member_epoch=0, rebalance_timeout_ms=1000,
                                 subscribed_topic_names=["wide"], topic_partitions=[])  # fmt: skip
            await visit.ask(member)
        for number in range(GROUPS):
            await self._commit(visit, f"group-{number}", 1)
        await self._commit(visit, "committed", PARTITIONS)
        for number in range(KEPT):
            entry = LoggedRequest(1, f"client-{number % 7}", "127.0.0.1", "Fetch", 17, topics=("wide",))
            context = SimpleNamespace(connection=self.visitor.connection, request_size=10, broker=visit.services)
            visit.host.observer.began(entry, context, None)  # type: ignore[arg-type]  # what it reads of a context

    @staticmethod
    async def _commit(visit: Visit, group: str, count: int) -> None:
        partitions = [k08.Partition(partition_index=index, committed_offset=0, committed_metadata="") for index in range(count)]
        topics = [k08.Topic(name="wide", partitions=partitions)]
        await visit.ask(k08.Request(group_id=group, member_id="", generation_id_or_member_epoch=-1, topics=topics), 9)

    def longest_turn(self, path: str, **query: str) -> int:
        """Serve a page, and return the calls of its longest turn.

        On a busy machine a worker thread and a timer of the broker can be ready in the same turn. That
        does not happen each time, and a page that does not pause is too long each time. So this is the
        shortest of three attempts.
        """
        visit = Visit(self.host, self.visitor, query)
        self.loop.run_until_complete(self._serve(path, visit))  # compiles the template, opens logs
        longest = self.longest_turn_of(self._serve(path, visit))
        for _ in range(2):
            if longest > SLICES_MAX * SLICE:
                longest = min(longest, self.longest_turn_of(self._serve(path, visit)))
        return longest

    def longest_turn_of(self, work: Coroutine[Any, Any, Any]) -> int:
        """Run a coroutine, and return the calls of its longest turn."""
        gc.collect()  # brokers of other tests are closed when they are collected, by many calls
        gc.disable()
        self.loop.longest = 0
        sys.setprofile(self.calls.note)
        try:
            self.loop.run_until_complete(work)
        finally:
            sys.setprofile(None)
            gc.enable()
        return self.loop.longest

    async def _serve(self, path: str, visit: Visit) -> None:
        page = PAGES[path]
        data = await page.view(visit)
        html = await self.templates.page(page.template, FRAME | data)
        assert html.rstrip().endswith("</html>")

    def close(self) -> None:
        self.loop.run_until_complete(self.broker.stop(1))
        self.loop.close()


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    calls = Calls()
    patch = pytest.MonkeyPatch()
    made = Scene(calls)
    patch.setattr(pace, "time", SimpleNamespace(perf_counter=calls.now_s))
    made.broker.nodes[0].services.slices.now_s = calls.now_s
    yield made
    patch.undo()
    made.close()


@pytest.mark.parametrize(
    "path, query",
    [
        ("/", ""),
        ("/topics", ""),
        ("/topics", "q=7"),
        ("/topic", "name=wide"),
        ("/records", "topic=wide&partition=0"),
        ("/records", "topic=wide&partition=0&q=nothing"),
        ("/records", "topic=wide&json=$.id = 2&from=oldest"),
        ("/records", "topic=wide&count=200"),
        ("/partition", "topic=wide"),
        ("/batch", "topic=wide&offset=0"),
        ("/groups", ""),
        ("/group", "id=big"),
        ("/group", "id=committed"),
        ("/transactions", ""),
        ("/clients", ""),
        ("/requests", ""),
        ("/requests", "client=nobody"),
        ("/access", ""),
        ("/config", "all=1"),
        ("/charts", ""),
    ],
)
def test_no_page_holds_the_loop_longer_than_some_slices(scene: Scene, path: str, query: str) -> None:
    parameters = dict(pair.split("=", 1) for pair in query.split("&") if pair)
    longest = scene.longest_turn(path, **parameters)
    assert 0 < longest <= SLICES_MAX * SLICE, f"{longest / SLICE:.1f} slices"


def test_rows_that_a_live_tail_renders_hold_the_loop_for_a_shorter_time(scene: Scene) -> None:
    partition = scene.host.cluster.partition("wide", 0)
    rows = scene.loop.run_until_complete(scene.host.reader.read_rows(partition, 0, 200)).rows
    data = {"rows": rows, "topic": "wide"}
    assert len(rows) == 200
    # 20 rows are a piece, and a turn may have two. The first attempt may compile the template.
    longest = min(scene.longest_turn_of(scene.templates.block("records.html", "rows", data)) for _ in range(3))
    assert 0 < longest <= SLICES_MAX * pace.LIVE_SLICE_S / CALL_S


class FakeStream:
    """A stream whose pauses take no time. In each of them, some records are appended; after the last one, the visitor leaves."""

    def __init__(self, broker: BrokerInMemory, counts: list[int]) -> None:
        self._broker = broker
        self._counts = counts
        self.pauses: list[float] = []
        self.events: list[tuple[int, int]] = []

    async def send(self, event: str, data: Any, event_id: str = "") -> None:
        if event == "rows":
            self.events.append((data["count"], data["skipped"]))

    async def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        if not self._counts:
            raise ConnectionResetError
        partition = k00.Partition(index=0, records=memoryview(records(self._counts.pop(0))))
        self._broker.ask(k00.Request(acks=1, timeout_ms=1000, topic_data=[k00.Topic(name="orders", partition_data=[partition])]), 11)


def test_a_busy_tail_rests_longer_between_its_rows() -> None:
    broker = BrokerInMemory(topics={"orders": 1})
    visit = Visit(InMemoryConsole(broker).host, Visitor(broker.services), {"topic": "orders"})
    stream = FakeStream(broker, [ROWS_MAX, ROWS_MAX + 15, 2])
    with pytest.raises(ConnectionResetError):
        asyncio.run(tail(TailRequest(visit, lambda: True), cast("Stream", stream), Templates(), ""))
    assert stream.events == [(ROWS_MAX, 0), (ROWS_MAX, 15), (2, 0)]
    assert stream.pauses == [INTERVAL_S, INTERVAL_S, BUSY_INTERVAL_S, INTERVAL_S]
    assert BUSY_INTERVAL_S == 0.5
