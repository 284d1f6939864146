"""Fetch 0 to 3: message sets of the format that the client knows. The conversion itself: tests/records, tests/log/test_old_readers.py."""

from __future__ import annotations

import errno
from collections.abc import Iterator

import pytest

from minibroker.errors import KafkaStorageError, NotLeaderOrFollower, OffsetOutOfRange, UnknownTopicOrPartition, UnsupportedCompressionType
from minibroker.records.any_format import decode_records, split_batches
from minibroker.records.batch import RecordBatch
from minibroker.records.compression import Compression
from minibroker.records.control import ControlType, EndTransactionMarker, build_end_transaction_batch
from minibroker.records.legacy import build_message_set
from minibroker.records.record import Record
from minibroker.schemas import k00_produce
from minibroker.schemas import k01_fetch as schema
from tests.handlers.fetch.test_k01_fetch import fetch, partition, request, results
from tests.support.broker_in_memory import BrokerInMemory, records
from tests.support.faulty_files import FaultyFiles

OLD = range(4)
MAGIC = {0: 0, 1: 0, 2: 1, 3: 1}
BATCH = records(10)


@pytest.fixture
def broker() -> Iterator[BrokerInMemory]:
    """orders-0 and orders-1 hold two batches of ten records."""
    broker = BrokerInMemory(topics={"orders": 2, "clicks": 1})
    for index in (0, 1):
        broker.append("orders", index, BATCH)
        broker.append("orders", index, BATCH)
    yield broker
    broker.cluster.close()


def read(result: schema.PartitionResult) -> list[Record]:
    assert result.error_code == 0
    return [record for batch in split_batches(result.records or b"") for record in decode_records(batch)]


@pytest.mark.parametrize("version", OLD)
def test_record_format_matches_the_version(broker: BrokerInMemory, version: int) -> None:
    result = fetch(broker, request(partition(0)), version)
    assert {batch.magic for batch in split_batches(result.records or b"")} == {MAGIC[version]}
    assert [record.offset for record in read(result)] == list(range(20))
    assert result.high_watermark == 20


@pytest.mark.parametrize("version", OLD)
def test_message_sets_of_old_producers_are_returned(broker: BrokerInMemory, version: int) -> None:
    """A set of format v0 or v1 is stored as v2, and comes back as it was but for its offset."""
    sets = {
        0: "0000000000000063000000109c3f52cd0000000000016b0000000161",
        1: "0000000000000063000000183bf882e30100ffffffffffffffff000000016b0000000161",
    }
    data = bytes.fromhex(sets[MAGIC[version]])
    requested_partition = k00_produce.Partition(index=0, records=data)
    topics = [k00_produce.Topic(name="clicks", partition_data=[requested_partition])]
    broker.ask(k00_produce.Request(acks=1, timeout_ms=1, topic_data=topics), min(version, 2))
    assert bytes(fetch(broker, request(partition(0), topic="clicks"), 12).records or b"")[16] == 2
    assert bytes(fetch(broker, request(partition(0), topic="clicks"), version).records or b"") == bytes(8) + data[8:]


@pytest.mark.parametrize("version", OLD)
@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP])
def test_log_append_time(version: int, codec: Compression) -> None:
    """Format v1 says it by a bit; v0 has no timestamps. As Kafka 3.9.1 answered."""
    broker = BrokerInMemory(topics={"orders": 1}, config={"log.message.timestamp.type": "LogAppendTime"})
    data = build_message_set([Record(i, 1000 + i, b"k", b"v") for i in range(3)], 1, compression=codec)
    broker.clock.advance(12_345)
    partitions = [k00_produce.Partition(index=0, records=data)]
    own_request = k00_produce.Request(acks=1, timeout_ms=1, topic_data=[k00_produce.Topic(name="orders", partition_data=partitions)])
    assert broker.ask(own_request, 2).responses[0].partition_responses[0].log_append_time_ms == broker.clock.now_ms()
    batches = list(split_batches(fetch(broker, request(partition(0)), version).records or b""))
    assert {batch.attributes for batch in batches} == {(8 if MAGIC[version] else 0) | codec}
    times = [record.timestamp for batch in batches for record in decode_records(batch)]
    assert times == [broker.clock.now_ms() if MAGIC[version] else -1] * 3
    broker.cluster.close()


