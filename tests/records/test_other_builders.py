"""Our batches and those of kafka-python and aiokafka, each read by the other's reader."""

from __future__ import annotations

from typing import Any

import pytest
from aiokafka.record._crecords import default_records as aiokafka_cython
from aiokafka.record.default_records import _DefaultRecordBatchBuilderPy as AiokafkaBuilder
from aiokafka.record.default_records import _DefaultRecordBatchPy as AiokafkaBatch
from hypothesis import given
from hypothesis import strategies as st
from kafka.record import default_records as kafka_python

from minibroker.records.any_format import decode_records
from minibroker.records.batch import RecordBatch
from minibroker.records.builder import build_batch
from minibroker.records.compression import Compression
from minibroker.records.record import Record
from minibroker.records.validate import ProduceRules
from tests.records.produced import validate_produced
from tests.records.strategies import PRODUCERS, RECORDS, numbered
from tests.support.soak import examples

OTHERS = {
    "kafka-python": (kafka_python.DefaultRecordBatchBuilder, kafka_python.DefaultRecordBatch),
    "aiokafka": (AiokafkaBuilder, AiokafkaBatch),
    "aiokafka-cython": (aiokafka_cython.DefaultRecordBatchBuilder, aiokafka_cython.DefaultRecordBatch),
}
SETTINGS = examples(40)


@pytest.mark.parametrize("other", OTHERS)
@SETTINGS
@given(records=RECORDS, compression=st.sampled_from(Compression), producer=PRODUCERS, is_transactional=st.booleans())
def test_decodes_batches_of_other_builders(
    other: str, records: list[Record], compression: Compression, producer: tuple[int, int, int], is_transactional: bool
) -> None:
    producer_id, producer_epoch, base_sequence = producer
    builder: Any = OTHERS[other][0](
        magic=2,
        compression_type=int(compression),
        is_transactional=int(is_transactional),
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        batch_size=1 << 20,
    )
    for index, record in enumerate(records):
        builder.append(index, record.timestamp, record.key, record.value, list(record.headers))
    data = memoryview(bytearray(builder.build()))

    batch = validate_produced(data, ProduceRules(timestamp_after_max_ms=2**63 - 1, deep=True), now_ms=1_700_000_000_000)

    assert list(decode_records(batch)) == numbered(records)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.is_transactional) == (*producer, is_transactional)
    assert batch.max_timestamp == max(record.timestamp for record in records)
    # Below a size of its own a client sends a batch uncompressed where compressing does not pay.
    assert batch.compression in {compression, Compression.NONE}


@pytest.mark.parametrize("other", OTHERS)
@SETTINGS
@given(records=RECORDS, compression=st.sampled_from(Compression), base_offset=st.integers(0, 2**62), producer=PRODUCERS)
def test_other_clients_decode_built_batches(
    other: str, records: list[Record], compression: Compression, base_offset: int, producer: tuple[int, int, int]
) -> None:
    producer_id, producer_epoch, base_sequence = producer
    data = build_batch(
        records,
        base_offset=base_offset,
        compression=compression,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
    )

    batch: Any = OTHERS[other][1](bytes(data))

    assert batch.validate_crc()
    read = [Record(found.offset, found.timestamp, found.key, found.value, tuple(map(tuple, found.headers))) for found in batch]
    assert read == numbered(records, base_offset)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == producer


@given(RECORDS, st.sampled_from(Compression), st.integers(0, 2**62))
def test_round_trip(records: list[Record], compression: Compression, base_offset: int) -> None:
    data = build_batch(records, base_offset=base_offset, compression=compression)

    assert list(decode_records(RecordBatch(data))) == numbered(records, base_offset)
