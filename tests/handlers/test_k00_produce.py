"""Produce: acks, errors by partition, names and ids, and what must not be acknowledged before it is synced."""

from __future__ import annotations

import errno
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from minibroker.dispatch.flush import FlushTimer
from minibroker.errors import (
    CorruptMessage,
    InvalidRecord,
    InvalidRequiredAcks,
    KafkaError,
    KafkaStorageError,
    OutOfOrderSequenceNumber,
    TransactionalIdAuthorizationFailed,
    UnknownProducerId,
    UnknownTopicId,
    UnknownTopicOrPartition,
    UnsupportedCompressionType,
    WireError,
)
from minibroker.records.any_format import split_batches
from minibroker.records.compression import Compression
from minibroker.records.legacy import build_message_set
from minibroker.records.record import Record
from minibroker.schemas import k00_produce as schema
from minibroker.wire.schema import Buffer
from tests.support.broker_in_memory import BrokerInMemory, records
from tests.support.faulty_files import FaultyFiles

BATCH = records(1)
STRAY = records(1, producer_id=5, producer_epoch=0, base_sequence=0, is_transactional=True)


@pytest.fixture
def broker() -> Iterator[BrokerInMemory]:
    broker = BrokerInMemory(topics={"orders": 2})
    yield broker
    broker.cluster.close()


def request(data: Buffer | None = BATCH, *, index: int = 0, topic: str = "orders", acks: int = -1, **fields: Any) -> schema.Request:
    partition = schema.Partition(index=index, records=data)
    return schema.Request(acks=acks, timeout_ms=1000, topic_data=[schema.Topic(name=topic, partition_data=[partition])], **fields)


def result_of(response: schema.Response) -> schema.PartitionResult:
    ((result,),) = [topic.partition_responses for topic in response.responses]
    return result


def produce(broker: BrokerInMemory, wanted: schema.Request, version: int = 12) -> schema.PartitionResult:
    return result_of(broker.ask(wanted, version))


def end(broker: BrokerInMemory, index: int = 0) -> int:
    return broker.cluster.partition("orders", index).log.log_end_offset


@pytest.mark.parametrize("version", range(schema.VERSIONS[0], schema.VERSIONS[1] + 1))
@pytest.mark.parametrize("acks", [1, -1])
def test_every_version_appends(broker: BrokerInMemory, version: int, acks: int) -> None:
    requested = request(records(3), acks=acks)
    if version >= 13:
        topic = schema.Topic(topic_id=broker.cluster.topic("orders").topic_id, partition_data=requested.topic_data[0].partition_data)
        requested = schema.Request(acks=acks, timeout_ms=1000, topic_data=[topic])
    first, second = (result_of(broker.ask(requested, version)) for _ in range(2))
    assert (first.error_code, first.base_offset, first.log_append_time_ms) == (0, 0, -1)
    assert second.base_offset == 3
    assert first.log_start_offset == (0 if version >= 5 else -1)
    assert end(broker) == 6


def test_each_partition_has_its_own_result(broker: BrokerInMemory) -> None:
    partitions = [schema.Partition(index=index, records=BATCH) for index in (0, 7, 1)]
    own_request = schema.Request(acks=-1, timeout_ms=1, topic_data=[schema.Topic(name="orders", partition_data=partitions)])
    results = broker.ask(own_request, 9).responses[0].partition_responses
    assert [(result.index, result.error_code, result.base_offset) for result in results] == [(0, 0, 0), (7, 3, -1), (1, 0, 0)]
    assert (end(broker), end(broker, 1)) == (1, 1)


def test_log_append_time_is_returned() -> None:
    broker = BrokerInMemory(topics={"orders": 1}, config={"log.message.timestamp.type": "LogAppendTime"})
    broker.clock.advance(5000)
    assert produce(broker, request()).log_append_time_ms == broker.clock.now_ms()


@pytest.mark.parametrize("acks", [2, -2, 32767])
def test_required_acks(broker: BrokerInMemory, acks: int) -> None:
    assert produce(broker, request(acks=acks)).error_code == InvalidRequiredAcks.code
    assert end(broker) == 0


def corrupt(batch: bytes) -> bytes:
    return batch[:-1] + bytes([batch[-1] ^ 1])


@pytest.mark.parametrize(
    ("wanted", "version", "error"),
    [
        (request(topic="nope"), 12, UnknownTopicOrPartition),
        (request(index=7), 12, UnknownTopicOrPartition),
        (request(index=-1), 12, UnknownTopicOrPartition),
        (request(None), 12, InvalidRecord),
        (request(b""), 12, InvalidRecord),
        (request(BATCH + BATCH), 12, InvalidRecord),
        (request(BATCH[:-3]), 12, InvalidRecord),
        (request(corrupt(BATCH)), 12, CorruptMessage),
        (request(records(1, compression=Compression.ZSTD)), 6, UnsupportedCompressionType),
        (request(STRAY), 12, TransactionalIdAuthorizationFailed),
        (request(records(1, is_control=True)), 12, InvalidRecord),
    ],
    ids=[
        "topic", "partition", "negative partition", "null", "empty", "two batches", "cut", "crc", "zstd in v6", "stray", "control",
    ],
)  # fmt: skip
def test_refused_batch_is_not_appended(broker: BrokerInMemory, wanted: schema.Request, version: int, error: type[Exception]) -> None:
    result = produce(broker, wanted, version)
    assert (result.error_code, result.base_offset) == (error.code, -1)  # type: ignore[attr-defined]  # a KafkaError
    assert (end(broker), end(broker, 1)) == (0, 0)


