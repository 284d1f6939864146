"""Batches of real clients, as Apache Kafka stored them, read whole and damaged (tests/golden/captures/records.py)."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from minibroker.errors import CorruptMessage, InvalidRecord, KafkaError
from minibroker.records.any_format import decode_records, split_batches
from minibroker.records.batch import RecordBatch, assign_offsets
from minibroker.records.builder import build_batch
from minibroker.records.compression import Compression
from minibroker.records.control import ControlType, EndTransactionMarker, build_end_transaction_batch
from minibroker.records.record import Record
from minibroker.records.validate import ProduceRules
from tests.records.produced import validate_produced

CLIENTS = ("kafka_python", "aiokafka", "librdkafka", "librdkafka_transactions", "java_console", "java_performance")
NAMES = [f"{client}_{codec.name.lower()}" for client in CLIENTS for codec in Compression]
ANY_TIME = ProduceRules(timestamp_after_max_ms=2**63 - 1, deep=True)


@cache
def golden() -> dict[str, dict[str, Any]]:
    lines = (Path(__file__).parents[1] / "golden" / "records" / "batches.jsonl").read_text().splitlines()
    return {entry["name"]: entry for entry in map(json.loads, lines)}


def log_of(name: str) -> bytes:
    return bytes.fromhex(golden()[name]["log"])


def data_batches(name: str) -> list[RecordBatch]:
    return [batch for batch in split_batches(log_of(name)) if not batch.is_control]


def expected(name: str) -> list[Record]:
    def binary(text: str | None) -> bytes | None:
        return None if text is None else bytes.fromhex(text)

    return [
        Record(
            record["offset"],
            record["timestamp"],
            binary(record["key"]),
            binary(record["value"]),
            tuple((key, binary(value)) for key, value in record["headers"]),
        )
        for record in golden()[name]["records"]
    ]


def test_golden_batches_cover_all_clients_and_codecs() -> None:
    assert list(golden()) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_decodes_like_another_client(name: str) -> None:
    read = [record for batch in data_batches(name) for record in decode_records(batch)]

    assert read == expected(name)


@pytest.mark.parametrize("name", NAMES)
def test_batch_headers_are_consistent(name: str) -> None:
    next_offset = 0
    for batch in split_batches(log_of(name)):
        assert batch.check_crc()
        assert batch.base_offset == next_offset
        next_offset = batch.next_offset
        if not batch.is_control:
            assert batch.compression.name.lower() == name.rpartition("_")[2]
            assert batch.max_timestamp == max(record.timestamp for record in decode_records(batch))
            assert batch.is_transactional == ("transactions" in name)
    assert next_offset > len(expected(name)) - 1


@pytest.mark.parametrize("name", NAMES)
def test_golden_batch_can_be_produced_again(name: str) -> None:
    for batch in data_batches(name):
        data = memoryview(bytearray(batch.data))
        base_offset, epoch = batch.base_offset, batch.partition_leader_epoch
        assign_offsets(data, 0, -1)

        again = validate_produced(data, ANY_TIME, now_ms=batch.max_timestamp)

        assign_offsets(again.data, base_offset, epoch)
        assert again.data == batch.data


@pytest.mark.parametrize("client", CLIENTS)
def test_builder_reproduces_the_golden_bytes(client: str) -> None:
    (name,) = (name for name in NAMES if name == f"{client}_none")
    for batch in data_batches(name):
        ours = build_batch(
            list(decode_records(batch)),
            base_offset=batch.base_offset,
            producer_id=batch.producer_id,
            producer_epoch=batch.producer_epoch,
            base_sequence=batch.base_sequence,
            is_transactional=batch.is_transactional,
            partition_leader_epoch=batch.partition_leader_epoch,
        )
        assert ours == batch.data


@pytest.mark.parametrize("codec", list(Compression))
def test_markers_match_the_golden_bytes(codec: Compression) -> None:
    name = f"librdkafka_transactions_{codec.name.lower()}"
    controls = [batch for batch in split_batches(log_of(name)) if batch.is_control]
    ends = []
    for batch in controls:
        (record,) = decode_records(batch)
        marker = EndTransactionMarker.from_record(record)
        ends.append(marker.control_type)
        ours = build_end_transaction_batch(
            marker,
            timestamp=record.timestamp,
            producer_id=batch.producer_id,
            producer_epoch=batch.producer_epoch,
            base_offset=batch.base_offset,
            partition_leader_epoch=batch.partition_leader_epoch,
        )
        assert ours == batch.data

    assert ends == [ControlType.COMMIT, ControlType.ABORT]


@pytest.mark.parametrize("name", NAMES)
def test_every_truncation_of_a_batch_is_corrupt(name: str) -> None:
    batch = next(split_batches(log_of(name)))
    for end in range(batch.size):
        with pytest.raises(CorruptMessage):
            RecordBatch(batch.data[:end])


@pytest.mark.parametrize("name", NAMES)
def test_truncated_records_do_not_decode(name: str) -> None:
    """The batch length says that the cut is meant, as a liar's would; no CRC stands in the way of decoding."""
    data = bytearray(data_batches(name)[0].data)
    for end in range(61, len(data)):
        cut = data[:end]
        cut[8:12] = (end - 12).to_bytes(4)
        with pytest.raises(InvalidRecord):
            list(decode_records(RecordBatch(cut)))


@pytest.mark.parametrize("name", NAMES)
def test_wrong_record_count_does_not_decode(name: str) -> None:
    for difference in (-1, 1):
        data = bytearray(data_batches(name)[0].data)
        count = int.from_bytes(data[57:61]) + difference
        data[57:61] = count.to_bytes(4)
        data[23:27] = (count - 1).to_bytes(4)
        with pytest.raises(KafkaError):
            list(decode_records(RecordBatch(data)))


@pytest.mark.parametrize("name", NAMES)
def test_trailing_bytes_do_not_decode(name: str) -> None:
    data = bytearray(data_batches(name)[0].data) + b"\0"
    data[8:12] = (len(data) - 12).to_bytes(4)

    with pytest.raises(InvalidRecord):
        list(decode_records(RecordBatch(data)))
