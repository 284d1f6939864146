"""An advertised address at which another cluster answers: the client sends nothing there."""

from __future__ import annotations

import pytest

from minibroker.client.client import Client
from minibroker.client.connection import Connection
from minibroker.client.errors import BrokerUnreachable, WrongCluster
from minibroker.client.offsets import LATEST, list_offsets
from minibroker.client.topics import delete_topics
from minibroker.client.transport import Address, Deadline
from minibroker.schemas import k02_list_offsets, k03_metadata, k20_delete_topics
from tests.client.fake_broker import FakeBroker

A, B = Address("localhost", 9092), Address("localhost", 19501)
REFUSAL = (
    "broker 1 of cluster cluster-b (reached at localhost:19501) advertises localhost:9092, but another cluster answers there, cluster-a: "
    "nothing was sent to it. Set advertised.listeners of broker 1 to an address that leads to it "
    "('minibroker doctor -b localhost:19501' shows more)"
)


def broker(cluster_id: str | None, advertised: Address = A) -> FakeBroker:
    made = FakeBroker(topics={"payments": 1})
    made.cluster_id, made.advertised = cluster_id, advertised
    return made


class Network:
    """Brokers by address."""

    def __init__(self, brokers: dict[Address, FakeBroker]) -> None:
        self.brokers = brokers
        self.connections: list[Connection] = []

    def connect(self, address: Address, deadline: Deadline) -> Connection:
        if address not in self.brokers:
            raise BrokerUnreachable(f"no connection to {address}")
        self.connections.append(self.brokers[address].connect(address, deadline))
        return self.connections[-1]


def apis(broker: FakeBroker) -> list[int]:
    return [key for key, _, _ in broker.requests]


def test_a_change_is_refused_before_it_is_sent() -> None:
    a, b = broker("cluster-a"), broker("cluster-b")
    network = Network({A: a, B: b})
    with Client("localhost:19501", connect=network.connect) as client, pytest.raises(WrongCluster) as refused:
        delete_topics(client, ["payments"])
    assert str(refused.value) == REFUSAL
    assert k20_delete_topics.API_KEY not in apis(a) + apis(b)
    assert network.connections[-1].address == A
    assert network.connections[-1].closed


def test_so_is_a_read() -> None:
    a, b = broker("cluster-a"), broker("cluster-b")
    network = Network({A: a, B: b})
    with Client("localhost:19501", connect=network.connect) as client:
        client.metadata(["payments"])
        with pytest.raises(WrongCluster):
            list_offsets(client, {("payments", 0): LATEST})
        with pytest.raises(WrongCluster):  # a second attempt is not trusted either
            list_offsets(client, {("payments", 0): LATEST})
    assert k02_list_offsets.API_KEY not in apis(a)


def test_each_address_of_the_cluster_is_verified_once() -> None:
    mapped = broker("cluster-b")
    network = Network({A: mapped, B: mapped})
    with Client("localhost:19501", connect=network.connect) as client:
        client.metadata([])
        first = client.to_node(1, client.deadline())
        assert first.address == A
        assert len(mapped.requests_for(k03_metadata)) == 2
        first.close()
        assert client.to_node(1, client.deadline()) is not first
        client.to_address(B, client.deadline()).close()
        client.to_address(B, client.deadline())
        assert len(mapped.requests_for(k03_metadata)) == 2


def test_bootstrap_servers_of_two_clusters() -> None:
    a, b = broker("cluster-a", A), broker("cluster-b", B)
    network = Network({A: a, B: b})
    with Client("localhost:9092,localhost:19501", connect=network.connect) as client:
        client.metadata([])
        client.close()
        del network.brokers[A]
        with pytest.raises(
            WrongCluster, match=r"^localhost:9092 belongs to cluster cluster-a, but localhost:19501 to cluster cluster-b: give"
        ):
            client.metadata([])


@pytest.mark.parametrize(("first", "second"), [(None, "cluster-a"), ("cluster-b", None)])
def test_broker_without_a_cluster_id_is_trusted(first: str | None, second: str | None) -> None:
    network = Network({A: broker(second), B: broker(first)})
    with Client("localhost:19501", connect=network.connect) as client:
        assert client.to_controller(client.deadline()).address == A


def test_broker_before_cluster_ids_is_not_queried() -> None:
    """Metadata v0 would answer with all topics."""
    old = broker(None)
    old.versions[3] = (0, 1)
    network = Network({A: old, B: broker("cluster-b")})
    with Client("localhost:19501", connect=network.connect) as client:
        assert client.to_controller(client.deadline()).address == A
    assert not old.requests_for(k03_metadata)


def test_a_cluster_that_was_replaced_at_its_address_is_taken_as_it_is() -> None:
    one = broker("cluster-a")
    network = Network({A: one})
    with Client("localhost:9092", connect=network.connect) as client:
        client.metadata([])
        one.cluster_id = "cluster-new"
        client.metadata([])
        assert (client.cluster_id, client.to_controller(client.deadline()).address) == ("cluster-new", A)


def test_advertised_brokers_are_verified_and_unreachable_ones_skipped() -> None:
    b = broker("cluster-b")
    network = Network({B: b})
    with Client("localhost:19501", connect=network.connect) as client:
        client.verify_brokers()
        network.brokers[A] = broker("cluster-a")
        with pytest.raises(WrongCluster):
            client.verify_brokers()