@pytest.mark.parametrize("version", OLD)
def test_batch_above_the_limit_is_returned_whole(broker: BrokerInMemory, version: int) -> None:
    assert len(read(fetch(broker, request(partition(0, max_bytes=1)), version))) == 10


@pytest.mark.parametrize(("version", "counts"), [(0, [10, 10]), (2, [10, 10]), (3, [10, 0])])
def test_only_version_3_limits_all_partitions(broker: BrokerInMemory, version: int, counts: list[int]) -> None:
    both = request(partition(0, max_bytes=1), partition(0, 1, max_bytes=1), max_bytes=1)
    assert [len(read(result)) for result in results(broker.ask(both, version))] == counts


def test_broker_limit_applies_to_every_version() -> None:
    broker = BrokerInMemory(topics={"orders": 2}, config={"fetch.max.bytes": "1024"})
    for index in (0, 1):
        for _ in range(10):
            broker.append("orders", index, BATCH)
    first, second = results(broker.ask(request(partition(0), partition(0, 1)), 0))
    assert 10 <= len(read(first)) < 100
    assert len(first.records or b"") + len(second.records or b"") <= 2048
    broker.cluster.close()


@pytest.mark.parametrize("version", OLD)
def test_waiting(broker: BrokerInMemory, version: int) -> None:
    parked = broker.begin(request(partition(20), wait_ms=500), version)
    broker.clock.advance(0)
    assert not parked.is_done
    broker.append("orders", 0, BATCH)
    broker.clock.advance(0)
    assert [record.offset for record in read(results(parked.answer())[0])] == list(range(20, 30))


def test_waiting_for_more_bytes(broker: BrokerInMemory) -> None:
    parked = broker.begin(request(partition(20), wait_ms=500, min_bytes=300), 2)  # of what is stored, as in Kafka
    broker.append("orders", 0, BATCH)
    broker.clock.advance(0)
    assert not parked.is_done
    broker.append("orders", 0, BATCH)
    broker.clock.advance(0)
    assert len(read(results(parked.answer())[0])) == 20


@pytest.mark.parametrize("min_bytes", [1, 100])
def test_fetch_skips_control_batches(broker: BrokerInMemory, min_bytes: int) -> None:
    """An old client has no way to pass over them: an empty answer at once would make it ask in circles."""
    log = broker.cluster.partition("orders", 0).log
    producer_id = broker.cluster.metadata.allocate_producer_id()
    marker = build_end_transaction_batch(
        EndTransactionMarker(ControlType.COMMIT, 0), timestamp=1000, producer_id=producer_id, producer_epoch=0
    )
    log._append_batch(RecordBatch(marker))
    parked = broker.begin(request(partition(20), wait_ms=500, min_bytes=min_bytes), 1)
    broker.clock.advance(0)
    assert not parked.is_done
    broker.append("orders", 0, BATCH)
    broker.clock.advance(0)
    assert [record.offset for record in read(results(parked.answer())[0])] == list(range(21, 31))


@pytest.mark.parametrize("version", OLD)
def test_errors(broker: BrokerInMemory, version: int) -> None:
    assert fetch(broker, request(partition(21)), version).error_code == OffsetOutOfRange.code
    assert fetch(broker, request(partition(0, 7)), version).error_code == UnknownTopicOrPartition.code
    assert fetch(broker, request(partition(0), replica_id=1), version).error_code == NotLeaderOrFollower.code
    broker.append("clicks", 0, records(1, compression=Compression.ZSTD))
    assert fetch(broker, request(partition(0), topic="clicks"), version).error_code == UnsupportedCompressionType.code


@pytest.mark.parametrize(("version", "code"), [(0, NotLeaderOrFollower.code), (5, NotLeaderOrFollower.code), (6, KafkaStorageError.code)])
def test_storage_error_is_mapped_for_old_versions(version: int, code: int) -> None:
    files = FaultyFiles()
    broker = BrokerInMemory(topics={"orders": 1}, files=files)
    broker.append("orders", 0, BATCH)
    files.fail("read_at", errno.EIO, path_part="orders-0")
    assert fetch(broker, request(partition(0)), version).error_code == code
    assert fetch(broker, request(partition(0)), version).error_code == code
