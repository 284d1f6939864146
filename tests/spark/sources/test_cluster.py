"""Topics of a cluster as ranges: asked of a broker in memory."""

from __future__ import annotations

import pytest

from minibroker.client.connection import Connection
from minibroker.client.errors import BrokerUnreachable
from minibroker.client.transport import Address, Deadline
from minibroker.clock import ManualClock
from minibroker.records.control import ControlType
from minibroker.spark.failures import SourceError
from minibroker.spark.sources.cluster import ClusterSource
from minibroker.spark.sources.positions import Position, parse_position
from minibroker.spark.sources.ranges import PartitionRange
from minibroker.storage.directory_files import format_uuid
from tests.support.broker_in_memory import BrokerInMemory, records
from tests.support.client_in_memory import connector
from tests.support.compacting import end_transaction
from tests.support.log_batches import idempotent_batch

NOW_MS = ManualClock().now_ms()


@pytest.fixture
def broker() -> BrokerInMemory:
    broker = BrokerInMemory(topics={"orders": 2, "others": 1, "__hidden": 1})
    broker.append("orders", 0, records(10, timestamp=NOW_MS))
    broker.append("others", 0, records(3))
    return broker


def source(broker: BrokerInMemory, isolation_level: str = "read_committed") -> ClusterSource:
    return ClusterSource("memory:1", isolation_level=isolation_level, connect=connector(broker))


def test_all_of_a_topic(broker: BrokerInMemory) -> None:
    found = source(broker).resolve(["orders"])
    assert found.ranges == (PartitionRange("orders", 0, 0, 10), PartitionRange("orders", 1, 0, 0))
    assert found.topic_ids == {"orders": format_uuid(broker.cluster.topic("orders").topic_id)}
    assert found.cluster_id == broker.cluster.cluster_id


def test_names_and_a_pattern_together(broker: BrokerInMemory) -> None:
    found = source(broker).resolve(["others"], pattern="o.*")
    assert [each[:2] for each in found.ranges] == [("orders", 0), ("orders", 1), ("others", 0)]


def test_a_time(broker: BrokerInMemory) -> None:
    found = source(broker).resolve(["orders"], starting=Position(timestamp_ms=NOW_MS + 4), ending=parse_position(f"@{NOW_MS + 1000}"))
    assert found.ranges == (PartitionRange("orders", 0, 4, 10), PartitionRange("orders", 1, 0, 0))


def test_an_open_transaction_ends_what_is_committed(broker: BrokerInMemory) -> None:
    log = broker.cluster.partition("orders", 0).log
    producer_id = broker.cluster.metadata.allocate_producer_id()
    log.append(idempotent_batch(producer_id, 0, b"open", is_transactional=True))
    assert source(broker).resolve(["orders"]).ranges[0].end_offset == 10
    assert source(broker, "read_uncommitted").resolve(["orders"]).ranges[0].end_offset == 11
    end = parse_position('{"orders": {"0": 11, "1": 0}}')
    with pytest.raises(SourceError, match="orders-0 has no offset 11"):
        source(broker).resolve(["orders"], ending=end)
    end_transaction(log, producer_id, ControlType.COMMIT)
    assert source(broker).resolve(["orders"], ending=end).ranges[0].end_offset == 11


def test_an_unknown_topic_is_not_made(broker: BrokerInMemory) -> None:
    with pytest.raises(SourceError, match="there is no topic oders in the cluster at memory:1"):
        source(broker).resolve(["oders"])
    assert "oders" not in broker.cluster.topics
    with pytest.raises(SourceError, match="no topic is given"):
        source(broker).resolve()


def test_a_broker_that_is_away_for_a_moment(broker: BrokerInMemory) -> None:
    """Is waited for where it answered before; else the address is wrong more often."""
    away = [True]
    there = connector(broker)

    def flaky(address: Address, deadline: Deadline) -> Connection:
        if away:
            away.pop()
            raise BrokerUnreachable("away")
        return there(address, deadline)

    found = ClusterSource("memory:1", connect=flaky)
    with pytest.raises(BrokerUnreachable):
        found.resolve(["orders"])
    assert found.resolve(["orders"]).ranges[0].end_offset == 10
    away.append(True)
    assert list(found.topic_ids(["orders"])) == ["orders"]
    assert not away


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"kafka.security.protocol": "SASL_SSL"}, "give client_config, which look-ups use as well"),
        ({"startingOffsets": "earliest"}, "startingOffsets is set by the pipeline"),
        ({"Assign": "{}"}, "Assign is set"),
    ],
)
def test_options_that_cannot_be(options: dict[str, str], says: str) -> None:
    with pytest.raises(SourceError, match=says):
        ClusterSource("memory:1", options=options)


def test_an_isolation_level_that_is_none() -> None:
    with pytest.raises(SourceError, match="read_uncommitted or read_committed"):
        ClusterSource("memory:1", isolation_level="committed")