def test_an_unknown_topic_id(broker: BrokerInMemory) -> None:
    topic = schema.Topic(topic_id=uuid.UUID(int=5), partition_data=[schema.Partition(index=0, records=BATCH)])
    assert produce(broker, schema.Request(acks=-1, timeout_ms=1, topic_data=[topic]), 13).error_code == UnknownTopicId.code


def test_duplicate_returns_its_first_offset_and_a_gap_is_refused(broker: BrokerInMemory) -> None:
    producer_id = broker.cluster.metadata.allocate_producer_id()
    batch = records(2, producer_id=producer_id, producer_epoch=0, base_sequence=0)
    assert [produce(broker, request(batch)).base_offset for _ in range(2)] == [0, 0]
    gap = records(1, producer_id=producer_id, producer_epoch=0, base_sequence=5)
    assert produce(broker, request(gap)).error_code == OutOfOrderSequenceNumber.code
    assert end(broker) == 2


def test_unallocated_producer_id_is_refused(broker: BrokerInMemory) -> None:
    """Apache Kafka 4.3.1 takes any id; here InitProducerId is the only source of them."""
    made_up = broker.cluster.metadata.allocate_producer_id() + 1_000_000
    answer = produce(broker, request(records(2, producer_id=made_up, producer_epoch=0, base_sequence=0)))
    assert (answer.error_code, answer.base_offset) == (UnknownProducerId.code, -1)
    assert answer.error_message == f"producer id {made_up} was never allocated by this cluster"
    assert end(broker) == 0


def test_error_messages_are_returned_from_version_8(broker: BrokerInMemory) -> None:
    assert produce(broker, request(STRAY), 8).error_message == "transactional records without a transactional_id"
    assert produce(broker, request(index=7), 8).error_message is None


class TestNoAcks:
    def test_acks_0_has_no_answer(self, broker: BrokerInMemory) -> None:
        assert broker.ask(request(acks=0), 9) is None
        assert end(broker) == 1

    @pytest.mark.parametrize("wanted", [request(index=7, acks=0), request(corrupt(BATCH), acks=0), request(STRAY, acks=0)])
    def test_error_with_acks_0_closes_the_connection(self, broker: BrokerInMemory, wanted: schema.Request) -> None:
        with pytest.raises(WireError):
            broker.ask(wanted, 9)
        assert end(broker) == 0


