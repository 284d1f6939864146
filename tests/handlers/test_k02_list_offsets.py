"""ListOffsets: each special timestamp from its version on, look-ups by time, both isolation levels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from minibroker.clock import ManualClock
from minibroker.errors import FencedLeaderEpoch, InvalidRequest, UnknownLeaderEpoch, UnknownTopicOrPartition, UnsupportedVersion
from minibroker.schemas import k02_list_offsets as schema
from tests.support.broker_in_memory import BrokerInMemory, records

START_MS = ManualClock().now_ms()


@pytest.fixture
def broker() -> Iterator[BrokerInMemory]:
    """orders-0: offsets 0 to 9 at START_MS + 1000 * offset; orders-1 is empty."""
    broker = BrokerInMemory(topics={"orders": 2})
    for index in range(10):
        broker.append("orders", 0, records(1, timestamp=START_MS + 1000 * index))
    broker.clock.advance(100_000)
    yield broker
    broker.cluster.close()


def request(timestamp: int, index: int = 0, *, topic: str = "orders", epoch: int = -1, **fields: Any) -> schema.Request:
    partition = schema.Partition(partition_index=index, current_leader_epoch=epoch, timestamp=timestamp)
    return schema.Request(replica_id=-1, topics=[schema.Topic(name=topic, partitions=[partition])], **fields)


def ask(broker: BrokerInMemory, wanted: schema.Request, version: int = 11) -> schema.PartitionResult:
    response: schema.Response = broker.ask(wanted, version)
    ((result,),) = [topic.partitions for topic in response.topics]
    return result


def found(broker: BrokerInMemory, wanted: schema.Request, version: int = 11) -> tuple[int, int, int]:
    result = ask(broker, wanted, version)
    assert result.error_code == 0
    return result.timestamp, result.offset, result.leader_epoch


@pytest.mark.parametrize(
    ("timestamp", "answer"),
    [
        (-1, (-1, 10, 0)),
        (-2, (-1, 0, 0)),
        (-3, (START_MS + 9000, 9, 0)),
        (-4, (-1, 0, 0)),
        (-5, (-1, -1, -1)),
        (-6, (-1, -1, -1)),
        (0, (START_MS, 0, 0)),
        (START_MS + 3000, (START_MS + 3000, 3, 0)),
        (START_MS + 3001, (START_MS + 4000, 4, 0)),
        (START_MS + 9001, (-1, -1, -1)),
    ],
)
def test_look_ups(broker: BrokerInMemory, timestamp: int, answer: tuple[int, int, int]) -> None:
    assert found(broker, request(timestamp)) == answer


# What Kafka 4.3.1 answers for an empty partition at version 11.
@pytest.mark.parametrize(("timestamp", "offset", "epoch"), [(-1, 0, 0), (-3, -1, -1), (-4, 0, 0), (-5, -1, -1), (-6, -1, -1), (0, -1, -1)])
def test_an_empty_partition(broker: BrokerInMemory, timestamp: int, offset: int, epoch: int) -> None:
    assert found(broker, request(timestamp, 1)) == (-1, offset, epoch)


@pytest.mark.parametrize(("timestamp", "since"), [(-1, 1), (-2, 1), (-3, 7), (-4, 8), (-5, 9), (-6, 11)])
def test_versions_of_special_timestamps(broker: BrokerInMemory, timestamp: int, since: int) -> None:
    for version in range(schema.VERSIONS[0], schema.VERSIONS[1] + 1):
        expected = 0 if version >= since else UnsupportedVersion.code
        assert ask(broker, request(timestamp), version).error_code == expected, version


@pytest.mark.parametrize("timestamp", [-7, -100, -(2**63)])
def test_other_negative_timestamps_are_not_supported(broker: BrokerInMemory, timestamp: int) -> None:
    assert ask(broker, request(timestamp)).error_code == UnsupportedVersion.code


def test_isolation(broker: BrokerInMemory) -> None:
    log = broker.cluster.partition("orders", 0).log
    log.last_stable_offset = 4
    assert found(broker, request(-1))[1] == 10
    assert found(broker, request(-1, isolation_level=1))[1] == 4
    assert found(broker, request(START_MS + 3000, isolation_level=1))[1] == 3
    assert found(broker, request(START_MS + 4000, isolation_level=1)) == (-1, -1, -1)
    assert found(broker, request(-3, isolation_level=1)) == (-1, -1, -1)


def test_a_held_high_watermark(broker: BrokerInMemory) -> None:
    log = broker.cluster.partition("orders", 0).log
    log.hold_high_watermark()
    broker.append("orders", 0, records(1, timestamp=START_MS + 20_000))
    assert found(broker, request(-1))[1] == 10
    assert found(broker, request(START_MS + 15_000)) == (-1, -1, -1)


def test_earliest_moves_with_the_log_start(broker: BrokerInMemory) -> None:
    broker.cluster.partition("orders", 0).log.advance_log_start_offset(4)
    assert found(broker, request(-2))[1] == 4
    assert found(broker, request(0))[1] == 4


def test_errors_by_partition(broker: BrokerInMemory) -> None:
    assert ask(broker, request(-1, topic="nope")).error_code == UnknownTopicOrPartition.code
    assert ask(broker, request(-1, 7)).error_code == UnknownTopicOrPartition.code
    assert ask(broker, request(-1, epoch=7)).error_code == UnknownLeaderEpoch.code
    broker.cluster.partition("orders", 0).leader_epoch = 5
    assert ask(broker, request(-1, epoch=4)).error_code == FencedLeaderEpoch.code
    assert ask(broker, request(-1, epoch=5)).error_code == 0


def test_a_partition_asked_for_twice_is_refused_once(broker: BrokerInMemory) -> None:
    wanted = request(-1)
    wanted.topics[0].partitions.append(schema.Partition(partition_index=0, timestamp=-2))
    wanted.topics[0].partitions.append(schema.Partition(partition_index=1, timestamp=-2))
    assert [result.error_code for result in broker.ask(wanted, 5).topics[0].partitions] == [InvalidRequest.code, 0]


def test_an_unknown_isolation_level_fails_as_a_whole(broker: BrokerInMemory) -> None:
    assert ask(broker, request(-1, isolation_level=5), 5).error_code == -1
