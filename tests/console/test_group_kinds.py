"""Groups of the newer kinds on their pages: what the coordinators of a broker in memory know."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from minibroker.console.host import Host
from minibroker.console.observer import Observer
from minibroker.console.page import NotFoundError, Page, Visit
from minibroker.console.rendering import Templates
from minibroker.console.table import PAGES
from minibroker.console.visitor import Visitor
from minibroker.schemas import k10_find_coordinator as k10
from minibroker.schemas import k68_consumer_group_heartbeat as k68
from minibroker.schemas import k76_share_group_heartbeat as k76
from minibroker.schemas import k88_streams_group_heartbeat as k88
from minibroker.server.broker import Broker
from tests.support.broker_in_memory import BrokerInMemory
from tests.support.share_members import Member

FRAME = {
    "navigation": [], "section": "", "title": "", "is_read_only": False, "user": None, "live": "", "twin": "", "has_lab": False,
}  # fmt: skip


class InMemoryConsole:
    """The pages of a broker in memory."""

    def __init__(self, broker: BrokerInMemory) -> None:
        self.broker = broker
        node = SimpleNamespace(services=broker.services, node=broker.cluster.node, listeners=[])
        fake = SimpleNamespace(nodes=[node], cluster=broker.cluster, connections=[], listeners=[], purgatory=broker.services.purgatory)
        self.host = Host(lambda: cast("Broker", fake), Observer())

    def visit(self, path: str, **query: str) -> dict[str, Any]:
        """Return the data of a page, which its template can show."""
        page = PAGES[path]
        return asyncio.run(self._visit(page, query))

    async def _visit(self, page: Page, query: dict[str, str]) -> dict[str, Any]:
        data = await page.view(Visit(self.host, Visitor(self.broker.services), query))
        html = await Templates().page(page.template, FRAME | data)
        assert html.rstrip().endswith("</html>")
        return data


@pytest.fixture
def console() -> InMemoryConsole:
    broker = BrokerInMemory(topics={"orders": 2})
    broker.ask(k10.Request(key_type=k10.GROUP, coordinator_keys=["any"]))
    return InMemoryConsole(broker)


def test_a_consumer_group_has_epochs_and_assignments(console: InMemoryConsole) -> None:
    request = k68.Request(
        group_id="new",
        member_id="a" * 22,
        member_epoch=0,
        rebalance_timeout_ms=1000,
        subscribed_topic_names=["orders"],
        topic_partitions=[],
    )
    assert console.broker.ask(request).error_code == 0
    group = console.visit("/group", id="new")
    assert (group["type"], group["state"], group["member_count"]) == ("consumer", "Stable", 1)
    assert group["group_epoch"] == group["assignment_epoch"] > 0
    assert group["members"][0]["assignment"] == ["orders-0", "orders-1"]
    assert [row["topic"] for row in group["offsets"]] == ["orders", "orders"]
    assert console.visit("/groups")["groups"][0]["type"] == "consumer"


def test_a_share_group_has_the_states_of_its_records(console: InMemoryConsole) -> None:
    heartbeat = k76.Request(group_id="workers", member_id="a", member_epoch=0, subscribed_topic_names=["orders"])
    assert console.broker.ask(heartbeat).error_code == 0
    member = Member(console.broker, "orders")
    member.fetch()
    member.produce(4)
    assert member.fetch() is not None
    member.fetch((0, 0, [1]), (2, 2, [2]), max_records=0)  # accepts the first record, releases the third
    (found,) = [each for each in console.visit("/group", id="workers")["share_partitions"] if each["partition"] == 0]
    states = {(run["first_offset"], run["last_offset"]): (run["state"], run["delivery_count"]) for run in found["runs"]}
    assert states[1, 1] == ("acquired", 1)
    assert states[2, 2][0] in {"available", "acquired"}
    assert found["start_offset"] == 1
    assert all(run["lock_left_ms"] > 0 for run in found["runs"] if run["state"] == "acquired")


def test_a_streams_group_has_the_partitions_of_its_tasks(console: InMemoryConsole) -> None:
    subtopology = k88.Subtopology(
        subtopology_id="0", source_topics=["orders"], source_topic_regex=[], state_changelog_topics=[], repartition_sink_topics=[],
        repartition_source_topics=[], copartition_groups=[],
    )  # fmt: skip
    request = k88.Request(
        group_id="app", member_id="a", member_epoch=0, endpoint_information_epoch=-1, rebalance_timeout_ms=1000, process_id="p",
        topology=k88.Topology(epoch=0, subtopologies=[subtopology]), active_tasks=[], standby_tasks=[], warmup_tasks=[], client_tags=[],
    )  # fmt: skip
    assert console.broker.ask(request).error_code == 0
    group = console.visit("/group", id="app")
    assert group["type"] == "streams"
    assert group["members"][0]["topics"] == ["orders"]


def test_a_group_that_does_not_exist_is_not_found(console: InMemoryConsole) -> None:
    with pytest.raises(NotFoundError):
        console.visit("/group", id="nothing")
