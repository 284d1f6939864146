"""Searches in another process: the same rows as in a thread, and what happens if the process or its files disappear."""

from __future__ import annotations

import asyncio
import itertools
import os
import resource
import signal
import subprocess
import sys
import weakref
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from minibroker.background import Background, LowPriority
from minibroker.config.broker_config import BrokerConfig
from minibroker.console import reading, scanning, searching, tail
from minibroker.console.filters import Filter
from minibroker.console.host import Host
from minibroker.console.observer import Observer
from minibroker.console.page import Visit
from minibroker.console.pages.records import record, records
from minibroker.console.scanning import Scan
from minibroker.console.visitor import Visitor
from minibroker.log.partition_log import PartitionLog
from minibroker.records.builder import build_batch
from minibroker.records.control import ControlType, EndTransactionMarker
from minibroker.records.record import Record
from minibroker.schemas import k00_produce as k00
from minibroker.schemas import k19_create_topics as k19
from minibroker.schemas import k20_delete_topics as k20
from minibroker.server.broker import Broker
from minibroker.storage.files import RealFiles

COUNT, BATCH = 3_000, 500
Work = Callable[[], Any]
Done = Callable[[Any], None]


class NotedProcesses:
    """The background of a broker, which notes work for processes, and may have other work done instead."""

    def __init__(self, background: Background) -> None:
        self._background = background
        self.works: list[Work] = []
        self.before: Callable[[], Any] = lambda: None  #: called before work starts
        self.instead: Work | None = None

    def submit(self, work: Work, done: Done) -> None:
        self._background.submit(work, done)

    def submit_process(self, work: Work, done: Done) -> Callable[[], None]:
        assert isinstance(work, LowPriority)
        self.works.append(work)
        self.before()
        return self._background.submit_process(self.instead or work, done)


class Searched:
    """A broker with files, and a topic of several segments."""

    def __init__(self, broker: Broker) -> None:
        self.host = Host(lambda: broker, Observer())
        self.processes = NotedProcesses(self.host.services.background)
        self.host.reader = reading.LogReader(lambda: self.processes)

    @property
    def log(self) -> PartitionLog:
        return self.host.cluster.partition("t", 0).log

    async def ask(self, request: Any, version: int | None = None) -> None:
        await Visit(self.host, Visitor(self.host.services), {}).ask(request, version)

    async def fill(self) -> None:
        configs = [k19.Config(name="segment.bytes", value=str(1 << 20))]
        topic = k19.Topic(name="t", num_partitions=1, replication_factor=1, assignments=[], configs=configs)
        await self.ask(k19.Request(topics=[topic], timeout_ms=30_000))
        for first in range(0, COUNT, BATCH):
            values = [b'{"id": %d, "text": "%b"}' % (number, b"x" * 800) for number in range(first, first + BATCH)]
            await self.append(bytes(build_batch([Record(index, 1, b"k", each) for index, each in enumerate(values)])))
        assert len(self.log.segments) > 2

    async def append(self, batch: bytes) -> None:
        data = k00.Partition(index=0, records=memoryview(batch))
        await self.ask(k00.Request(acks=-1, timeout_ms=30_000, topic_data=[k00.Topic(name="t", partition_data=[data])]), 11)

    async def search(self, **query: str) -> dict[str, Any]:
        return await records(Visit(self.host, Visitor(self.host.services), {"topic": "t"} | query))


@pytest.fixture
async def searched(tmp_path: Path) -> AsyncIterator[Searched]:
    properties = {"log.dirs": str(tmp_path), "listeners": "PLAINTEXT://127.0.0.1:0", "log.retention.ms": "-1"}
    broker = Broker(BrokerConfig(properties), RealFiles())
    await broker.start()
    found = Searched(broker)
    await found.fill()
    yield found
    await broker.stop(1)


@pytest.mark.parametrize(
    "query",
    [
        {"json": "$.id > 700", "from": "oldest", "count": "10"},
        {"json": "$.id < 900", "count": "10"},
        {"json": "$.id = 0"},
        {"q": '"id": 12'},
        {"q": "nothing has this"},
        {"key": "k", "from": "offset", "offset": "1234"},
        {"key": "k", "count": "200"},
    ],
)
async def test_a_process_finds_what_a_thread_finds(searched: Searched, monkeypatch: pytest.MonkeyPatch, query: dict[str, str]) -> None:
    monkeypatch.setattr("minibroker.console.searching.SEARCH_S", 60.0)
    monkeypatch.setattr(reading, "RESTS", 0)
    found = await searched.search(**query)
    assert searched.processes.works
    searched.processes.works.clear()
    monkeypatch.setattr(RealFiles, "is_shared", False)
    in_thread = await searched.search(**query)
    assert not searched.processes.works
    assert found["rows"] == in_thread["rows"]
    assert [row["offset"] for row in found["rows"]] or query == {"q": "nothing has this"}
    assert found["cursor"] == in_thread["cursor"]


