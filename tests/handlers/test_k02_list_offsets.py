"""ListOffsets: each special timestamp from its version on, look-ups by time, both isolation levels."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from minibroker.clock import ManualClock
from minibroker.errors import (
    FencedLeaderEpoch,
    InvalidRequest,
    LeaderNotAvailable,
    OffsetNotAvailable,
    UnknownLeaderEpoch,
    UnknownTopicOrPartition,
    UnsupportedVersion,
)
from minibroker.records.control import ControlType, EndTransactionMarker
from minibroker.schemas import k02_list_offsets as schema
from minibroker.testing.simulation.held_watermarks import release_high_watermark
from minibroker.wire.schema import replace
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


@pytest.mark.parametrize(("timestamp", "since"), [(-1, 0), (-2, 0), (-3, 7), (-4, 8), (-5, 9), (-6, 11)])
def test_versions_of_special_timestamps(broker: BrokerInMemory, timestamp: int, since: int) -> None:
    for version in range(schema.VERSIONS[0], schema.VERSIONS[1] + 1):
        expected = 0 if version >= since else UnsupportedVersion.code
        assert ask(broker, request(timestamp), version).error_code == expected, version


@pytest.mark.parametrize("timestamp", [-7, -100, -(2**63)])
def test_other_negative_timestamps_are_unsupported(broker: BrokerInMemory, timestamp: int) -> None:
    assert ask(broker, request(timestamp)).error_code == UnsupportedVersion.code


class TestIsolation:
    """As Apache Kafka 4.3.1 answered the same requests to the same log."""

    def append(self, broker: BrokerInMemory, seconds: int, **options: Any) -> int:
        return broker.append("orders", 0, records(1, timestamp=START_MS + 1000 * seconds, **options)).base_offset

    def begin(self, broker: BrokerInMemory, seconds: int) -> int:
        """A producer whose transaction begins with the next record."""
        producer_id = broker.cluster.metadata.allocate_producer_id()
        self.append(broker, seconds, producer_id=producer_id, producer_epoch=0, base_sequence=0, is_transactional=True)
        return producer_id

    def end(self, broker: BrokerInMemory, producer_id: int, ends: ControlType) -> None:
        marker = EndTransactionMarker(ends, 0)
        broker.cluster.partition("orders", 0).end_transaction(marker, producer_id=producer_id, producer_epoch=0, transaction_version=0)

    def test_open_transaction_limits_committed_offsets(self, broker: BrokerInMemory) -> None:
        self.begin(broker, 10)
        self.append(broker, 11)
        assert [found(broker, request(-1, isolation_level=level))[1] for level in (0, 1)] == [12, 10]
        assert [found(broker, request(START_MS + 9000, isolation_level=level))[1] for level in (0, 1)] == [9, 9]
        for timestamp, offset in ((START_MS + 9001, 10), (START_MS + 11_000, 11), (-3, 11)):
            assert found(broker, request(timestamp))[1] == offset
            assert found(broker, request(timestamp, isolation_level=1)) == (-1, -1, -1)

    @pytest.mark.parametrize("ends", [ControlType.COMMIT, ControlType.ABORT])
    def test_transaction_marker_counts_as_an_offset(self, broker: BrokerInMemory, ends: ControlType) -> None:
        """And a marker may be what is found by time: it has the time of the end."""
        self.end(broker, self.begin(broker, 10), ends)
        for level in (0, 1):
            assert found(broker, request(-1, isolation_level=level))[1] == 12
            assert found(broker, request(START_MS + 10_001, isolation_level=level)) == (broker.clock.now_ms(), 11, 0)
            assert found(broker, request(-3, isolation_level=level)) == (broker.clock.now_ms(), 11, 0)


def test_high_watermark_limits_offsets(broker: BrokerInMemory) -> None:
    broker.hold_high_watermark("orders", 0)
    broker.append("orders", 0, records(1, timestamp=START_MS + 20_000))
    assert found(broker, request(-1))[1] == 10
    assert found(broker, request(START_MS + 15_000)) == (-1, -1, -1)


def test_new_leader_waits_for_the_high_watermark(broker: BrokerInMemory) -> None:
    """While the high watermark is below the begin of its epoch (KIP-207)."""
    partition = broker.cluster.partition("orders", 0)
    broker.hold_high_watermark("orders", 0)
    broker.append("orders", 0, records(1, timestamp=START_MS + 20_000))
    broker.cluster.logs.raise_leader_epochs([partition])
    for timestamp in (-1, START_MS + 15_000):
        assert ask(broker, request(timestamp)).error_code == OffsetNotAvailable.code
        assert ask(broker, request(timestamp), 4).error_code == LeaderNotAvailable.code
    assert found(broker, request(-2))[1] == 0
    assert found(broker, request(START_MS))[1] == 0  # found below the high watermark
    release_high_watermark(partition)
    assert found(broker, request(-1))[1] == 11


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


def test_duplicate_partition_is_refused_once(broker: BrokerInMemory) -> None:
    expected = request(-1)
    expected.topics[0].partitions.append(schema.Partition(partition_index=0, timestamp=-2))
    expected.topics[0].partitions.append(schema.Partition(partition_index=1, timestamp=-2))
    assert [result.error_code for result in broker.ask(expected, 5).topics[0].partitions] == [InvalidRequest.code, 0]


def test_unknown_isolation_level_fails_the_request(broker: BrokerInMemory) -> None:
    assert ask(broker, request(-1, isolation_level=5), 5).error_code == -1


class TestVersion0:
    """Offsets where segments begin, by the time of the last write to each: what Kafka 3.9.1 answered for such a log."""

    @pytest.fixture
    def old(self) -> Iterator[BrokerInMemory]:
        """orders-0 has segments from offsets 0, 3 and 6, written to at 1, 2 and 3 s of START_MS, and ends at 8."""
        broker = BrokerInMemory(topics={"orders": 2})
        log = broker.cluster.partition("orders", 0).log
        for offset in range(8):
            if offset in {3, 6}:
                log._roll()
            broker.append("orders", 0, records(1))
        for number, segment in enumerate(log.segments, 1):
            os.utime(segment.log.path, (START_MS / 1000 + number, START_MS / 1000 + number))
        broker.clock.advance(10_000)
        yield broker
        broker.cluster.close()

    @staticmethod
    def offsets(broker: BrokerInMemory, timestamp: int, count: int, index: int = 0) -> list[int]:
        requested = request(timestamp, index)
        requested = replace(
            requested, topics=[replace(requested.topics[0], partitions=[replace(requested.topics[0].partitions[0], max_num_offsets=count)])]
        )
        result = ask(broker, requested, 0)
        assert result.error_code == 0
        return list(result.old_style_offsets)

    @pytest.mark.parametrize(
        ("timestamp", "count", "found"),
        [
            (-1, 1, [8]),
            (-1, 3, [8, 6, 3]),
            (-1, 100, [8, 6, 3, 0]),
            (-1, 0, []),
            (-2, 100, [0]),
            (-2, 0, []),
            (START_MS + 999, 100, []),
            (START_MS + 1000, 100, [0]),
            (START_MS + 2999, 100, [3, 0]),
            (START_MS + 3000, 1, [6]),
            (START_MS + 9_999, 100, [6, 3, 0]),
            (START_MS + 10_000, 100, [8, 6, 3, 0]),
            (2**62, 2, [8, 6]),
        ],
    )
    def test_look_ups(self, old: BrokerInMemory, timestamp: int, count: int, found: list[int]) -> None:
        assert self.offsets(old, timestamp, count) == found

    def test_an_empty_partition(self, old: BrokerInMemory) -> None:
        assert [self.offsets(old, timestamp, 100, 1) for timestamp in (-1, -2, 2**62, 0)] == [[0], [0], [0], []]

    def test_old_offsets_below_the_log_start_are_clamped(self, old: BrokerInMemory) -> None:
        old.cluster.partition("orders", 0).log.advance_log_start_offset(4)
        assert self.offsets(old, -1, 100) == [8, 6, 4]
        assert self.offsets(old, -2, 100) == [4]

    def test_old_offsets_above_the_high_watermark_are_clamped(self, old: BrokerInMemory) -> None:
        log = old.cluster.partition("orders", 0).log
        old.hold_high_watermark("orders", 0)
        log._roll()
        old.append("orders", 0, records(1))
        assert self.offsets(old, -1, 100) == [8, 8, 6, 3, 0]  # two above it are one, as in Kafka; the segment from 8 on is not above it
        assert self.offsets(old, -1, 2) == [8, 8]

    def test_errors(self, old: BrokerInMemory) -> None:
        assert ask(old, request(-1, topic="nope"), 0).error_code == UnknownTopicOrPartition.code
        assert ask(old, request(-1, 7), 0).error_code == UnknownTopicOrPartition.code
        assert ask(old, request(-3), 0).error_code == UnsupportedVersion.code
        expected = request(-1)
        expected.topics[0].partitions[0] = schema.Partition(partition_index=0, timestamp=-1, max_num_offsets=-1)
        assert ask(old, expected, 0).error_code == -1

    def test_duplicate_partition_is_answered_twice(self, old: BrokerInMemory) -> None:
        expected = request(-1)
        expected.topics[0].partitions.append(schema.Partition(partition_index=0, timestamp=-2))
        assert [result.old_style_offsets for result in old.ask(expected, 0).topics[0].partitions] == [[8], [0]]
