"""Several brokers under test: every form of them, nodes that stop and start, leaders that a test moves."""

from __future__ import annotations

import asyncio
import re
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from minibroker.testing import Broker, BrokerError, BrokerProcess, BrokerThread
from tests.support.ports import free_ports

TOPIC = "orders"


def answers(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except OSError:
        return False
    return True


@pytest.fixture(params=[BrokerThread, BrokerProcess])
def broker(request: pytest.FixtureRequest) -> Iterator[BrokerThread | BrokerProcess]:
    with request.param(brokers=3, racks=["a", "b", "c"], topics={TOPIC: 3}) as broker:
        yield broker


def test_nodes_stop_and_start_and_a_reset_has_all_again(broker: BrokerThread | BrokerProcess) -> None:
    addresses = broker.nodes.addresses
    assert broker.bootstrap_servers == ",".join(addresses.values())
    assert broker.nodes.alive == [1, 2, 3]
    broker.produce(TOPIC, *(f"v{number}" for number in range(30)))

    broker.nodes.stop(2)
    broker.nodes.stop(2)
    assert broker.nodes.alive == [1, 3]
    assert [answers(address) for address in addresses.values()] == [True, False, True]
    assert all(broker.leaders.describe(TOPIC, index)["leader"] in {1, 3} for index in range(3))
    assert all(broker.leaders.describe(TOPIC, index)["offline"] == [2] for index in range(3))
    broker.produce(TOPIC, *(f"w{number}" for number in range(30)))
    assert len(broker.records(TOPIC, count=60)) == 60
    broker.nodes.start(2)
    assert broker.nodes.addresses == addresses
    assert answers(addresses[2])
    assert all(sorted(broker.leaders.describe(TOPIC, index)["in_sync"]) == [1, 2, 3] for index in range(3))

    broker.nodes.stop(3)
    broker.reset()
    assert broker.topics() == [TOPIC]
    assert broker.nodes.alive == [1, 2, 3]
    assert {broker.leaders.describe(TOPIC, index)["leader"] for index in range(3)} == {1, 2, 3}
    with pytest.raises(BrokerError, match=r"there is no node 7 \(nodes: 1, 2, 3\)"):
        broker.nodes.stop(7)
    assert {request.node for request in broker.request_log} <= {1, 2, 3, None}


def test_node_whose_port_is_taken_stays_stopped() -> None:
    with BrokerThread(brokers=3, topics={TOPIC: 3}) as broker:
        host, _, port = broker.nodes.addresses[3].rpartition(":")
        broker.nodes.stop(3)
        with socket.create_server((host, int(port))):
            with pytest.raises(BrokerError, match=r"node 3 does not start: .* cannot listen on PLAINTEXT://"):
                broker.nodes.start(3)
            broker.reset()
            end_s = time.monotonic() + 10
            while any(3 not in broker.leaders.describe(TOPIC, index)["offline"] for index in range(3)):
                assert time.monotonic() < end_s
            assert broker.nodes.alive == [1, 2]
            assert {broker.leaders.describe(TOPIC, index)["leader"] for index in range(3)} == {1, 2}
        broker.nodes.start(3)
        assert broker.nodes.alive == [1, 2, 3]
        assert answers(f"{host}:{port}")


def test_leaders_are_moved_and_taken_away(broker: BrokerThread | BrokerProcess) -> None:
    before = broker.leaders.describe(TOPIC, 0)
    other = next(node for node in before["replicas"] if node != before["leader"])

    broker.leaders.move(TOPIC, 0, to=other)
    moved = broker.leaders.describe(TOPIC, 0)
    assert (moved["leader"], moved["leader_epoch"]) == (other, before["leader_epoch"] + 1)
    broker.leaders.elect(TOPIC, 0)
    assert broker.leaders.describe(TOPIC, 0)["leader"] == before["leader"]
    broker.leaders.bump_epoch(TOPIC, 0)
    assert broker.leaders.describe(TOPIC, 0)["leader_epoch"] == before["leader_epoch"] + 3
    broker.leaders.take_away(TOPIC, 0)
    assert broker.leaders.describe(TOPIC, 0)["leader"] is None
    broker.leaders.give_back(TOPIC, 0)
    assert broker.leaders.describe(TOPIC, 0)["leader"] == before["leader"]
    with pytest.raises(BrokerError, match="ELECTION_NOT_NEEDED"):
        broker.leaders.elect(TOPIC, 0)


def test_leadership_can_be_taken_from_a_single_broker() -> None:
    with BrokerThread(topics={TOPIC: 1}) as broker:
        broker.produce(TOPIC, "v")
        broker.leaders.take_away(TOPIC, 0)
        assert broker.leaders.describe(TOPIC, 0)["leader"] is None
        broker.reset()
        assert broker.leaders.describe(TOPIC, 0)["leader"] == 1
        broker.leaders.bump_epoch(TOPIC, 0)
        broker.produce(TOPIC, "w")
        assert [record.value for record in broker.records(TOPIC, count=1)] == [b"w"]


@pytest.mark.parametrize("form", [BrokerThread, BrokerProcess])
def test_addresses_and_replicas_are_the_same_after_a_restart(form: type[BrokerThread | BrokerProcess], tmp_path: Path) -> None:
    with ExitStack() as stack:
        broker = stack.enter_context(form(brokers=2, topics={TOPIC: 2}, data_dir=tmp_path, port=free_ports(2)))
        addresses, before = broker.nodes.addresses, [broker.leaders.describe(TOPIC, index)["replicas"] for index in range(2)]
        broker.stop()
        broker.start()
        assert broker.nodes.addresses == addresses
        assert [broker.leaders.describe(TOPIC, index)["replicas"] for index in range(2)] == before


def test_several_brokers_in_the_loop_of_a_test() -> None:
    async def run() -> None:
        async with Broker(brokers=2, topics={TOPIC: 2}) as broker:
            await broker.nodes.stop(1)
            await broker.produce(TOPIC, "v")
            assert [record.value for record in await broker.records(TOPIC, count=1)] == [b"v"]
            await broker.nodes.start(1)
            assert (await broker.leaders.describe(TOPIC, 0))["leader"] == 2

    asyncio.run(run())


@pytest.mark.parametrize(("brokers", "racks"), [(0, ()), (101, ()), (2, "ab")])
def test_numbers_that_cannot_be(brokers: int, racks: tuple[str, ...] | str) -> None:
    with pytest.raises(BrokerError):
        BrokerThread(brokers=brokers, racks=racks)


def test_the_example_of_the_page() -> None:
    page = Path(__file__).parents[2] / "docs" / "several-brokers.md"
    (program,) = re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE)
    exec(program, {})  # noqa: S102  that is what it is for