@pytest.mark.parametrize("query", [{"q": "x"}, {"q": "x", "from": "oldest"}, {"from": "oldest"}])
async def test_a_search_that_keeps_many_bytes_leaves_out_no_match(
    searched: Searched, monkeypatch: pytest.MonkeyPatch, query: dict[str, str]
) -> None:
    monkeypatch.setattr(reading, "RESTS", 0)
    monkeypatch.setattr(RealFiles, "is_shared", False)
    monkeypatch.setattr(scanning, "KEPT_MAX", 10_000)  # of about 12 records
    monkeypatch.setattr(searching, "KEPT_MAX", 10_000)
    monkeypatch.setattr(searching, "_WINDOW", 50)
    searched.host.reader.keeps_records = True
    offsets: list[int] = []
    found: dict[str, Any] = {"cursor": ""}
    while len(offsets) < 60:
        found = await searched.search(count="200", cursor=found["cursor"], **query)
        assert 0 < len(found["rows"]) < 30
        offsets += [row["offset"] for row in found["rows"]]
    newest_first = "from" not in query
    assert offsets == [COUNT - 1 - each if newest_first else each for each in range(len(offsets))]


async def test_rows_of_a_process_have_the_states_of_transactions(searched: Searched) -> None:
    search = {"q": "of a transaction", "from": "offset", "offset": "2900"}
    one = [Record(0, 1, b"k", b"of a transaction")]
    for producer_id, is_aborted in ((7, True), (8, False), (9, None)):
        searched.log.append_own(build_batch(one, producer_id=producer_id, producer_epoch=0, base_sequence=0, is_transactional=True))
        if is_aborted is not None:
            kind = ControlType.ABORT if is_aborted else ControlType.COMMIT
            searched.log.end_transaction(EndTransactionMarker(kind, 0), producer_id=producer_id, producer_epoch=0, transaction_version=1)
    found = await searched.search(**search)
    assert searched.processes.works
    assert [row["transaction"] for row in found["rows"]] == ["aborted", "committed", "open"]


async def test_a_search_whose_process_dies_says_so_and_the_next_one_works(searched: Searched) -> None:
    searched.processes.instead = os.abort
    found = await searched.search(q="xxx", **{"from": "oldest"})
    assert "the search process failed, try again: the worker process is gone" in found["rows"][0]["error"]
    assert found["cursor"] == "0:0"
    searched.processes.instead = None
    assert (await searched.search(json="$.id = 7", cursor=found["cursor"], **{"from": "oldest"}))["rows"][0]["offset"] == 7


