"""Records inside a batch of format v2.

    Record    length: varint (bytes that follow)   attributes: int8 (0)   timestamp_delta: varlong   offset_delta: varint
              key_length: varint, key   value_length: varint, value   header_count: varint, headers
    Header    key_length: varint, key (UTF-8)   value_length: varint, value

varint and varlong are zigzag: 0, -1, 1, -2 are 0, 1, 2, 3, then seven bits a byte, lowest first; at most 5 and 10 bytes. A key, a
value or a header's value of length -1 is null, which is not empty. Deltas are against the batch's base_offset and base_timestamp.
Source: KIP-98, org.apache.kafka.common.record.DefaultRecord.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from minibroker.errors import InvalidRecord

Headers = tuple[tuple[str, bytes | None], ...]

MAGIC_V2: Final = 2
MAX_VARINT_BITS: Final = 35
MAX_VARLONG_BITS: Final = 70


class Record(NamedTuple):
    """One record. `timestamp` is epoch ms: that of the batch if it has LogAppendTime."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


def decode_record(data: bytes, position: int) -> tuple[int, int, bytes | None, bytes | None, Headers, int]:
    """Return the fields of the record at `position`, and where the next one starts. Raises IndexError if `data` ends first."""
    length, position = read_varint(data, position)
    end = position + length
    if length < 0 or end > len(data):
        raise InvalidRecord(f"a record of {length} bytes where {len(data) - position} remain")
    position += 1  # attributes: none is in use
    # Most varints have one byte, so this case is read here; -(n & 1) is 0 or all ones.
    number = data[position]
    position += 1
    if number < 0x80:
        timestamp_delta = (number >> 1) ^ -(number & 1)
    else:
        timestamp_delta, position = read_varint(data, position - 1, MAX_VARLONG_BITS)
    number = data[position]
    position += 1
    if number < 0x80:
        offset_delta = (number >> 1) ^ -(number & 1)
    else:
        offset_delta, position = read_varint(data, position - 1)
    key, position = _read_bytes(data, position, end)
    value, position = _read_bytes(data, position, end)
    number = data[position]
    position += 1
    headers: Headers = ()
    if number:
        headers, position = _read_headers(data, position - 1, end)
    if position != end:
        raise InvalidRecord(f"a record of {length} bytes whose fields take {length + position - end}")
    return offset_delta, timestamp_delta, key, value, headers, position


def read_varint(data: bytes | bytearray | memoryview, position: int, max_bits: int = MAX_VARINT_BITS) -> tuple[int, int]:
    """Return a zigzag number and the position after it. Raises InvalidRecord above `max_bits`, IndexError if `data` ends first."""
    number = shift = 0
    while True:
        byte = data[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift >= max_bits:
            raise InvalidRecord(f"a varint of more than {max_bits // 7} bytes")
    if number >> (64 if max_bits == MAX_VARLONG_BITS else 32):
        raise InvalidRecord("a varint of too many bits")
    return (number >> 1) ^ -(number & 1), position


def _read_bytes(data: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    """Return bytes with a length before them, which end at `end` at the latest, and the position after them; None for the length -1."""
    length = data[position]
    position += 1
    if length < 0x80:
        length = (length >> 1) ^ -(length & 1)
    else:
        length, position = read_varint(data, position - 1)
    if length < 0:
        if length != -1:
            raise InvalidRecord(f"a length of {length}")
        return None, position
    stop = position + length
    if stop > end:
        raise InvalidRecord(f"{length} bytes announced where the record has {end - position}")
    return data[position:stop], stop


def _read_headers(data: bytes, position: int, end: int) -> tuple[Headers, int]:
    count, position = read_varint(data, position)
    if not 0 <= count <= (end - position) // 2:  # a header is two lengths at least
        raise InvalidRecord(f"{count} headers in {end - position} bytes")
    headers = []
    for _ in range(count):
        key, position = _read_bytes(data, position, end)
        if key is None:
            raise InvalidRecord("a header without a key")
        value, position = _read_bytes(data, position, end)
        headers.append((key.decode(errors="replace"), value))  # as the Java client does
    return tuple(headers), position


def write_varint(out: bytearray, number: int) -> None:
    """Append a zigzag number of at most 64 bits."""
    number = (number << 1) ^ (number >> 63)
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)


def encode_record(out: bytearray, record: Record, offset_delta: int, timestamp_delta: int) -> None:
    """Append `record` with its deltas against the batch."""
    _, _, key, value, headers = record
    short = SHORT_VARINTS.get
    key_size = -1 if key is None else len(key)
    value_size = -1 if value is None else len(value)
    body = b"\0%b%b%b%b%b%b%b" % (  # attributes first: none is in use
        short(timestamp_delta) or encode_varint(timestamp_delta),
        short(offset_delta) or encode_varint(offset_delta),
        short(key_size) or encode_varint(key_size),
        key or b"",
        short(value_size) or encode_varint(value_size),
        value or b"",
        _encode_headers(headers) if headers else b"\0",
    )
    out += short(len(body)) or encode_varint(len(body))
    out += body


def _encode_headers(headers: Headers) -> bytes:
    pieces = [encode_varint(len(headers))]
    for name, value in headers:
        key = name.encode()
        pieces += (encode_varint(len(key)), key, encode_varint(-1 if value is None else len(value)), value or b"")
    return b"".join(pieces)


def encode_varint(number: int) -> bytes:
    """Encode a zigzag number of at most 64 bits."""
    if 64 <= number < 8192:
        return bytes((number << 1 & 0x7F | 0x80, number >> 6))
    out = bytearray()
    write_varint(out, number)
    return bytes(out)


SHORT_VARINTS: Final = {number: encode_varint(number) for number in range(-64, 64)}  #: those of one byte, as most are
