"""`max.connection.creation.rate` and the limits of single listeners: turns of new connections, and what clients see."""

from __future__ import annotations

import asyncio
import logging
from itertools import pairwise

import pytest

from minibroker.config.broker_config import BrokerConfig
from minibroker.errors import ConfigurationError, InvalidConfig
from minibroker.schemas import k44_incremental_alter_configs as k44
from minibroker.server.listener import UNLIMITED, WAIT_MAX_MS, ConnectionCounts, ConnectionLimits, ConnectionRate
from minibroker.server.served_node import limits_of
from tests.server.serving import Client, OnLoop, listening
from tests.server.test_muting import StandingClock
from tests.support.broker_in_memory import BrokerInMemory

NOW_MS = 1_700_000_000_000
MAX = 2**31 - 1


def waits(rate: int, count: int) -> list[int | None]:
    turns = ConnectionRate()
    return [turns.wait_ms(rate, NOW_MS) for _ in range(count)]


def test_a_burst_of_ten_seconds_is_served_at_once_and_later_connections_at_the_rate() -> None:
    found = waits(5, 60)
    assert found[:50] == [0] * 50
    assert found[50:54] == [200, 400, 600, 800]
    assert [each is None for each in waits(5, 101)].index(True) == 100


def test_refused_connection_is_not_counted() -> None:
    turns = ConnectionRate()
    for _ in range(500):
        turns.wait_ms(5, NOW_MS)
    assert turns.wait_ms(5, NOW_MS + 1000) == WAIT_MAX_MS - 800


@pytest.mark.parametrize("rate", [1, 0])
def test_the_least_rate_is_one_connection_a_second(rate: int) -> None:
    assert waits(rate, 12)[9:] == [0, 1000, 2000]


def test_no_limit() -> None:
    assert set(waits(UNLIMITED, 1000)) == {0}


def test_connections_below_the_rate_never_wait() -> None:
    turns = ConnectionRate()
    assert {turns.wait_ms(10, NOW_MS + 100 * number) for number in range(300)} == {0}


def test_clock_set_back_does_not_block_connections() -> None:
    turns = ConnectionRate()
    for _ in range(15):
        turns.wait_ms(1, NOW_MS)
    assert turns.wait_ms(1, NOW_MS - 3_600_000) == 0


def test_a_rate_that_changes_holds_from_the_next_connection_on() -> None:
    turns = ConnectionRate()
    found = [turns.wait_ms(1, NOW_MS) for _ in range(12)] + [turns.wait_ms(100, NOW_MS) for _ in range(3)]
    assert all(before <= after for before, after in pairwise(each or 0 for each in found[:12]))
    assert found[12:] == [2010, 2020, 2030]


class HoldingClock(StandingClock):
    """Timers of up to 10 s fire when the test says so."""

    def call_later_ms(self, delay_ms: int, callback):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
        return super().call_later_ms(70 if 100 < delay_ms <= WAIT_MAX_MS else delay_ms, callback)


@pytest.mark.parametrize(
    "limits", [ConnectionLimits(creation_rate=1), ConnectionLimits(creation_rate_of_listener=1)], ids=["in all", "of the listener"]
)
def test_clients_wait_for_their_turn(on_loop: OnLoop, limits: ConnectionLimits, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        clock = HoldingClock()
        async with listening(None, limits, clock=clock) as listener:
            clients = [await Client.connect(listener) for _ in range(12)]
            for client in clients:
                client.send(b"hello")
            for client in clients[:10]:
                assert await client.receive() == b"hello"
            others = [await Client.connect(listener) for _ in range(9)]
            assert await others[-1].is_closed()
            clock.held.pop(0)()
            assert await clients[10].receive() == b"hello"
            clock.held.pop(0)()
            assert await clients[11].receive() == b"hello"

    with caplog.at_level(logging.WARNING):
        on_loop(main())
    assert "too many connections wait because of max.connection.creation.rate" in caplog.text


def test_listener_has_its_own_limit(on_loop: OnLoop, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        counts = ConnectionCounts()
        few, many = ConnectionLimits(max_connections_of_listener=1), ConnectionLimits(max_connections_of_listener=2)
        async with listening(None, few, counts=counts) as one, listening(None, many, counts=counts) as two:
            clients = [await Client.connect(one), await Client.connect(two), await Client.connect(two)]
            for client in clients:
                client.send(b"hello")
                assert await client.receive() == b"hello"
            assert await asyncio.gather(*[(await Client.connect(each)).is_closed() for each in (one, two)])

    with caplog.at_level(logging.WARNING):
        on_loop(main())
    assert "max.connections=1 are open" in caplog.text


def test_limits_come_from_properties_and_change_while_the_broker_runs() -> None:
    own = {"listener.name.plaintext.max.connections": "3", "listener.name.plaintext.max.connection.creation.rate": "4"}
    config = BrokerConfig(own | {"max.connections": "5", "max.connection.creation.rate": "6"})

    def found(listener: str = "PLAINTEXT") -> tuple[int, ...]:
        limits = limits_of(config, listener)
        return (
            limits.max_connections_of_listener,
            limits.creation_rate_of_listener,
            limits.max_connections,
            limits.creation_rate,
        )

    assert found() == (3, 4, 5, 6)
    assert found("OTHER") == (MAX, MAX, 5, 6)
    config.set_dynamic({"listener.name.plaintext.max.connections": "7", "max.connection.creation.rate": "8"}, {})
    assert found() == (7, 4, 5, 8)
    config.set_dynamic({"listener.name.plaintext.max.connections": "7"}, {"listener.name.plaintext.max.connections": "9"})
    assert found() == (9, 4, 5, 6)
    with pytest.raises(InvalidConfig, match=r"listener\.name\.plaintext\.max\.connections"):
        config.set_dynamic({"listener.name.plaintext.max.connections": "many"}, {})
    assert found()[0] == 3 or found()[0] == 9
    with pytest.raises(ConfigurationError, match=r"listener\.name\.plaintext\.max\.connection\.creation\.rate"):
        BrokerConfig({"listener.name.plaintext.max.connection.creation.rate": "-1"})


@pytest.mark.parametrize("name", ["", "0"])
def test_limits_of_a_listener_are_altered_like_any_config(name: str) -> None:
    """For all brokers or for one, as in Apache Kafka (DynamicBrokerConfig.ClusterLevelListenerConfigs)."""
    broker = BrokerInMemory(config={"node.id": "0"})
    limit = "listener.name.plaintext.max.connections"

    def alter(value: str | None) -> int:
        config = k44.Config(name=limit, config_operation=0 if value else 1, value=value)
        request = k44.Request(resources=[k44.Resource(resource_type=4, resource_name=name, configs=[config])], validate_only=False)
        found: int = broker.ask(request).responses[0].error_code
        return found

    assert alter("3") == 0
    assert limits_of(broker.config, "PLAINTEXT").max_connections_of_listener == 3
    assert alter("none") == 42  # INVALID_REQUEST
    assert limits_of(broker.restart().config, "PLAINTEXT").max_connections_of_listener == 3