async def test_a_process_that_does_not_answer_is_given_up(searched: Searched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_LOST_S", 0.01)
    searched.processes.instead = partial(signal.sigwait, [signal.SIGUSR1])
    found = await searched.search(q="xxx", **{"from": "oldest"})
    assert "it did not answer in time" in found["rows"][0]["error"]
    searched.processes.instead = None


async def test_a_search_continues_in_a_thread_if_its_file_was_replaced(searched: Searched) -> None:
    path = Path(searched.log.segments.nth(0).log.path)

    def replace() -> None:
        copy = path.with_suffix(".copy")
        copy.write_bytes(path.read_bytes())
        copy.replace(path)
        searched.processes.before = lambda: None

    searched.processes.before = replace
    found = await searched.search(json="$.id = 2", **{"from": "oldest"})
    assert [row["offset"] for row in found["rows"]] == [2]


class _Row(dict[str, Any]):
    """A row that can be referred to weakly."""


async def test_a_live_tail_of_many_partitions_keeps_few_rows() -> None:
    logs = [SimpleNamespace(log_end_offset=25) for _ in range(20)]
    partitions: Any = [SimpleNamespace(index=index, online_log=log, is_unopened=False) for index, log in enumerate(logs)]
    seen: list[weakref.ref[_Row]] = []

    async def find_rows(partition: Any, scan: Scan) -> tuple[scanning.Found, int]:
        rows = [_Row(timestamp_ms=offset, partition=partition.index, offset=offset) for offset in range(scan.offset, 25)]
        seen.extend(map(weakref.ref, rows))
        assert sum(each() is not None for each in seen) <= 3 * tail.ROWS_MAX
        return scanning.Found([*rows], 25, len(rows)), 1

    host = SimpleNamespace(reader=SimpleNamespace(find_rows=find_rows))
    request: Any = SimpleNamespace(partitions=partitions, wanted=Filter(), visit=SimpleNamespace(host=host))
    last_event_id = ",".join([*(f"{index}:0" for index in range(20)), f"{'9' * 5_000}:1", f"0:{'9' * 5_000}"])
    positions = tail._positions(partitions, last_event_id)
    rows, skipped = await tail._new_rows(request, positions)
    assert [(row["offset"], row["partition"]) for row in rows] == [(23, each) for each in range(15, 20)] + [
        (24, each) for each in range(20)
    ]
    assert skipped == 20 * 25 - tail.ROWS_MAX


async def test_a_topic_may_be_deleted_during_its_search(searched: Searched) -> None:
    deletions: list[asyncio.Task[None]] = []

    def delete() -> None:
        if not deletions:
            deletion = searched.ask(k20.Request(topic_names=["t"], timeout_ms=1), 5)
            deletions.append(asyncio.get_running_loop().create_task(deletion))

    searched.processes.before = delete
    found = await searched.search(q="nothing has this")
    assert [row["error"] for row in found["rows"]] == ["the topic was deleted while it was searched"]
    await deletions[0]


async def test_a_record_that_takes_too_much_memory_is_a_row_with_an_error(searched: Searched, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> bool:
        raise MemoryError

    place = searched.log.segments.nth(0).range_from(0)
    assert place is not None
    before = resource.getrlimit(resource.RLIMIT_AS)
    monkeypatch.setattr(Filter, "matches", fail)
    found = Scan(0, 3, Filter(from_ms=0)).of_file(place, 60)
    assert [row["error"] for row in found.rows] == ["the batch cannot be read: it takes too much memory"] * len(found.rows)
    assert resource.getrlimit(resource.RLIMIT_AS) == before


@pytest.mark.parametrize("took_s, rests", [(0.01, []), (0.05, [0.03])])
async def test_a_scan_rests_while_other_processes_want_the_processor(
    searched: Searched, monkeypatch: pytest.MonkeyPatch, took_s: float, rests: list[float]
) -> None:
    place = searched.log.segments.nth(0).range_from(0)
    assert place is not None
    clock, cpu, slept = itertools.count(), itertools.count(), list[float]()
    times = SimpleNamespace(
        monotonic=lambda: 0.0 if next(clock) < 2 else took_s, thread_time=lambda: 0.0 if next(cpu) < 1 else 0.01, sleep=slept.append
    )
    monkeypatch.setattr(scanning, "time", times)
    found = Scan(0, COUNT, Filter(key="k")).of_file(place._replace(size=scanning.CHUNK_BYTES), 60)
    assert found.rows
    assert slept[:1] == pytest.approx(rests)


async def test_a_file_that_became_shorter_ends_a_scan(searched: Searched) -> None:
    segment = searched.log.segments.nth(0)
    place = segment.range_from(0)
    assert place is not None
    os.truncate(place.path, place.size // 2)
    found = Scan(0, COUNT, Filter(key="k")).of_file(place, 60)
    assert 0 < found.next_offset == len(found.rows) < BATCH * 2


def test_the_process_imports_neither_the_broker_nor_the_console() -> None:
    code = "import sys, minibroker.console.scanning; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    imported = set(done.stdout.split())
    assert "minibroker.console.filters" in imported
    assert imported.isdisjoint({"asyncio", "uvloop", "aiohttp", "jinja2", "minibroker.log", "minibroker.cluster", "minibroker.dispatch"})


async def test_a_record_leads_to_those_before_and_after_it_over_what_compaction_has_removed(searched: Searched) -> None:
    async def neighbours(offset: int) -> tuple[int | None, int | None]:
        data = await record(Visit(searched.host, Visitor(searched.host.services), {"topic": "t", "partition": "0", "offset": str(offset)}))
        assert data["row"]["offset"] == offset
        return data["previous"], data["next"]

    sparse = [Record(offset, 1, b"k", b"v") for offset in (0, 700, 1_900)]
    searched.log.append_own(build_batch(sparse, keep_offsets=True))
    assert await neighbours(0) == (None, 1)
    assert await neighbours(COUNT - 1) == (COUNT - 2, COUNT)
    assert await neighbours(COUNT) == (COUNT - 1, COUNT + 700)
    assert await neighbours(COUNT + 700) == (COUNT, COUNT + 1_900)
    assert await neighbours(COUNT + 1_900) == (None, None), "the record before is too far away"
