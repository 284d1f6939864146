"""Fetch: limits, waiting, epochs, isolation, names and ids; answers are those that Kafka 4.3.1 gave to the same requests."""

from __future__ import annotations

import errno
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from minibroker.errors import (
    FencedLeaderEpoch,
    KafkaStorageError,
    NotLeaderOrFollower,
    OffsetOutOfRange,
    UnknownLeaderEpoch,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from minibroker.records.any_format import split_batches
from minibroker.records.builder import build_batch
from minibroker.records.record import Record
from minibroker.schemas import k01_fetch as schema
from minibroker.storage.file_slice import LEAST_SIZE
from minibroker.testing.simulation.held_watermarks import release_high_watermark
from minibroker.wire.schema import replace
from tests.support.broker_in_memory import BrokerInMemory, Pending, records
from tests.support.faulty_files import FaultyFiles

BATCH = records(1)


@pytest.fixture
def broker() -> Iterator[BrokerInMemory]:
    broker = BrokerInMemory(topics={"orders": 2, "clicks": 1})
    for _ in range(10):
        broker.append("orders", 0, BATCH)
    yield broker
    broker.cluster.close()


def partition(offset: int, index: int = 0, max_bytes: int = 1 << 20, **fields: Any) -> schema.Partition:
    return schema.Partition(partition=index, fetch_offset=offset, partition_max_bytes=max_bytes, **fields)


def request(*partitions: schema.Partition, topic: str = "orders", wait_ms: int = 0, min_bytes: int = 1, **fields: Any) -> schema.Request:
    topics = [schema.Topic(topic=topic, partitions=list(partitions))] if partitions else []
    return schema.Request(max_wait_ms=wait_ms, min_bytes=min_bytes, topics=topics, **fields)


def by_id(broker: BrokerInMemory, wanted: schema.Request) -> schema.Request:
    return replace(
        wanted, topics=[replace(topic, topic="", topic_id=broker.cluster.topic(topic.topic).topic_id) for topic in wanted.topics]
    )


def results(response: schema.Response) -> list[schema.PartitionResult]:
    return [result for topic in response.responses for result in topic.partitions]


def offsets(result: schema.PartitionResult) -> list[int]:
    return [batch.base_offset for batch in split_batches(result.records or b"")]


def fetch(broker: BrokerInMemory, wanted: schema.Request, version: int = 12) -> schema.PartitionResult:
    (result,) = results(broker.ask(wanted, version))
    return result


@pytest.mark.parametrize("version", range(4, schema.VERSIONS[1] + 1))  # below: test_k01_fetch_old.py
def test_every_version_reads(broker: BrokerInMemory, version: int) -> None:
    requested = request(partition(7))
    result = fetch(broker, by_id(broker, requested) if version >= 13 else requested, version)
    assert (result.error_code, offsets(result)) == (0, [7, 8, 9])
    assert (result.high_watermark, result.last_stable_offset) == (10, 10)


def test_fetched_records_equal_the_produced_batch(broker: BrokerInMemory) -> None:
    result = fetch(broker, request(partition(3, max_bytes=1)))
    (batch,) = split_batches(result.records or b"")
    assert (batch.base_offset, batch.check_crc(), bytes(batch.payload)) == (3, True, BATCH[61:])


class TestLimits:
    def test_partition_max_bytes(self, broker: BrokerInMemory) -> None:
        assert offsets(fetch(broker, request(partition(0, max_bytes=3 * len(BATCH) + 5)))) == [0, 1, 2]

    @pytest.mark.parametrize("max_bytes", [0, 1, -1])
    def test_at_least_one_batch_is_returned(self, broker: BrokerInMemory, max_bytes: int) -> None:
        assert offsets(fetch(broker, request(partition(4, max_bytes=max_bytes)))) == [4]
        assert offsets(fetch(broker, request(partition(4), max_bytes=max_bytes))) == [4]

    def test_max_bytes_over_partitions(self, broker: BrokerInMemory) -> None:
        broker.append("orders", 1, BATCH)
        both = request(partition(0), partition(0, 1), max_bytes=10 * len(BATCH))
        assert [offsets(result) for result in results(broker.ask(both, 12))] == [list(range(10)), []]

    def test_only_the_first_partition_with_records_may_exceed_max_bytes(self, broker: BrokerInMemory) -> None:
        broker.append("orders", 1, BATCH)
        both = request(partition(10), partition(0, 1), partition(0), max_bytes=1)
        # the same partition twice counts once, at its first place and with its last offset
        assert [(result.partition_index, offsets(result)) for result in results(broker.ask(both, 12))] == [(0, [0]), (1, [])]

    def test_fetch_max_bytes_of_the_broker(self) -> None:
        broker = BrokerInMemory(topics={"orders": 1}, config={"fetch.max.bytes": "1024"})
        for _ in range(50):
            broker.append("orders", 0, BATCH)
        assert len(fetch(broker, request(partition(0))).records or b"") <= 1024


class TestWaiting:
    def park(self, broker: BrokerInMemory, wanted: schema.Request, version: int = 12) -> Pending:
        pending = broker.begin(wanted, version)
        broker.clock.advance(0)
        assert not pending.is_done
        return pending

    def test_append_completes_the_fetch_at_the_end_of_the_turn(self, broker: BrokerInMemory) -> None:
        pending = self.park(broker, request(partition(10), wait_ms=500))
        broker.append("orders", 0, BATCH)
        broker.append("orders", 0, BATCH)
        broker.clock.advance(0)
        assert offsets(results(pending.answer())[0]) == [10, 11]

    def test_append_to_another_partition_does_not_complete_the_fetch(self, broker: BrokerInMemory) -> None:
        pending = self.park(broker, request(partition(10), wait_ms=500))
        broker.append("orders", 1, BATCH)
        broker.clock.advance(499)
        assert not pending.is_done
        broker.clock.advance(1)
        assert offsets(results(pending.answer())[0]) == []
        assert broker.services.purgatory.count == 0

    def test_min_bytes(self, broker: BrokerInMemory) -> None:
        pending = self.park(broker, request(partition(9), wait_ms=500, min_bytes=3 * len(BATCH)))
        broker.append("orders", 0, BATCH)
        broker.clock.advance(10)
        assert not pending.is_done
        broker.append("orders", 0, BATCH)
        broker.clock.advance(0)
        assert offsets(results(pending.answer())[0]) == [9, 10, 11]

    def test_min_bytes_is_capped_at_max_bytes(self, broker: BrokerInMemory) -> None:
        assert broker.begin(request(partition(0), wait_ms=500, min_bytes=1 << 30, max_bytes=100), 12).is_done

    def test_full_limit_satisfies_min_bytes_with_whole_batches(self, broker: BrokerInMemory) -> None:
        limit = 2 * len(BATCH) + 5
        assert broker.begin(request(partition(0, max_bytes=limit), wait_ms=500, min_bytes=limit), 12).is_done
        assert not broker.begin(request(partition(8, max_bytes=limit), wait_ms=500, min_bytes=limit), 12).is_done

    def test_zero_min_bytes_or_wait_is_answered_immediately(self, broker: BrokerInMemory) -> None:
        assert broker.begin(request(partition(10), wait_ms=500, min_bytes=0), 12).is_done
        assert broker.begin(request(partition(10), wait_ms=0), 12).is_done
        assert broker.begin(request(wait_ms=500), 12).is_done

    def test_step_aside_answers_with_available_records(self, broker: BrokerInMemory) -> None:
        pending = self.park(broker, request(partition(8), wait_ms=500, min_bytes=1000))
        pending.in_flight.step_aside()
        assert offsets(results(pending.answer())[0]) == [8, 9]

    def test_partition_error_completes_the_fetch(self, broker: BrokerInMemory) -> None:
        assert broker.begin(request(partition(10), partition(99, 1), wait_ms=500), 12).is_done

    def test_unknown_partition_does_not_complete_a_wait_for_others(self, broker: BrokerInMemory) -> None:
        assert broker.begin(request(partition(0, 9), wait_ms=500), 12).is_done
        pending = self.park(broker, request(partition(10), partition(0, 9), wait_ms=500))
        broker.append("orders", 0, BATCH)
        broker.clock.advance(0)
        assert [result.error_code for result in results(pending.answer())] == [0, UnknownTopicOrPartition.code]

    def test_deletion_answers(self, broker: BrokerInMemory) -> None:
        pending = self.park(broker, request(partition(10), wait_ms=500))
        broker.cluster.delete_topic("orders")
        broker.clock.advance(0)
        assert results(pending.answer())[0].error_code == UnknownTopicOrPartition.code

    def test_fetch_waits_for_the_high_watermark(self, broker: BrokerInMemory) -> None:
        held = broker.cluster.partition("orders", 0)
        broker.hold_high_watermark("orders", 0)
        pending = self.park(broker, request(partition(10), wait_ms=500))
        broker.append("orders", 0, BATCH)
        broker.clock.advance(0)
        assert not pending.is_done
        release_high_watermark(held)
        broker.clock.advance(0)
        assert offsets(results(pending.answer())[0]) == [10]


class TestErrors:
    @pytest.mark.parametrize("offset", [-1, 11, 2**62])
    def test_out_of_range(self, broker: BrokerInMemory, offset: int) -> None:
        result = fetch(broker, request(partition(offset)))
        assert (result.error_code, result.high_watermark, result.log_start_offset) == (OffsetOutOfRange.code, -1, -1)

    def test_below_the_log_start(self, broker: BrokerInMemory) -> None:
        broker.cluster.partition("orders", 0).log.advance_log_start_offset(5)
        assert fetch(broker, request(partition(4))).error_code == OffsetOutOfRange.code
        assert fetch(broker, request(partition(5))).log_start_offset == 5

    def test_unknown_names_and_ids(self, broker: BrokerInMemory) -> None:
        assert fetch(broker, request(partition(0), topic="nope")).error_code == UnknownTopicOrPartition.code
        assert fetch(broker, request(partition(0, 7))).error_code == UnknownTopicOrPartition.code
        unknown = schema.Topic(topic_id=uuid.UUID(int=5), partitions=[partition(0)])
        assert fetch(broker, schema.Request(max_wait_ms=0, min_bytes=1, topics=[unknown]), 17).error_code == UnknownTopicId.code

    def test_recreated_topic_has_another_id(self, broker: BrokerInMemory) -> None:
        expected = by_id(broker, request(partition(3)))
        broker.cluster.delete_topic("orders")
        broker.cluster.create_topic("orders", partition_count=1)
        assert fetch(broker, expected, 17).error_code == UnknownTopicId.code
        assert fetch(broker, request(partition(3))).error_code == OffsetOutOfRange.code

    def test_leader_epochs(self, broker: BrokerInMemory) -> None:
        epoch = broker.cluster.partition("orders", 0).leader_epoch
        assert fetch(broker, request(partition(0, current_leader_epoch=epoch))).error_code == 0
        assert fetch(broker, request(partition(0, current_leader_epoch=epoch + 1))).error_code == UnknownLeaderEpoch.code

    def test_fenced_leader_epoch_returns_the_current_leader(self, broker: BrokerInMemory) -> None:
        broker.cluster.partition("orders", 0).leader_epoch = 1
        expected = by_id(broker, request(partition(0, current_leader_epoch=0)))
        assert fetch(broker, expected, 15).current_leader.leader_id == -1
        response = broker.ask(expected, 16)
        (result,) = results(response)
        assert result.error_code == FencedLeaderEpoch.code
        assert (result.current_leader.leader_id, result.current_leader.leader_epoch) == (1, 1)
        assert [(node.node_id, node.host, node.port) for node in response.node_endpoints] == [(1, "localhost", 9092)]

    def test_replicas_are_refused(self, broker: BrokerInMemory) -> None:
        assert fetch(broker, request(partition(0), replica_id=5)).error_code == NotLeaderOrFollower.code
        follower = schema.ReplicaState(replica_id=5, replica_epoch=1)
        assert fetch(broker, by_id(broker, request(partition(0), replica_state=follower)), 17).error_code == NotLeaderOrFollower.code

    def test_diverging_epochs(self, broker: BrokerInMemory) -> None:
        assert offsets(fetch(broker, request(partition(9, last_fetched_epoch=0)))) == [9]
        assert fetch(broker, request(partition(9, last_fetched_epoch=5))).error_code == OffsetOutOfRange.code
        diverging = fetch(broker, request(partition(99, last_fetched_epoch=0), wait_ms=500))
        assert (diverging.error_code, diverging.diverging_epoch) == (0, schema.EpochEndOffset(epoch=0, end_offset=10))
        assert fetch(broker, request(partition(-5, last_fetched_epoch=0))).error_code == OffsetOutOfRange.code

    @pytest.mark.parametrize("version", [4, 12, 17])
    def test_unknown_isolation_level_fails_the_request(self, broker: BrokerInMemory, version: int) -> None:
        requested = request(partition(0), isolation_level=7)
        response = broker.ask(by_id(broker, requested) if version >= 13 else requested, version)
        codes = [result.error_code for result in results(response)]
        assert (codes, response.error_code) == ([], -1) if version >= 13 else (codes == [-1])

    def test_failing_partition_does_not_affect_others(self, broker: BrokerInMemory) -> None:
        answers = results(broker.ask(request(partition(0, 7), partition(99), partition(0, 1)), 12))
        assert [(result.partition_index, result.error_code) for result in answers] == [(7, 3), (0, 1), (1, 0)]


class TestIsolation:
    def test_only_read_committed_lists_aborted_transactions(self, broker: BrokerInMemory) -> None:
        assert fetch(broker, request(partition(0), isolation_level=1)).aborted_transactions == []
        assert fetch(broker, request(partition(0))).aborted_transactions is None

    def test_isolation_levels_stop_at_their_own_end_offset(self, broker: BrokerInMemory) -> None:
        log = broker.cluster.partition("orders", 0).log
        log.last_stable_offset = 4
        assert offsets(fetch(broker, request(partition(2), isolation_level=1))) == [2, 3]
        assert offsets(fetch(broker, request(partition(6), isolation_level=1))) == []
        assert offsets(fetch(broker, request(partition(6)))) == [6, 7, 8, 9]


class TestSessions:
    def test_spark_s_round(self, broker: BrokerInMemory) -> None:
        opened = broker.ask(by_id(broker, request(partition(0), session_epoch=0)), 17)
        session_id = opened.session_id
        assert session_id > 0
        assert offsets(results(opened)[0]) == list(range(10))
        within = {"session_id": session_id, "wait_ms": 500}
        parked = broker.begin(by_id(broker, request(partition(10), session_epoch=1, **within)), 17)
        broker.clock.advance(500)
        assert (parked.answer().session_id, parked.answer().responses) == (session_id, [])
        back = broker.ask(by_id(broker, request(partition(4, max_bytes=1), session_epoch=2, **within)), 17)
        assert offsets(results(back)[0]) == [4]
        closed = broker.ask(by_id(broker, request(session_epoch=-1, **within)), 17)
        assert (closed.error_code, closed.session_id, closed.responses) == (0, 0, [])

    def test_session_errors(self, broker: BrokerInMemory) -> None:
        response = broker.ask(request(session_id=4, session_epoch=2), 12)
        assert (response.error_code, response.session_id, response.responses) == (70, 0, [])
        opened = broker.ask(request(partition(0), session_epoch=0), 12)
        assert broker.ask(request(session_id=opened.session_id, session_epoch=5), 12).error_code == 71
        assert broker.ask(request(session_id=opened.session_id, session_epoch=1), 17).error_code == 106

    @pytest.mark.parametrize("min_bytes", [1, 1 << 20])
    @pytest.mark.parametrize("version", [12, 17])
    def test_a_topic_deleted_under_a_wait(self, version: int, min_bytes: int, broker: BrokerInMemory) -> None:
        requested = request(partition(10), partition(0, 1), wait_ms=500, min_bytes=min_bytes)
        requested.topics.append(schema.Topic(topic="clicks", partitions=[partition(0)]))
        parked = broker.begin(by_id(broker, requested) if version > 12 else requested, version)
        assert not parked.is_done
        broker.cluster.delete_topic("orders")
        broker.clock.advance(0)
        assert [result.error_code for result in results(parked.answer())] == [3, 3, 0]  # of an id, too: tests/golden/captures/waiting.py

    def test_deleted_records_do_not_reduce_counted_bytes(self, broker: BrokerInMemory) -> None:
        parked = broker.begin(request(partition(10), wait_ms=500, min_bytes=200), 12)
        log = broker.cluster.partition("orders", 0).log
        size = log.segments.size
        log._roll()
        broker.cluster.partition("orders", 0).advance_log_start_offset(10)
        for _ in range(3):
            broker.append("orders", 0, records(1))
            broker.clock.advance(0)
        assert log.segments.size < size
        assert parked.is_done

    def test_a_deleted_topic_in_a_session(self, broker: BrokerInMemory) -> None:
        opened = broker.ask(by_id(broker, request(partition(10), session_epoch=0)), 17)
        broker.cluster.delete_topic("orders")
        response = broker.ask(request(session_id=opened.session_id, session_epoch=1), 17)
        assert [result.error_code for result in results(response)] == [UnknownTopicId.code]


def test_adjacent_partitions_of_a_topic_share_an_entry(broker: BrokerInMemory) -> None:
    requested = request(partition(0), partition(0, 1))
    requested.topics.append(schema.Topic(topic="clicks", partitions=[partition(0)]))
    response = broker.ask(requested, 12)
    assert [(topic.topic, len(topic.partitions)) for topic in response.responses] == [("orders", 2), ("clicks", 1)]


def test_negative_epochs_mean_unset(broker: BrokerInMemory) -> None:
    assert fetch(broker, request(partition(9, current_leader_epoch=-2, last_fetched_epoch=-3))).error_code == 0


def test_failed_request_keeps_its_session(broker: BrokerInMemory) -> None:
    opened = broker.ask(request(partition(9), session_epoch=0), 12)
    failed = broker.ask(request(session_id=opened.session_id, session_epoch=1, isolation_level=7), 12)
    assert (failed.error_code, failed.session_id) == (-1, opened.session_id)


def test_disk_failure_fails_a_large_fetch_but_keeps_the_connection() -> None:
    """Many bytes leave by sendfile, behind the head of the answer: what can be known before is known before."""
    files = FaultyFiles()
    broker = BrokerInMemory(topics={"orders": 1}, files=files)
    broker.append("orders", 0, bytes(build_batch([Record(0, broker.clock.now_ms(), None, bytes(LEAST_SIZE))])))
    assert offsets(fetch(broker, request(partition(0)))) == [0]
    files.fail("read_at", errno.EIO, path_part="orders-0")
    assert fetch(broker, request(partition(0))).error_code == KafkaStorageError.code
