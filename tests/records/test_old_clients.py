"""Message sets that Java clients 0.8.2 to 0.10.2 sent, and what Apache Kafka 3.9.1 gave those to read (captures/old.py)."""

from __future__ import annotations

import pytest

from minibroker.records.any_format import decode_records, split_batches
from minibroker.records.batch import RecordBatch
from minibroker.records.compression import Compression
from minibroker.records.convert import downgrade
from minibroker.records.legacy import LegacyBatch
from minibroker.records.record import Record
from minibroker.records.validate import ProduceRules
from minibroker.schemas import k00_produce, k01_fetch
from tests.golden import all_golden, golden
from tests.records.produced import validate_produced

START_MS = 1_700_000_000_000
CODECS = (Compression.NONE, Compression.GZIP, Compression.SNAPPY, Compression.LZ4)
PRODUCED = [name for name in all_golden() if name.startswith("k00_produce_v") and "_request_java_0." in name]
FETCHED = [name for name in all_golden() if name.startswith("k01_fetch_v") and "_response_java_0." in name]


def sent_in(name: str) -> tuple[bytes, int]:
    """The one set of a Produce request, and its version."""
    request = golden(name).decode()
    assert isinstance(request, k00_produce.Request)
    ((partition,),) = (topic.partition_data for topic in request.topic_data)
    assert partition.records is not None
    return bytes(partition.records), golden(name).version


def fetched_in(name: str) -> bytes:
    response = golden(name).decode()
    assert isinstance(response, k01_fetch.Response)
    ((partition,),) = (topic.partitions for topic in response.responses)
    return bytes(partition.records or b"")


def decoded(data: bytes) -> list[Record]:
    return [record for batch in split_batches(data, allow_partial=True) for record in decode_records(batch)]


def test_captures_cover_all_versions() -> None:
    assert [golden(name).version for name in PRODUCED] == [0] * 4 + [1] * 4 + [2] * 8
    assert {golden(name).version for name in FETCHED} == {0, 1, 2, 3}


@pytest.mark.parametrize(("name", "number"), [(name, number) for number, name in enumerate(PRODUCED)])
def test_sets_sent_by_old_clients(name: str, number: int) -> None:
    data, version = sent_in(name)
    codec, magic = CODECS[number % 4], int(version == 2)
    client = golden(name).provenance.client.split()[-1]
    batches = list(split_batches(data))
    assert {(type(batch), batch.magic, batch.compression, batch.check_crc()) for batch in batches} == {(LegacyBatch, magic, codec, True)}
    times = [START_MS + 2 * number, START_MS + 2 * number + 1] if magic else [-1, -1]
    expected = [Record(0, times[0], b"k", f"{codec.name.lower()} of {client}".encode()), Record(1, times[1], None, b"")]
    batch = validate_produced(memoryview(bytearray(data)), ProduceRules(), now_ms=START_MS, produce_version=version)
    assert [*decode_records(batch)] == expected
    assert batch.compression is codec
    again = bytes(downgrade(batch.data, magic, 0))
    assert decoded(again) == expected
    if codec is Compression.NONE:
        assert [batch.data[8:] for batch in split_batches(again)] == [batch.data[8:] for batch in batches]  # they count as they like
    elif codec is Compression.LZ4 and magic == 0:
        assert bytes(batches[0].payload[:7]) == bytes(next(iter(split_batches(again))).payload[:7]) == b"\x04\x22\x4d\x18\x60\x40\x1a"


@pytest.mark.parametrize("name", FETCHED)
def test_sets_fetched_by_old_clients_match_kafka(name: str) -> None:
    """The same that we make of the batches that the producers' sets became."""
    theirs = list(split_batches(fetched_in(name), allow_partial=True))
    magic = int(golden(name).version >= 2)
    stored: list[RecordBatch] = []
    offset = 0
    for produced in PRODUCED:
        data, version = sent_in(produced)
        batch = validate_produced(memoryview(bytearray(data)), ProduceRules(), now_ms=START_MS, produce_version=version)
        batch.data[:8] = offset.to_bytes(8)
        stored.append(RecordBatch(batch.data))
        offset += batch.record_count
    assert all(batch.check_crc() and batch.magic == magic for batch in theirs)
    first_offset = theirs[0].base_offset
    ours = b"".join(bytes(downgrade(batch.data, magic, first_offset)) for batch in stored if batch.last_offset >= first_offset)
    records = [record for batch in theirs for record in decode_records(batch)]
    assert decoded(ours)[: len(records)] == records
    for our, their in zip(split_batches(ours), theirs, strict=False):
        assert (our.base_offset, our.last_offset, our.attributes, our.max_timestamp) == (
            their.base_offset,
            their.last_offset,
            their.attributes,
            their.max_timestamp,
        )
        assert our.is_compressed or our.data == their.data