class TestFlushBeforeTheAcknowledgement:
    @pytest.fixture
    def files(self) -> FaultyFiles:
        return FaultyFiles()

    @pytest.fixture
    def broker(self, files: FaultyFiles) -> Iterator[BrokerInMemory]:
        broker = BrokerInMemory(topics={"orders": 2}, config={"log.flush.interval.messages": "1"}, files=files)
        yield broker
        broker.cluster.close()

    def test_produce_is_answered_after_one_sync_per_turn(self, broker: BrokerInMemory, files: FaultyFiles) -> None:
        log = broker.cluster.partition("orders", 0).log
        pending = [broker.begin(request(), 9) for _ in range(3)]
        assert [each.is_done for each in pending] == [False] * 3
        assert log.flusher.recovery_point == 0
        syncs = files.counts.get("sync", 0)
        broker.clock.advance(0)
        assert [result_of(each.answer()).base_offset for each in pending] == [0, 1, 2]
        assert (files.counts["sync"] - syncs, log.flusher.recovery_point) == (1, 3)

    def test_several_partitions(self, broker: BrokerInMemory) -> None:
        pending = [broker.begin(request(index=index), 9) for index in (0, 1)]
        broker.clock.advance(0)
        assert [result_of(each.answer()).error_code for each in pending] == [0, 0]
        assert broker.cluster.partition("orders", 1).log.flusher.unflushed_messages == 0

    def test_no_acks_are_not_waited_for_but_synced(self, broker: BrokerInMemory) -> None:
        assert broker.ask(request(acks=0), 9) is None
        broker.clock.advance(0)
        assert broker.cluster.partition("orders", 0).log.flusher.unflushed_messages == 0

    def test_failed_sync_is_not_acknowledged(self, broker: BrokerInMemory, files: FaultyFiles) -> None:
        """It takes the log directory offline, as in Kafka: see tests/cluster/directories/test_offline_directory.py."""
        files.fail("sync", errno.EIO, path_part="orders-0")
        pending = broker.begin(request(), 9)
        broker.clock.advance(0)
        failed = result_of(pending.answer())
        assert (failed.error_code, failed.base_offset) == (KafkaStorageError.code, -1)
        again = broker.begin(request(), 9)  # the disk is well again, what was lost is lost: never taken for done
        broker.clock.advance(0)
        assert result_of(again.answer()).error_code == KafkaStorageError.code

    def test_sync_that_cannot_start_is_not_acknowledged(
        self, broker: BrokerInMemory, files: FaultyFiles, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(descriptor: int) -> int:
            raise OSError(errno.EIO, "Input/output error")

        pending = broker.begin(request(), 9)
        monkeypatch.setattr(files, "duplicate", fail)
        broker.clock.advance(0)
        monkeypatch.undo()
        assert result_of(pending.answer()).error_code == KafkaStorageError.code


def test_flush_ms_syncs_in_the_background(broker: BrokerInMemory) -> None:
    log = broker.cluster.partition("orders", 0).log
    log.update_config(log.config._replace(flush_ms=1000))
    timer = FlushTimer(broker.cluster, broker.clock, broker.services.flush_queue, 100)
    produce(broker, request())
    broker.clock.advance(900)
    assert log.flusher.unflushed_messages == 1
    broker.clock.advance(200)
    assert log.flusher.unflushed_messages == 0
    timer.stop()


def test_old_format_batch_is_not_transactional(broker: BrokerInMemory) -> None:
    old = bytearray(BATCH)
    old[16], old[22] = 1, 0x10  # in format v1 part of a timestamp
    first, second = schema.Partition(index=0, records=bytes(old)), schema.Partition(index=1, records=BATCH)
    own_request = schema.Request(acks=-1, timeout_ms=1000, topic_data=[schema.Topic(name="orders", partition_data=[first, second])])
    results = broker.ask(own_request, 12).responses[0].partition_responses
    assert [each.error_code for each in results] == [InvalidRecord.code, 0]


def test_log_start_offset_is_returned_if_the_log_refuses(broker: BrokerInMemory) -> None:
    unknown = request(records(1, producer_id=99_999, producer_epoch=0, base_sequence=0))
    assert (produce(broker, unknown).error_code, produce(broker, unknown).log_start_offset) == (UnknownProducerId.code, 0)
    assert produce(broker, request(corrupt(BATCH))).log_start_offset == -1


class TestBeforeVersion3:
    """Message sets of format v0 and v1. What they hold is judged in tests/records; codes are those of Kafka 3.9.1."""

    MESSAGES = build_message_set([Record(0, 1000, b"k", b"v"), Record(1, 1000, None, b"w")], 0)

    @pytest.mark.parametrize("version", [0, 1, 2])
    @pytest.mark.parametrize("magic", [0, 1])
    def test_message_set_becomes_a_batch(self, broker: BrokerInMemory, version: int, magic: int) -> None:
        data = build_message_set([Record(0, broker.clock.now_ms(), b"k", b"v"), Record(0, broker.clock.now_ms(), None, b"w")], magic)
        for base_offset in (0, 2):
            result = produce(broker, request(data), version)
            assert (result.error_code, result.base_offset, result.log_append_time_ms) == (0, base_offset, -1)
        (batch, _) = split_batches(broker.cluster.partition("orders", 0).log.read(0, 1 << 20, isolation=None))
        assert (batch.magic, batch.record_count, batch.max_timestamp) == (2, 2, broker.clock.now_ms() if magic else -1)

    @pytest.mark.parametrize("version", [0, 1, 2])
    @pytest.mark.parametrize("size", [0, 11, 12, 25, 27])
    def test_no_complete_message_is_not_an_error(self, broker: BrokerInMemory, size: int, version: int) -> None:
        result = produce(broker, request(self.MESSAGES[:size]), version)
        assert (result.error_code, result.base_offset) == (0, -1)
        assert end(broker) == 0

    def test_truncated_message_after_a_complete_one_is_dropped(self, broker: BrokerInMemory) -> None:
        assert produce(broker, request(self.MESSAGES[:-1]), 0).base_offset == 0
        assert end(broker) == 1

    @pytest.mark.parametrize(
        ("data", "version", "error"),
        [
            (None, 0, InvalidRecord),
            (corrupt(bytes(MESSAGES)), 0, CorruptMessage),
            (MESSAGES + build_message_set([Record(2, 1000, b"k", b"v")], 1), 2, InvalidRecord),
            (BATCH + BATCH, 2, InvalidRecord),
            (MESSAGES, 3, InvalidRecord),
        ],
        ids=["null", "crc", "two formats", "two batches", "messages in v3"],
    )
    def test_refused(self, broker: BrokerInMemory, data: Buffer | None, version: int, error: type[KafkaError]) -> None:
        assert produce(broker, request(data), version).error_code == error.code
        assert end(broker) == 0

    def test_format_v2_batch_is_accepted(self, broker: BrokerInMemory) -> None:
        assert produce(broker, request(records(3)), 0).base_offset == 0
        assert produce(broker, request(STRAY), 0).error_code == TransactionalIdAuthorizationFailed.code
        assert end(broker) == 3

    def test_no_acks(self, broker: BrokerInMemory) -> None:
        assert broker.ask(request(self.MESSAGES, acks=0), 0) is None
        assert end(broker) == 2
        with pytest.raises(WireError):
            broker.ask(request(corrupt(bytes(self.MESSAGES)), acks=0), 0)
