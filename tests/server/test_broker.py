"""A whole broker on either loop: start, addresses, stop, what it refuses to start on."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from minibroker.config.broker_config import BrokerConfig
from minibroker.errors import ConfigurationError, NotCoordinator
from minibroker.schemas import k00_produce, k01_fetch, k02_list_offsets, k03_metadata, k10_find_coordinator, k11_join_group, k14_sync_group
from minibroker.server.broker import Broker
from minibroker.server.loop import loop_factory
from minibroker.server.served_node import limits_of
from minibroker.storage.files import RealFiles
from minibroker.testing.simulation.broker import SimulatedBroker
from minibroker.wire.api import api_of
from minibroker.wire.codec import decode, encode
from minibroker.wire.header import (
    RequestHeader,
    decode_response_header,
    encode_request_header,
    request_header_version,
    response_header_version,
)
from tests.server.serving import Client, OnLoop, only_connection, until
from tests.support.broker_in_memory import records


@asynccontextmanager
async def running(folder: Path, **properties: str) -> AsyncIterator[Broker]:
    given = {"log.dirs": str(folder / "data"), "listeners": "PLAINTEXT://127.0.0.1:0"}
    broker = Broker(BrokerConfig(given | {name.replace("_", "."): value for name, value in properties.items()}))
    await broker.start()
    try:
        yield broker
    finally:
        await broker.stop(timeout_s=1)


def test_nodes_that_a_stop_or_another_stop_overtakes_stay_closed(on_loop: OnLoop, tmp_path: Path) -> None:
    """They are opened in the background when other data are served; what was asked for since counts."""

    async def main() -> None:
        given = {"log.dirs": str(tmp_path / "data"), "listeners": "PLAINTEXT://127.0.0.1:0"}
        broker = SimulatedBroker(BrokerConfig(given), broker_count=3)
        await broker.start()
        nodes = broker.nodes
        broker.stop_node(2)
        broker.stop_node(3)
        broker.exchange_data(RealFiles)
        broker.stop_node(3)
        await until(lambda: nodes[1].is_open)
        await broker.start_node(2)  # which waits for whoever opens it
        assert [node.is_open for node in nodes] == [True, True, False]
        broker.stop_node(2)
        broker.exchange_data(RealFiles)
        starting = asyncio.ensure_future(broker.start_node(2))
        await asyncio.sleep(0)
        late = asyncio.ensure_future(broker.start_node(3))
        await broker.stop()
        await starting
        with pytest.raises(RuntimeError, match="not running"):
            await late
        assert not any(listener._servers for node in nodes for listener in node.listeners)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    on_loop(main())


def send(client: Client, module: Any, request: Any, version: int, correlation_id: int = 7) -> None:
    api = api_of(module)
    header = RequestHeader(api_key=api.key, api_version=version, correlation_id=correlation_id, client_id="test")
    client.send(
        encode_request_header(header, request_header_version(api, version)) + encode(request, version, flexible=api.flexible(version))
    )


async def receive(client: Client, module: Any, version: int) -> tuple[int, Any]:
    api = api_of(module)
    frame = await client.receive()
    correlation_id, position = decode_response_header(frame, response_header_version(api, version))
    return correlation_id, decode(api.Response, frame[position:], version, flexible=api.flexible(version))


def produce(*batches: bytes, acks: int = -1) -> k00_produce.Request:
    partitions = [k00_produce.Partition(index=0, records=batch) for batch in batches]
    return k00_produce.Request(acks=acks, timeout_ms=1000, topic_data=[k00_produce.Topic(name="orders", partition_data=partitions)])


def fetch(offset: int, wait_ms: int = 60_000) -> k01_fetch.Request:
    partition = k01_fetch.Partition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    return k01_fetch.Request(max_wait_ms=wait_ms, min_bytes=1, topics=[k01_fetch.Topic(topic="orders", partitions=[partition])])


def latest() -> k02_list_offsets.Request:
    partition = k02_list_offsets.Partition(partition_index=0, timestamp=-1)
    return k02_list_offsets.Request(replica_id=-1, topics=[k02_list_offsets.Topic(name="orders", partitions=[partition])])


async def connect(broker: Broker, number: int = 0) -> Client:
    return await Client.connect(broker.listeners[number])


async def with_orders(broker: Broker) -> Client:
    client = await connect(broker)
    send(client, k03_metadata, k03_metadata.Request(topics=[k03_metadata.Topic(name="orders")]), 4)
    await receive(client, k03_metadata, 4)
    return client


def test_produce_and_fetch_over_a_socket(on_loop: OnLoop, tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            client = await with_orders(broker)
            batch = records(3)
            send(client, k00_produce, produce(batch), 9)
            _, produced = await receive(client, k00_produce, 9)
            assert produced.responses[0].partition_responses[0].base_offset == 0
            send(client, k01_fetch, fetch(0), 11)
            _, fetched = await receive(client, k01_fetch, 11)
            assert bytes(fetched.responses[0].partitions[0].records)[61:] == batch[61:]

    on_loop(main())


def test_acks_0_then_an_answer(on_loop: OnLoop, tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            client = await with_orders(broker)
            send(client, k00_produce, produce(records(3), acks=0), 9, 1)
            send(client, k02_list_offsets, latest(), 5, 2)
            correlation_id, found = await receive(client, k02_list_offsets, 5)
            assert (correlation_id, found.topics[0].partitions[0].offset) == (2, 3)

    on_loop(main())


def join(member_id: str = "") -> k11_join_group.Request:
    protocols = [k11_join_group.Protocol(name="range", metadata=b"")]
    return k11_join_group.Request(
        group_id="g",
        session_timeout_ms=30_000,
        rebalance_timeout_ms=60_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=protocols,
    )


async def enter(client: Client) -> k11_join_group.Response:
    """A member of the group's first generation."""
    find = k10_find_coordinator.Request(key="g", key_type=k10_find_coordinator.GROUP)
    send(client, k10_find_coordinator, find, 1)
    await receive(client, k10_find_coordinator, 1)
    while True:  # as long as the offsets topic is being read
        send(client, k11_join_group, join(), 3)
        joined: k11_join_group.Response
        _, joined = await receive(client, k11_join_group, 3)
        if not joined.error_code:
            return joined


