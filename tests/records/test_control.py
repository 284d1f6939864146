from __future__ import annotations

import pytest

from minibroker.errors import InvalidRecord
from minibroker.records.any_format import decode_records
from minibroker.records.batch import RecordBatch
from minibroker.records.control import ControlType, EndTransactionMarker, build_end_transaction_batch, control_key, parse_control_key
from minibroker.records.record import Record


@pytest.mark.parametrize("control_type", [ControlType.ABORT, ControlType.COMMIT])
def test_marker_is_one_control_record_without_sequence(control_type: ControlType) -> None:
    marker = EndTransactionMarker(control_type, coordinator_epoch=17)

    batch = RecordBatch(build_end_transaction_batch(marker, timestamp=99, producer_id=4, producer_epoch=2, base_offset=30))

    assert (batch.is_control, batch.is_transactional, batch.record_count) == (True, True, 1)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (4, 2, -1)
    (record,) = decode_records(batch)
    assert (record.offset, record.timestamp, record.headers) == (30, 99, ())
    assert EndTransactionMarker.from_record(record) == marker


@pytest.mark.parametrize("control_type", [known for known in ControlType if known >= 0])
def test_keys_of_every_type(control_type: ControlType) -> None:
    assert parse_control_key(control_key(control_type)) is control_type


def test_unknown_type_or_longer_key_is_tolerated() -> None:
    assert parse_control_key(b"\0\0\0\x63") is ControlType.UNKNOWN
    assert parse_control_key(b"\0\x01\0\x01more") is ControlType.COMMIT


@pytest.mark.parametrize("key", [None, b"", b"\0\0\0", b"\xff\xff\0\0"])
def test_invalid_control_key(key: bytes | None) -> None:
    with pytest.raises(InvalidRecord):
        parse_control_key(key)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (control_key(ControlType.LEADER_CHANGE), b"\0\0\0\0\0\0"),
        (control_key(ControlType.COMMIT), None),
        (control_key(ControlType.COMMIT), b"\0\0\0\0\0"),
        (control_key(ControlType.ABORT), b"\xff\xff\0\0\0\0"),
    ],
)
def test_invalid_end_transaction_marker(key: bytes, value: bytes | None) -> None:
    with pytest.raises(InvalidRecord):
        EndTransactionMarker.from_record(Record(0, 0, key, value))
