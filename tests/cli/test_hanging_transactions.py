"""A transaction that hangs in minibroker: no client can leave one behind, so it is put into the log behind the coordinator's back."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from minibroker.cli import options
from minibroker.client.client import Client
from minibroker.records.builder import build_batch
from minibroker.records.record import Record
from minibroker.schemas import k10_find_coordinator
from tests.cli.conftest import Commands
from tests.support.broker_in_memory import BrokerInMemory, records
from tests.support.client_in_memory import connector

HANGING = 77  #: its producer id


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Iterator[BrokerInMemory]:
    """Partition 0 of orders: two records, an open transaction, two more records."""
    broker = BrokerInMemory(topics={"orders": 2})
    monkeypatch.setattr(options, "open_client", lambda *_: Client("memory:1", connect=connector(broker)))
    broker.ask(k10_find_coordinator.Request(key_type=k10_find_coordinator.TRANSACTION, coordinator_keys=["any"]))  # makes its topic
    partition = broker.cluster.partition("orders", 0)
    broker.append("orders", 0, records(2))
    lost = Record(0, broker.clock.now_ms(), None, b"lost")
    partition.append_own(
        build_batch([lost], producer_id=HANGING, producer_epoch=4, base_sequence=0, is_transactional=True),
    )
    broker.append("orders", 0, records(2, first=2))
    yield broker
    broker.cluster.close()


def read_committed(offline: Commands) -> list[str]:
    return offline("consume", "orders", "-p", "0", "-e", "--isolation", "read_committed").lines


def test_it_is_found_and_ended(broker: BrokerInMemory, offline: Commands) -> None:
    assert read_committed(offline) == ["v0", "v1"]
    (item,) = json.loads(offline("transactions", "find-hanging", "-o", "json").out)
    assert (item["topic"], item["partition"], item["start_offset"]) == ("orders", 0, 2)
    assert (item["producer_id"], item["producer_epoch"], item["coordinator_epoch"]) == (HANGING, 4, -1)
    assert item["last_timestamp"] == broker.clock.now_ms()
    offline("transactions", "abort", "--topic", "orders", "--partition", "0", "--start-offset", "2")
    assert offline("transactions", "find-hanging", "-o", "name").out == ""
    assert read_committed(offline) == ["v0", "v1", "v2", "v3"]
    (producer,) = json.loads(offline("transactions", "describe-producers", "--topic", "orders", "--partition", "0", "-o", "json").out)
    assert (producer["producer_id"], producer["current_txn_start_offset"], producer["coordinator_epoch"]) == (HANGING, None, 0)
    again = offline("transactions", "abort", "--topic", "orders", "--partition", "0", "--start-offset", "2", code=1).err
    assert "no open transaction starts at offset 2 of orders-0" in again


def test_a_restart_ends_it_too(broker: BrokerInMemory, offline: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    again = broker.restart(clean=False)
    monkeypatch.setattr(options, "open_client", lambda *_: Client("memory:1", connect=connector(again)))
    assert offline("transactions", "find-hanging", "-o", "name").out == ""
    assert read_committed(offline) == ["v0", "v1", "v2", "v3"]
    again.cluster.close()