@pytest.mark.parametrize("api", [k11_join_group, k14_sync_group])
def test_members_that_wait_in_a_rebalance_are_sent_away_when_the_broker_stops(
    api: Any, on_loop: OnLoop, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Otherwise their connections stay open as long as the stop may take, and what a consumer sends as it closes gets no answer."""

    async def main() -> None:
        async with running(tmp_path) as broker:
            first, second, third = [await connect(broker) for _ in range(3)]
            joined = await enter(first)
            sync = k14_sync_group.Request(group_id="g", generation_id=1, member_id=joined.member_id, assignments=[])
            send(first, k14_sync_group, sync, 2)
            await receive(first, k14_sync_group, 2)
            assert broker._services is not None
            groups = broker._services.coordinators.groups
            send(second, k11_join_group, join(), 3)
            await until(lambda: groups.classic.describe("g").state.value == "PreparingRebalance")
            if api is k14_sync_group:  # the leader joins again, and does not say what the second member shall read
                send(first, k11_join_group, join(joined.member_id), 3)
                await receive(first, k11_join_group, 3)
                _, follower = await receive(second, k11_join_group, 3)
                sync = k14_sync_group.Request(group_id="g", generation_id=2, member_id=follower.member_id, assignments=[])
                send(second, k14_sync_group, sync, 2)
                send(third, k03_metadata, k03_metadata.Request(topics=[]), 4)
                await receive(third, k03_metadata, 4)  # sent later, so the SyncGroup was read before
            stopping = asyncio.ensure_future(broker.stop(timeout_s=3600))
            _, told = await receive(second, api, 3 if api is k11_join_group else 2)
            assert told.error_code == NotCoordinator.code
            assert await second.is_closed()
            await stopping

    on_loop(main())
    assert "cutting" not in caplog.text


def test_a_parked_fetch_is_answered_by_a_produce_of_another_connection(on_loop: OnLoop, tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            client, other = await with_orders(broker), await connect(broker)
            send(client, k01_fetch, fetch(0), 11)
            await until(lambda: broker.purgatory.count)
            send(other, k00_produce, produce(records(3)), 9)
            _, fetched = await receive(client, k01_fetch, 11)
            assert fetched.responses[0].partitions[0].high_watermark == 3
            assert broker.purgatory.count == 0

    on_loop(main())


def test_list_offsets_does_not_wait_for_a_parked_fetch(on_loop: OnLoop, tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            client = await with_orders(broker)
            send(client, k01_fetch, fetch(0), 11, 1)
            await until(lambda: broker.purgatory.count)
            send(client, k02_list_offsets, latest(), 5, 2)
            correlation_id, fetched = await receive(client, k01_fetch, 11)
            assert (correlation_id, fetched.responses[0].partitions[0].error_code) == (1, 0)
            correlation_id, _ = await receive(client, k02_list_offsets, 5)
            assert correlation_id == 2

    on_loop(main())


def test_flush_before_the_acknowledgement(on_loop: OnLoop, tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path, log_flush_interval_messages="1") as broker:
            client = await with_orders(broker)
            for number in range(20):
                send(client, k00_produce, produce(records(1)), 9, number)
            answers = [await receive(client, k00_produce, 9) for _ in range(20)]
            assert [number for number, _ in answers] == list(range(20))
            assert [answer.responses[0].partition_responses[0].base_offset for _, answer in answers] == list(range(20))
            assert broker.cluster.partition("orders", 0).log.flusher.unflushed_messages == 0

    on_loop(main())


def test_stop_answers_pending_requests_and_closes_cleanly(on_loop: OnLoop, tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            client = await with_orders(broker)
            send(client, k01_fetch, fetch(0), 11)
            await until(lambda: broker.purgatory.count)
            await broker.stop()
            await receive(client, k01_fetch, 11)
            assert await client.is_closed()
            assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()

    on_loop(main())


def test_stop_disconnects_a_client_that_does_not_read(on_loop: OnLoop, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            client = await with_orders(broker)
            send(client, k00_produce, produce(records(20_000)), 9)
            await receive(client, k00_produce, 9)
            client.writer.transport.pause_reading()  # type: ignore[attr-defined]  # a socket transport
            for _ in range(200):
                send(client, k01_fetch, fetch(0), 11)
            connection = only_connection(broker.listeners[0])
            await until(lambda: connection._is_paused)
            await broker.stop(timeout_s=0.05)

    on_loop(main())
    assert "do not read their answers" in caplog.text


def test_several_listeners_with_real_ports(on_loop: OnLoop, tmp_path: Path) -> None:
    async def main() -> None:
        properties = {
            "listeners": "HOST://127.0.0.1:0,DOCKER://127.0.0.1:0",
            "advertised_listeners": "HOST://localhost:0,DOCKER://broker:19092",
            "listener_security_protocol_map": "HOST:PLAINTEXT,DOCKER:PLAINTEXT",
        }
        async with running(tmp_path, **properties) as broker:
            ports = [listener.port for listener in broker.listeners]
            listens = f"DOCKER://broker:19092 (listens on DOCKER://127.0.0.1:{ports[1]})"
            assert broker.addresses == [f"HOST://localhost:{ports[0]}", listens]
            for number, address in enumerate([("localhost", ports[0]), ("broker", 19092)]):
                client = await connect(broker, number)
                send(client, k03_metadata, k03_metadata.Request(topics=[]), 4)
                _, answer = await receive(client, k03_metadata, 4)
                assert [(node.host, node.port) for node in answer.brokers] == [address]

    on_loop(main())


def test_a_port_that_is_taken_is_one_clear_line_and_leaves_nothing_locked(on_loop: OnLoop, tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path / "first") as first:
            port = first.listeners[0].port
            with pytest.raises(ConfigurationError, match=f"cannot listen on PLAINTEXT://127.0.0.1:{port}: .*in use"):
                async with running(tmp_path / "second", listeners=f"PLAINTEXT://127.0.0.1:{port}"):
                    pass
        async with running(tmp_path / "second"):
            pass

    on_loop(main())


def test_two_brokers_on_one_directory(on_loop: OnLoop, tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path):
            with pytest.raises(ConfigurationError, match="data"):
                async with running(tmp_path):
                    pass

    on_loop(main())


def test_bad_bytes_leave_memory_flat_and_others_unharmed(on_loop: OnLoop, tmp_path: Path) -> None:
    lies = [
        b"GET / HTTP/1.1\r\n\r\n",
        bytes.fromhex("16030102000100"),
        struct.pack(">i", -1),
        struct.pack(">i", 2**31 - 1),
        struct.pack(">ihhih", 16, 3, 4, 7, -1) + struct.pack(">ih", 2**31 - 1, 0),
        struct.pack(">ihhih", 10, 99, 0, 7, -1),
        struct.pack(">ihhih", 10, 0, 77, 7, -1),
    ]

    async def main() -> None:
        async with running(tmp_path) as broker:
            good = await with_orders(broker)
            for lie in lies:
                client = await connect(broker)
                client.writer.write(lie)
                assert await client.is_closed()
            send(good, k02_list_offsets, latest(), 5)
            _, found = await receive(good, k02_list_offsets, 5)
            assert found.topics[0].partitions[0].error_code == 0
            assert len(broker.listeners[0].connections) == 1

    on_loop(main())


def test_limits_come_from_the_configuration() -> None:
    limits = limits_of(BrokerConfig({"max.connections.per.ip.overrides": "127.0.0.1:5, ::1:7", "socket.send.buffer.bytes": "65536"}))
    assert limits.max_connections_per_ip_overrides == {"127.0.0.1": 5, "::1": 7}
    assert (limits.send_buffer_bytes, limits.receive_buffer_bytes, limits.max_idle_ms) == (65536, -1, 600_000)


def test_the_loop_is_chosen_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINIBROKER_LOOP", "asyncio")
    assert loop_factory() is asyncio.new_event_loop
    monkeypatch.setenv("MINIBROKER_LOOP", "uvloop")
    assert "uvloop" in loop_factory().__module__
    monkeypatch.setenv("MINIBROKER_LOOP", "twisted")
    with pytest.raises(ConfigurationError, match="MINIBROKER_LOOP=twisted"):
        loop_factory()
