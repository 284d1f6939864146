"""What Java clients of 0.8.2 to 0.10.2 said to Apache Kafka 3.9.1, said to us: the same answers.

Of a Fetch the messages are compared, one by one: those that are not compressed to the byte, CRC included. Kafka fills what its conversion
leaves of a response with the beginning of a message that never ends; ours ends with its last message, and may hold more of them.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from minibroker.records.any_format import decode_records, split_batches
from minibroker.records.batch import RecordBatch
from minibroker.records.record import Record
from minibroker.schemas import k00_produce, k01_fetch, k02_list_offsets
from minibroker.wire.codec import decode
from minibroker.wire.schema import Buffer
from tests.golden import Golden, all_golden
from tests.support.broker_in_memory import BrokerInMemory
from tests.support.golden_exchange import answer_of, kafka_answer, kafka_like, serve


def conversation() -> list[Golden]:
    """The requests in the order in which Kafka heard them."""
    old = [frame for frame in all_golden().values() if frame.provenance.broker == "Apache Kafka 3.9.1" and frame.direction == "request"]
    return sorted(old, key=lambda frame: frame.name.rpartition("_")[2])


@pytest.fixture(scope="module")
def answered() -> Iterator[dict[str, bytes]]:
    """Our answers to all of them, by name; by a broker that keeps old records, as the other one had no time to delete them."""
    broker = kafka_like(topics={"old": 1}, config={"log.retention.ms": "-1"})
    yield {request.name: serve(broker, request) for request in conversation()}
    broker.cluster.close()


def of(api_key: int) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        "request_", [each for each in conversation() if each.api_key == api_key], ids=lambda request_: request_.name
    )


@of(k00_produce.API_KEY)
def test_produce(answered: dict[str, bytes], request_: Golden) -> None:
    assert answered[request_.name].hex() == kafka_answer(request_).hex()


@of(k02_list_offsets.API_KEY)
def test_list_offsets(answered: dict[str, bytes], request_: Golden) -> None:
    assert answered[request_.name].hex() == kafka_answer(request_).hex()


def messages(records: Buffer | None) -> list[tuple[RecordBatch, list[Record]]]:
    whole = list(split_batches(records or b"", allow_partial=True))
    assert all(batch.check_crc() for batch in whole)
    return [(batch, list(decode_records(batch, max_bytes=1 << 20))) for batch in whole]


@of(k01_fetch.API_KEY)
def test_fetch(answered: dict[str, bytes], request_: Golden) -> None:
    ours = decode(k01_fetch.Response, answered[request_.name][8:], request_.version, flexible=False)
    kafkas = answer_of(request_)
    (our_topic,), (kafka_topic,) = ours.responses, kafkas.responses
    (our_result,), (kafka_result,) = our_topic.partitions, kafka_topic.partitions
    assert (our_topic.topic, ours.throttle_time_ms) == (kafka_topic.topic, kafkas.throttle_time_ms)
    assert (our_result.partition_index, our_result.error_code) == (kafka_result.partition_index, kafka_result.error_code)
    assert our_result.high_watermark == kafka_result.high_watermark

    ours_read, kafkas_read = messages(our_result.records), messages(kafka_result.records)
    assert kafkas_read
    assert len(ours_read) >= len(kafkas_read)
    for (our_batch, our_records), (kafka_batch, kafka_records) in zip(ours_read, kafkas_read, strict=False):
        assert our_records == kafka_records
        assert (our_batch.base_offset, our_batch.magic, our_batch.attributes) == (
            kafka_batch.base_offset,
            kafka_batch.magic,
            kafka_batch.attributes,
        )
        if not kafka_batch.is_compressed:
            assert bytes(our_batch.data) == bytes(kafka_batch.data)


def test_conversation_covers_all_old_versions() -> None:
    heard = {(each.api_key, each.version) for each in conversation()}
    assert heard == {(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (1, 3), (2, 0), (32, 0), (35, 0)}


def test_the_messages_are_in_the_log_in_the_newest_format() -> None:
    broker = kafka_like(topics={"old": 1}, config={"log.retention.ms": "-1"})
    for request in conversation():
        if request.api_key == k00_produce.API_KEY:
            serve(broker, request)
    stored = list(split_batches(read_all(broker)))
    assert {batch.magic for batch in stored} == {2}
    assert len(stored) == 16
    assert {batch.compression.name for batch in stored} == {"NONE", "GZIP", "SNAPPY", "LZ4"}
    records = [record for batch in stored for record in decode_records(batch, max_bytes=1 << 20)]
    assert [record.offset for record in records] == list(range(32))
    assert [record.timestamp for record in records] == [-1] * 16 + [1_700_000_000_000 + i // 2 * 2 + i % 2 for i in range(16, 32)]
    broker.cluster.close()


def read_all(broker: BrokerInMemory) -> bytes:
    partition = k01_fetch.Partition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    request = k01_fetch.Request(max_wait_ms=0, min_bytes=1, topics=[k01_fetch.Topic(topic="old", partitions=[partition])])
    records: Buffer = broker.ask(request, 12).responses[0].partitions[0].records
    return bytes(records)
