"""What every test of shipping finds: the topics, a price list, and workers that are closed behind it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest

from minibroker.testing import Surface
from orders_sync.prices import read_prices
from orders_sync.shipping import Shipping

#: librdkafka's pauses are for clusters far away.
QUICK = {"session.timeout.ms": 30_000, "heartbeat.interval.ms": 200, "fetch.wait.max.ms": 20}


@pytest.fixture(scope="session")
def minibroker_seed() -> Callable[[Surface], None]:
    def seed(broker: Surface) -> None:
        broker.create_topic("prices", cleanup_policy="compact")
        broker.produce("prices", "120", key="apples")
        broker.produce("prices", "300", key="pears")
        for topic in ("orders", "shipments", "rejected-orders"):
            broker.create_topic(topic, partitions=2)

    return seed


@pytest.fixture
def worker(minibroker: Surface) -> Iterator[Callable[..., Shipping]]:
    """Start a worker: `worker("till")`."""
    workers = []

    def start(name: str = "1") -> Shipping:
        bootstrap_servers = minibroker.bootstrap_servers
        worker = Shipping(bootstrap_servers, name=name, prices=read_prices(bootstrap_servers), consuming=QUICK)
        workers.append(worker)
        return worker.start()

    yield start
    for each in workers:
        each.close()


def order(number: int, product: str = "apples", quantity: int = 1) -> str:
    return json.dumps({"order_id": f"o{number}", "customer": "ada", "product": product, "quantity": quantity})


def ship(worker: Shipping, count: int) -> None:
    """Until so many orders are done with."""
    done = 0
    while done < count:
        done += worker.step()
    assert done == count


def shipped(broker: Surface, count: int) -> list[str]:
    """Which orders were shipped, in order, as soon as there are so many: a real Kafka shows them a moment after the commit."""
    return sorted(record.json()["order_id"] for record in broker.records("shipments", count=count))
