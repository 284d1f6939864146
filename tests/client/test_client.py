"""The client: connections, retries and time-outs."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from minibroker.client.client import Client
from minibroker.client.connection import Connection
from minibroker.client.errors import BrokerUnreachable, TimedOut, UnsupportedByBroker
from minibroker.client.offsets import EARLIEST, LATEST, MAX_TIMESTAMP, FoundOffset, list_offsets
from minibroker.client.transport import Address, Deadline
from minibroker.errors import InvalidTopicException, UnknownTopicOrPartition
from minibroker.schemas import k02_list_offsets, k03_metadata
from minibroker.wire.schema import replace
from tests.client.fake_broker import ConnectionLost, FakeBroker


def client_of(broker: FakeBroker, timeout_ms: int = 60_000) -> Client:
    return Client("fake:1", timeout_ms=timeout_ms, connect=broker.connect)


def lost(request: Any, version: int) -> Any:
    raise ConnectionLost


def found(offset: int, error_code: int = 0) -> Any:
    def script(request: k02_list_offsets.Request, version: int) -> k02_list_offsets.Response:
        return k02_list_offsets.Response(
            topics=[
                k02_list_offsets.TopicResult(
                    name=topic.name,
                    partitions=[
                        k02_list_offsets.PartitionResult(
                            partition_index=p.partition_index, error_code=error_code, offset=offset + p.partition_index
                        )
                        for p in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    return script


def test_next_bootstrap_server_is_tried() -> None:
    broker = FakeBroker(topics={"orders": 1})

    def connect(address: Address, deadline: Deadline) -> Connection:
        if address.host == "down":
            raise BrokerUnreachable(f"no connection to {address}")
        return broker.connect(address, deadline)

    client = Client("down:1,up:2", connect=connect)
    assert [topic.name for topic in client.metadata(None).topics] == ["orders"]


def test_unreachable_brokers_fail_immediately_with_the_first_address() -> None:
    broker = FakeBroker()
    broker.reachable = False
    client = Client("one:1,two:2", timeout_ms=None, connect=broker.connect)
    with pytest.raises(BrokerUnreachable, match="one:1"):
        client.metadata(None)


def test_broken_connection_is_reopened() -> None:
    broker = FakeBroker(topics={"orders": 1})
    broker.in_turn(k03_metadata, lost, lost, broker._metadata)
    assert len(client_of(broker).metadata(None).topics) == 1
    assert broker.connection_count == 3


def test_unavailable_broker_times_out_with_the_reason() -> None:
    broker = FakeBroker()
    broker.on(k03_metadata, lost)
    with pytest.raises(TimedOut, match=r"gave up after 0\.2 s: .*closed the connection"):
        client_of(broker, 200).metadata(None)


def test_unknown_topic_fails_immediately_with_advice() -> None:
    broker = FakeBroker()
    with pytest.raises(UnknownTopicOrPartition, match="minibroker topics create orders"):
        client_of(broker).topic("orders")
    assert len(broker.requests_for(k03_metadata)) == 1


def test_client_waits_for_a_topic_that_is_being_created() -> None:
    broker = FakeBroker()

    def appear(request: Any, version: int) -> Any:
        broker.topics["orders"] = 2
        return broker._metadata(request, version)

    broker.in_turn(k03_metadata, broker._metadata, broker._metadata, appear)
    assert len(client_of(broker).topic("orders", create=True).partitions) == 2
    assert [request.allow_auto_topic_creation for request in broker.requests_for(k03_metadata)] == [True] * 3


def test_client_waits_for_a_leader() -> None:
    broker = FakeBroker(topics={"orders": 1})

    def leaderless(request: Any, version: int) -> Any:
        response = broker._metadata(request, version)
        partition = replace(response.topics[0].partitions[0], leader_id=-1)
        return replace(response, topics=[replace(response.topics[0], partitions=[partition])])

    broker.in_turn(k03_metadata, leaderless, broker._metadata)
    assert client_of(broker).topic("orders").partitions[0].leader_id == 1


def test_an_error_that_is_final_is_raised() -> None:
    broker = FakeBroker()

    def refuse(request: Any, version: int) -> Any:
        response = broker._metadata(request, version)
        return replace(response, topics=[replace(response.topics[0], error_code=InvalidTopicException.code)])

    broker.on(k03_metadata, refuse)
    with pytest.raises(InvalidTopicException, match=r"topic \.\."):
        client_of(broker).topic("..")


def test_offsets_of_several_partitions_come_in_one_request() -> None:
    broker = FakeBroker(topics={"orders": 3, "other": 1})
    broker.on(k02_list_offsets, found(100))
    positions = {("orders", index): EARLIEST for index in range(3)} | {("other", 0): LATEST}
    answers = list_offsets(client_of(broker), positions)
    assert {key: answer.offset for key, answer in answers.items() if isinstance(answer, FoundOffset)} == {
        ("orders", 0): 100,
        ("orders", 1): 101,
        ("orders", 2): 102,
        ("other", 0): 100,
    }
    assert len(broker.requests_for(k02_list_offsets)) == 1


def test_moved_leader_is_retried() -> None:
    broker = FakeBroker(topics={"orders": 1})
    broker.in_turn(k02_list_offsets, found(0, error_code=6), lost, found(7))
    answers = list_offsets(client_of(broker), {("orders", 0): LATEST})
    assert answers["orders", 0] == FoundOffset(7, -1, -1)


def test_missing_partition_is_an_error_of_its_own_entry() -> None:
    broker = FakeBroker(topics={"orders": 1})
    broker.on(k02_list_offsets, found(7))
    answers = list_offsets(client_of(broker), {("orders", 0): LATEST, ("orders", 5): LATEST, ("nope", 0): LATEST})
    assert isinstance(answers["orders", 0], FoundOffset)
    assert "has no partition 5 (it has 1)" in str(answers["orders", 5])
    assert isinstance(answers["nope", 0], UnknownTopicOrPartition)


def test_special_time_is_not_sent_to_a_broker_that_does_not_support_it() -> None:
    broker = FakeBroker(topics={"orders": 1}, versions={2: (1, 6)})
    broker.on(k02_list_offsets, found(7))
    with pytest.raises(UnsupportedByBroker):
        list_offsets(client_of(broker), {("orders", 0): MAX_TIMESTAMP})
    assert broker.requests_for(k02_list_offsets) == []


def test_each_leader_gets_its_own_partitions() -> None:
    broker = FakeBroker(topics={"orders": 5})
    broker.nodes = 3
    broker.on(k02_list_offsets, found(100))
    answers = list_offsets(client_of(broker), {("orders", index): LATEST for index in range(5)})
    assert sorted(answers) == [("orders", index) for index in range(5)]
    ports = [address.port for key, address in broker.addressees if key == k02_list_offsets.API_KEY]
    partitions = [[p.partition_index for p in request.topics[0].partitions] for request in broker.requests_for(k02_list_offsets)]
    assert dict(zip(ports, partitions, strict=True)) == {1: [0, 3], 2: [1, 4], 3: [2]}


def test_a_time_out_while_connecting_is_a_time_out() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener:
        address = Address(*listener.getsockname()[:2])
        fillers = [socket.socket() for _ in range(4)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(address)
        with pytest.raises(TimedOut):
            Client(str(address), timeout_ms=100).metadata(None)
        for filler in fillers:
            filler.close()
