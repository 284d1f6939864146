"""Samples of the metrics page: the meter's counts, at equal distances, in bounded memory."""

from __future__ import annotations

import asyncio
from typing import Any

from minibroker.console.samples import KEPT
from minibroker.metrics.meter import CountedDispatcher, Meter
from minibroker.schemas import k00_produce, k18_api_versions
from tests.console.test_group_kinds import InMemoryConsole
from tests.support.broker_in_memory import BrokerInMemory, records


class Sampled:
    """A broker in memory with a meter, whose samples the test takes."""

    def __init__(self) -> None:
        self.broker = BrokerInMemory(topics={"orders": 1})
        self.console = InMemoryConsole(self.broker)
        self.meter: Meter = self.console.host.meter
        self.broker.dispatcher = self.meter.around(CountedDispatcher(self.broker.services))

    def sample(self) -> None:
        samples = self.console.host.samples
        samples._samples.append(asyncio.run(samples._look(1.5)))

    def chart(self, name: str) -> list[Any]:
        charts: dict[str, list[Any]] = {each["name"]: each["values"] for each in self.console.visit("/charts")["charts"]}
        return charts[name]

    def produce(self, topic: str = "orders") -> None:
        data = k00_produce.Partition(index=0, records=memoryview(records(2)))
        request = k00_produce.Request(acks=-1, timeout_ms=1000, topic_data=[k00_produce.Topic(name=topic, partition_data=[data])])
        self.broker.ask(request, 11)


def test_the_page_shows_what_the_meter_counts() -> None:
    sampled = Sampled()
    sampled.sample()
    for topic in ("orders", "orders", "missing"):
        sampled.produce(topic)
    sampled.broker.ask(k18_api_versions.Request(client_software_name="a", client_software_version="1"))
    sampled.sample()
    rows = {each["api"]: each for each in sampled.console.visit("/charts")["apis"]}
    assert {name: (row["count"], row["errors"]) for name, row in rows.items()} == {"Produce": (3, 1), "ApiVersions": (1, 0)}
    assert rows["Produce"]["p99_ms"] >= rows["Produce"]["median_ms"] > 0
    assert sum(sampled.meter.apis[k00_produce.API_KEY].requests.values()) == 3
    assert [value > 0 for value in sampled.chart("Requests")] == [True]
    assert [value > 0 for value in sampled.chart("Errors in answers")] == [True]
    (p99_ms,) = sampled.chart("Produce requests: 99 % answered within")
    assert p99_ms > 0
    assert sampled.chart("Delay of the event loop") == [1.5]


def test_a_meter_that_starts_again_leaves_a_gap() -> None:
    sampled = Sampled()
    sampled.produce()
    sampled.sample()
    sampled.meter.clear()
    sampled.sample()
    assert sampled.chart("Requests") == [None]
    assert sampled.chart("Produce requests: 99 % answered within") == [None]


def test_fifteen_minutes_are_kept() -> None:
    sampled = Sampled()
    for _ in range(KEPT + 20):
        sampled.sample()
    assert len(sampled.chart("Requests")) == KEPT - 1
    assert (KEPT - 1) * sampled.console.host.samples.interval_s == 15 * 60
