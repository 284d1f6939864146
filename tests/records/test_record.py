from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minibroker.errors import InvalidRecord, KafkaError
from minibroker.records.any_format import decode_records
from minibroker.records.batch import RecordBatch
from minibroker.records.builder import build_batch, sum_batch
from minibroker.records.record import MAX_VARLONG_BITS, Record, encode_record, read_varint, write_varint
from minibroker.records.walk import walk_records
from tests.records.lies import LIES
from tests.records.strategies import RECORDS
from tests.support.soak import examples

NOW_MS = 1_700_000_000_000
#: lies of lies.py that a strict reader must refuse as well: those inside of records
LIES_OF_RECORDS = [name for name in LIES if name.startswith("records_") and not name.endswith("_to_gzip")]
HARMLESS = ("good", "two_good", "header_key_not_utf8", "record_attributes")


def batch_of(name: str) -> RecordBatch:
    return RecordBatch(LIES[name].data(NOW_MS))


@pytest.mark.parametrize("number", [0, -1, 1, 63, -64, 64, -65, 8_191, 8_192, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63)])
def test_varints(number: int) -> None:
    out = bytearray()
    write_varint(out, number)

    assert read_varint(bytes(out), 0, MAX_VARLONG_BITS) == (number, len(out))
    if -(2**31) <= number < 2**31:
        assert read_varint(b"xy" + out + b"z", 2) == (number, 2 + len(out))
    for end in range(len(out)):
        with pytest.raises(IndexError):
            read_varint(bytes(out[:end]), 0, MAX_VARLONG_BITS)


@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 127, 128, 8_191, 8_192, 8_193, 70_000])
def test_encoded_lengths_and_deltas_are_the_shortest_varints(size: int) -> None:
    out, expected = bytearray(), bytearray(1)
    encode_record(out, Record(0, 0, b"k" * size, b"v" * size, (("h" * size, b"x" * size),)), size, -size)
    for number, data in (
        (-size, b""),
        (size, b""),
        (size, b"k" * size),
        (size, b"v" * size),
        (1, b""),
        (size, b"h" * size),
        (size, b"x" * size),
    ):
        write_varint(expected, number)
        expected += data
    length = bytearray()
    write_varint(length, len(expected))
    assert out == length + expected


def test_varints_of_the_protocol_guide() -> None:
    for number, encoded in ((0, "00"), (-1, "01"), (1, "02"), (-2, "03"), (300, "d804"), (-129, "8102"), (2**31 - 1, "feffffff0f")):
        out = bytearray()
        write_varint(out, number)
        assert out.hex() == encoded


@pytest.mark.parametrize("data", [b"\x80\x80\x80\x80\x80\x00", b"\xff\xff\xff\xff\x1f"])
def test_varint_has_32_bits_in_5_bytes(data: bytes) -> None:
    with pytest.raises(InvalidRecord):
        read_varint(data, 0)


@pytest.mark.parametrize("data", [b"\x80" * 10 + b"\x00", b"\xff" * 9 + b"\x02"])
def test_varlong_has_64_bits_in_10_bytes(data: bytes) -> None:
    with pytest.raises(InvalidRecord):
        read_varint(data, 0, MAX_VARLONG_BITS)


@pytest.mark.parametrize("name", LIES_OF_RECORDS)
def test_invalid_record_fields_are_refused(name: str) -> None:
    if name.removeprefix("records_").startswith(HARMLESS):
        assert list(decode_records(batch_of(name)))
    else:
        with pytest.raises(InvalidRecord):
            list(decode_records(batch_of(name)))


def test_header_key_with_invalid_utf_8_is_read_like_the_java_client() -> None:
    (record,) = decode_records(batch_of("records_header_key_not_utf8"))

    assert record.headers == (("��", b"x"),)


@pytest.mark.parametrize("count", [-1, -(2**31), 2**31 - 1])
def test_wrong_record_count_is_refused(count: int) -> None:
    data = build_batch([Record(0, NOW_MS, b"k", b"v")])
    struct.pack_into(">i", data, 57, count)
    with pytest.raises(InvalidRecord):
        list(decode_records(RecordBatch(data)))


@examples(300)
@given(records=RECORDS, data=st.data())
def test_walk_and_decoder_agree_on_damage(records: list[Record], data: st.DataObject) -> None:
    """What the deep walk lets through can be read, and what it refuses cannot; a changed byte of a key or a value is no damage."""
    batch = build_batch(records[:6])
    for _ in range(data.draw(st.integers(0, 3))):
        batch[data.draw(st.integers(61, len(batch) - 1))] = data.draw(st.integers(0, 255))
    sum_batch(batch)
    view = RecordBatch(batch)
    try:
        min_delta, max_delta, keyless = walk_records(view.payload, view.record_count, deep=True)
    except InvalidRecord:
        with pytest.raises(KafkaError):
            list(decode_records(view))
        return
    read = list(decode_records(view))
    deltas = [record.timestamp - view.base_timestamp for record in read]
    assert (min_delta, max_delta) == (min(deltas), max(deltas))
    assert keyless == any(record.key is None for record in read)
    assert walk_records(view.payload, view.record_count, deep=False)[:2] == (min_delta, max_delta)
