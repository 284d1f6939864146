"""What the broker's log says of clients that will be told an address which cannot work for them, and of whom it says nothing."""

from __future__ import annotations

import logging
import socket
from pathlib import Path
from threading import Event

import pytest

from minibroker.background import InlineBackground
from minibroker.config.broker_config import BrokerConfig
from minibroker.config.listeners import is_loopback
from minibroker.server import advertised_address
from minibroker.server.advertised_address import SEEN_MAX, PeerWatch
from minibroker.server.broker import Broker
from tests.server.serving import Client, until

OWN = "10.0.0.5"  #: the broker's address; its gateway is 10.0.0.1
UNKNOWN = socket.gaierror(socket.EAI_NONAME, "Name or service not known")


@pytest.fixture(autouse=True)
def warnings(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.WARNING, advertised_address.__name__)
    return caplog


def watch(host: str, port: int = 9092, *, known: bool = True, error: OSError = UNKNOWN) -> PeerWatch:
    def resolve(name: str) -> object:
        assert name == host
        if not known:
            raise error
        return [OWN]

    return PeerWatch("OUTSIDE", lambda: (host, port), InlineBackground().submit, gateways=lambda: frozenset({"10.0.0.1"}), resolve=resolve)


@pytest.mark.parametrize("told", ["localhost", "127.0.0.1", "::1", "LOCALHOST"])
def test_remote_client_with_localhost_advertised_is_logged(told: str, warnings: pytest.LogCaptureFixture) -> None:
    listener = watch(told)
    listener.look("10.0.0.7", OWN)
    (record,) = warnings.records
    assert record.getMessage() == (
        f"a client at 10.0.0.7 connected to listener OUTSIDE, but the advertised address {told}:9092 is the client's own machine: "
        "set advertised.listeners=OUTSIDE://HOST:9092 with a name or an address that it can reach (it connected to 10.0.0.5); "
        "'minibroker doctor -b HOST:PORT' tries it from there"
    )
    listener.look("10.0.0.8", OWN)
    assert len(warnings.records) == 1, "once for a listener and what it tells"


@pytest.mark.parametrize(
    ("told", "peer", "own"),
    [
        ("localhost", "127.0.0.1", "127.0.0.1"),
        ("localhost", "::1", "::1"),
        ("localhost", OWN, OWN),  # this machine came to its own address
        ("localhost", "10.0.0.1", OWN),  # the host of our container, perhaps, with our port mapped
        ("localhost", "192.168.65.1", OWN),  # Docker Desktop's host
        ("localhost", "unknown", "unknown"),  # it was gone before anybody looked
        ("broker", "10.0.0.7", OWN),  # another machine may know the name
        ("broker", "127.0.0.1", "127.0.0.1"),  # known here
        ("10.0.0.5", "10.0.0.7", OWN),
        ("fe80::1%eth0", "127.0.0.1", "127.0.0.1"),
    ],
)
def test_plausible_addresses_are_not_logged(told: str, peer: str, own: str, warnings: pytest.LogCaptureFixture) -> None:
    watch(told).look(peer, own)
    assert not warnings.records


def test_local_client_with_an_unresolvable_name_is_logged(warnings: pytest.LogCaptureFixture) -> None:
    listener = watch("broker", 19092, known=False)
    listener.look("127.0.0.1", "127.0.0.1")
    listener.look("::1", "::1")
    (record,) = warnings.records
    assert "the advertised address broker:19092 is a name that is unknown on this machine: set advertised.listeners=" in record.getMessage()


def test_a_name_server_that_is_away_proves_nothing(warnings: pytest.LogCaptureFixture) -> None:
    away = socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
    watch("broker", known=False, error=away).look("127.0.0.1", "127.0.0.1")
    assert not warnings.records


def test_the_number_of_clients_that_are_remembered_is_bounded() -> None:
    listener = watch("10.0.0.5")
    for number in range(SEEN_MAX + 5):
        listener.look(f"10.1.{number // 250}.{number % 250}", OWN)
    assert len(listener.seen) == SEEN_MAX


def test_default_gateways_are_read_from_proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    routes = tmp_path / "route"
    head = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"
    routes.write_text(
        f"{head}eth0\t00000000\t010011AC\t0003\t0\t0\t0\t00000000\t0\t0\t0\neth0\t000011AC\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\n"
    )
    monkeypatch.setattr(advertised_address, "_ROUTES", routes)
    assert advertised_address.default_gateways.__wrapped__() == {"172.17.0.1"}
    monkeypatch.setattr(advertised_address, "_ROUTES", tmp_path / "absent")
    assert advertised_address.default_gateways.__wrapped__() == frozenset()


def test_loopback_addresses() -> None:
    assert all(map(is_loopback, ("localhost", "127.1.2.3", "::1", "localhost.", "ip6-localhost")))
    assert not any(map(is_loopback, ("10.0.0.1", "broker", "localhost.example.com", "", "unknown")))


async def test_broker_checks_connecting_clients(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, warnings: pytest.LogCaptureFixture
) -> None:
    def nobody(host: str) -> object:
        raise UNKNOWN

    monkeypatch.setattr(advertised_address, "_resolve", nobody)
    listeners = {"listeners": "PLAINTEXT://127.0.0.1:0", "advertised.listeners": "PLAINTEXT://broker:0"}
    broker = Broker(BrokerConfig({"log.dirs": str(tmp_path), **listeners}))
    await broker.start()
    try:
        (listener,) = broker.listeners
        for _ in range(2):
            client = await Client.connect(listener)
            await until(lambda: bool(warnings.records))
            client.writer.close()
        assert [record.getMessage().partition(",")[0] for record in warnings.records] == [
            "a client at 127.0.0.1 connected to listener PLAINTEXT"
        ]
        assert f"broker:{listener.port}" in warnings.text
    finally:
        await broker.stop(timeout_s=1)


async def test_slow_name_resolution_does_not_block_the_broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, is_answered, ended = Event(), Event(), Event()

    def slow(host: str) -> object:
        begun.set()
        is_answered.wait(60)
        ended.set()
        raise UNKNOWN

    monkeypatch.setattr(advertised_address, "_resolve", slow)
    listeners = {"listeners": "PLAINTEXT://127.0.0.1:0", "advertised.listeners": "PLAINTEXT://broker:0"}
    broker = Broker(BrokerConfig({"log.dirs": str(tmp_path), **listeners}))
    await broker.start()
    try:
        client = await Client.connect(broker.listeners[0])
        await until(begun.is_set)
        client.writer.close()
    finally:
        await broker.stop(timeout_s=1)
    assert not ended.is_set()
    is_answered.set()
