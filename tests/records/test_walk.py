"""The walk over produced records, beside the reader that makes Records of them (records/record.py is the model)."""

from __future__ import annotations

import pytest

from minibroker.errors import InvalidRecord
from minibroker.records.walk import check_fields

NULLS = [b"\x01", b"\x81\x00", b"\x81\x80\x00"]  #: -1, in one byte as everybody writes it, and in more
LENGTHS = [(b"\x06", 3), (b"\x86\x00", 3), (b"\x90\x03", 200), (b"\x00", 0)]


@pytest.mark.parametrize("null", NULLS)
@pytest.mark.parametrize(("value_length", "size"), LENGTHS)
def test_null_key_is_recognized_in_every_encoding(null: bytes, value_length: bytes, size: int) -> None:
    data = null + value_length + bytes(size) + b"\0"
    assert check_fields(data, 0, len(data)) is True


@pytest.mark.parametrize("null", NULLS)
@pytest.mark.parametrize(("key_length", "size"), LENGTHS)
def test_null_value_takes_no_bytes(null: bytes, key_length: bytes, size: int) -> None:
    data = key_length + bytes(size) + null + b"\0"
    assert check_fields(data, 0, len(data)) is False


@pytest.mark.parametrize("length", [b"\x03", b"\x05", b"\x83\x00", b"\x7f"])
def test_other_negative_lengths_are_refused(length: bytes) -> None:
    for data in (length + b"\0\0", b"\0" + length + b"\0"):
        with pytest.raises(InvalidRecord):
            check_fields(data, 0, len(data))
