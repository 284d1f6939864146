"""Primitives against bytes written down by hand from the protocol guide, and what is refused."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minibroker.errors import WireError
from minibroker.wire import primitives
from minibroker.wire.primitives import Reader, read_unsigned_varint, read_varint, skip_tagged_fields

UNSIGNED = [(0, "00"), (1, "01"), (127, "7f"), (128, "8001"), (300, "ac02"), (2**21 - 1, "ffff7f"), (2**32 - 1, "ffffffff0f")]
SIGNED = [
    (0, "00"),
    (-1, "01"),
    (1, "02"),
    (-2, "03"),
    (63, "7e"),
    (-64, "7f"),
    (64, "8001"),
    (2**31 - 1, "feffffff0f"),
    (-(2**31), "ffffffff0f"),
]


@pytest.mark.parametrize(("value", "data"), UNSIGNED)
def test_unsigned_varint(value: int, data: str) -> None:
    encoded = bytes.fromhex(data)
    assert primitives.unsigned_varint(value) == encoded
    assert read_unsigned_varint(b"x" + encoded + b"y", 1) == (value, 1 + len(encoded))


@pytest.mark.parametrize(("value", "data"), SIGNED)
def test_varint(value: int, data: str) -> None:
    encoded = bytes.fromhex(data)
    assert primitives.varint(value) == encoded
    assert read_varint(encoded, 0) == (value, len(encoded))


@given(st.integers(0, 2**32 - 1))
def test_varint_round_trip(value: int) -> None:
    encoded = primitives.unsigned_varint(value)
    assert read_unsigned_varint(encoded, 0) == (value, len(encoded))


@pytest.mark.parametrize("data", ["", "80", "ffffffff", "8080808080", "808080808000", "ffffffff10", "ffffffffff7f"])
def test_invalid_varints_are_refused(data: str) -> None:
    with pytest.raises(WireError, match="varint"):
        read_unsigned_varint(bytes.fromhex(data), 0)


def test_overlong_varint_up_to_five_bytes_is_accepted_like_kafka() -> None:
    assert read_unsigned_varint(b"\x81\x80\x00", 0) == (1, 3)


@pytest.mark.parametrize(
    ("kind", "data", "value"),
    [
        ("int8", "ff", -1),
        ("int16", "8000", -(2**15)),
        ("int32", "7fffffff", 2**31 - 1),
        ("int64", "ffffffffffffffff", -1),
        ("uint16", "ffff", 65535),
        ("uint32", "ffffffff", 2**32 - 1),
        ("bool", "00", False),
        ("bool", "01", True),
        ("bool", "05", True),
        ("float64", "3ff8000000000000", 1.5),
    ],
)
def test_numbers(kind: str, data: str, value: float) -> None:
    reader = Reader(bytes.fromhex(data))
    assert reader.number(kind) == value
    assert reader.remaining == 0
    with pytest.raises(WireError, match="bytes wanted"):
        Reader(bytes.fromhex(data)[:-1]).number(kind)


def test_uuid_uses_kafka_byte_order() -> None:
    data = bytes(range(16))
    assert primitives.uuid_of(data) == uuid.UUID("00010203-0405-0607-0809-0a0b0c0d0e0f")
    assert primitives.uuid_of(data).bytes == data


@pytest.mark.parametrize(
    ("compact", "wide", "data", "length"),
    [(False, False, "0005", 5), (False, False, "ffff", None), (False, True, "00010000", 65536), (False, True, "ffffffff", None)]
    + [(True, wide, "06", 5) for wide in (True, False)]
    + [(True, wide, "00", None) for wide in (True, False)],
)
def test_lengths(compact: bool, wide: bool, data: str, length: int | None) -> None:
    assert Reader(bytes.fromhex(data)).length(compact=compact, wide=wide) == length
    assert primitives.length_of(length, compact=compact, wide=wide) == bytes.fromhex(data)


@pytest.mark.parametrize(("wide", "data"), [(False, "fffe"), (False, "8000"), (True, "fffffffe"), (True, "80000000")])
def test_negative_length_except_minus_one_is_refused(wide: bool, data: str) -> None:
    with pytest.raises(WireError, match="length -"):
        Reader(bytes.fromhex(data)).length(compact=False, wide=wide)


@pytest.mark.parametrize("data", [b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xc0\x80"], ids=["no start", "cut", "surrogate", "overlong"])
def test_invalid_utf_8_is_refused(data: bytes) -> None:
    with pytest.raises(WireError, match="UTF-8"):
        Reader(data).string(len(data))


def test_string_longer_than_kafka_allows_is_refused() -> None:
    assert len(Reader(b"x" * 32767).string(32767)) == 32767
    with pytest.raises(WireError, match="32768"):
        Reader(b"x" * 32768).string(32768)


@pytest.mark.parametrize(("data", "end"), [("00", 1), ("0105026162", 5), ("020000070161", 6)], ids=["none", "one", "two, one empty"])
def test_unknown_tagged_fields_are_skipped(data: str, end: int) -> None:
    assert skip_tagged_fields(bytes.fromhex(data) + b"more", 0) == end


@pytest.mark.parametrize(
    "data",
    ["", "01", "0105", "01050261", "0205000500", "0205000400", "ffffffff0f", "8080808004", "0105ffffffff0f"],
    ids=["nothing", "no tag", "no size", "cut", "tag twice", "tags descend", "2^32 fields", "2^30 fields", "huge field"],
)
def test_invalid_tagged_fields_are_refused(data: str) -> None:
    with pytest.raises(WireError):
        skip_tagged_fields(bytes.fromhex(data), 0)
