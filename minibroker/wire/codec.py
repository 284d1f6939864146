"""Read and write a struct by walking its declaration, field by field. This module defines the format.

It is slow, short and strict. `wire/compiled.py` does the same work fast, and tests prove that both agree. The compiled code calls
this module in rare cases: for the exact error of a bad message, and for tagged fields that are present.

    struct          its fields in order; in a flexible version then its tagged fields
    field           see primitives.py; null for a struct: int8 -1, otherwise int8 1 and the struct
    tagged field    the same bytes as a field, but the mark of a nullable struct is a varint, 0 for null, and 1 before the struct, as
                    Kafka's generated classes have it; left out when it has its default; unknown tags are skipped
    absent field    (another version's) has its default after decoding, is not written when encoding
"""

from __future__ import annotations

from struct import error as struct_error
from typing import Any, Final, TypeVar

from minibroker.errors import WireError
from minibroker.wire.primitives import MAX_STRING_SIZE, NUMBER_STRUCTS, UUID_SIZE, EncodeError, Reader, length_of, unsigned_varint, uuid_of
from minibroker.wire.schema import Buffer, Field, default_of, fields_of

S = TypeVar("S")

_LONG: Final = 4096  #: pieces of at least this many bytes are not joined with their neighbours


def decode(struct_type: type[S], data: Buffer, version: int, *, flexible: bool) -> S:
    """Read one message that fills `data`.

    Raises:
        WireError: the bytes are not exactly one message.
    """
    value, position = decode_from(struct_type, data, 0, version, flexible=flexible)
    if position != len(data):
        raise WireError(f"{struct_type.__name__}: {len(data) - position} bytes left over")
    return value


def decode_from(struct_type: type[S], data: Buffer, position: int, version: int, *, flexible: bool) -> tuple[S, int]:
    """Read one message at `position`: (value, position after it)."""
    reader = Reader(data, position)
    value: S = _read_struct(reader, struct_type, version, flexible)
    return value, reader.position


def encode(value: object, version: int, *, flexible: bool) -> bytes:
    """Encode a message.

    Raises:
        EncodeError: this version cannot carry the value. It is not a WireError.
    """
    pieces: list[Buffer] = []
    _write_struct(pieces, value, version, flexible)
    return b"".join(pieces)


class EncodedArray:
    """An array of encoded elements, which replaces the list of elements. Only `encode_chunks` accepts it."""

    __slots__ = ("chunks", "count")

    def __init__(self, count: int, chunks: list[Buffer]) -> None:
        self.count = count
        self.chunks = chunks


def encode_chunks(value: object, version: int, *, flexible: bool) -> list[Buffer]:
    """Encode a message in several chunks if it is long."""
    pieces: list[Buffer] = []
    _write_struct(pieces, value, version, flexible)
    return joined(pieces)


def joined(pieces: list[Buffer]) -> list[Buffer]:
    """Join short neighbours. A long piece stays a chunk, uncopied."""
    chunks: list[Buffer] = []
    start = 0
    for number, piece in enumerate(pieces):
        if len(piece) >= _LONG:
            chunks += (b"".join(pieces[start:number]), piece) if start < number else (piece,)
            start = number + 1
    return [*chunks, b"".join(pieces[start:])] if start < len(pieces) else chunks


def sent_fields(struct_type: type[Any], version: int) -> list[Field]:
    """Return the fields of this version that are not tagged, in wire order."""
    return [field for field in fields_of(struct_type) if field.tag is None and field.in_version(version)]


_TAGGED: dict[tuple[type[Any], int], dict[int, Field]] = {}  #: by struct and version


def tagged_fields(struct_type: type[Any], version: int) -> dict[int, Field]:
    """Return the tagged fields of this version by tag, in ascending order; collected at the first call."""
    known = _TAGGED.get((struct_type, version))
    if known is None:
        tagged = [field for field in fields_of(struct_type) if field.tag is not None and field.in_version(version)]
        known = {field.tag: field for field in sorted(tagged, key=lambda field: field.tag or 0) if field.tag is not None}
        _TAGGED[struct_type, version] = known
    return known


def has_records(struct_type: type[Any], version: int) -> bool:
    """Whether a message of this version carries record batches."""
    fields = sent_fields(struct_type, version)
    return any(field.kind == "records" or (field.struct is not None and has_records(field.struct, version)) for field in fields)


def min_size(struct_type: type[Any], version: int, flexible: bool) -> int:
    """Return the smallest size of a struct; at least 1, so that a count is always bounded by the bytes that remain."""
    return max(1, flexible + sum(min_field_size(field, version, flexible) for field in sent_fields(struct_type, version)))


def min_field_size(field: Field, version: int, flexible: bool) -> int:
    """Return the smallest size of a field: that of null, or of an empty value."""
    if field.is_array:
        return 1 if flexible else 4
    if field.struct is not None:
        return 1 if field.null_in(version) else min_size(field.struct, version, flexible)
    return min_element_size(field, version, flexible)


def min_element_size(field: Field, version: int, flexible: bool) -> int:
    """Return the smallest size of one element of the field."""
    if field.struct is not None:
        return min_size(field.struct, version, flexible)
    if field.kind in NUMBER_STRUCTS:
        return NUMBER_STRUCTS[field.kind].size
    if field.kind == "uuid":
        return UUID_SIZE
    if flexible:
        return 1
    return 2 if field.kind == "string" else 4


def _read_struct(reader: Reader, struct_type: type[Any], version: int, flexible: bool) -> Any:
    value: Any = object.__new__(struct_type)
    for field in fields_of(struct_type):
        if field.tag is not None or not field.in_version(version):
            setattr(value, field.name, default_of(field))
            continue
        try:
            setattr(value, field.name, _read_field(reader, field, version, flexible))
        except WireError as error:
            raise WireError(f"{struct_type.__name__}.{field.name}: {error}") from None
    if flexible:
        read_tagged_fields(reader, value, version)
    return value


def read_tagged_fields(reader: Reader, value: Any, version: int) -> None:
    """Set the tagged fields that are present; skip unknown ones."""
    known = tagged_fields(type(value), version)
    for tag, body in reader.tagged_fields():
        if tag in known:
            setattr(value, known[tag].name, _read_tagged_field(body, known[tag], version))
            if body.remaining:
                raise WireError(f"tag {tag}: {body.remaining} bytes left over")


def _read_tagged_field(body: Reader, field: Field, version: int) -> Any:
    if field.struct is None or not is_marked(field, version):
        return _read_field(body, field, version, flexible=True)
    marker = body.unsigned_varint()
    if marker > 1:
        raise WireError(f"marker {marker}")
    return _read_struct(body, field.struct, version, flexible=True) if marker else None


def is_marked(field: Field, version: int) -> bool:
    """Whether the field starts with a marker for a struct or null."""
    return field.struct is not None and not field.is_array and field.null_in(version)


def _read_field(reader: Reader, field: Field, version: int, flexible: bool) -> Any:
    if field.is_array:
        count = reader.length(compact=flexible, wide=True)
        if count is not None:
            reader.count(count, min_element_size(field, version, flexible))
            return [_read_element(reader, field, version, flexible) for _ in range(count)]
    elif field.struct is not None and field.null_in(version):
        marker = reader.number("int8")
        if marker == 1:
            return _read_struct(reader, field.struct, version, flexible)
        if marker != -1:
            raise WireError(f"marker {marker}")
    else:
        element = _read_element(reader, field, version, flexible)
        if element is not None:
            return element
    if not field.null_in(version):
        raise WireError("null where none is allowed")
    return None


def _read_element(reader: Reader, field: Field, version: int, flexible: bool) -> Any:
    """Read a value that is not an array; None for a null string, bytes or records."""
    if field.struct is not None:
        return _read_struct(reader, field.struct, version, flexible)
    if field.kind in NUMBER_STRUCTS:
        return reader.number(field.kind)
    if field.kind == "uuid":
        return uuid_of(bytes(reader.take(UUID_SIZE)))
    size = reader.length(compact=flexible, wide=field.kind != "string")
    if size is None:
        if field.is_array:
            raise WireError("null as an element")
        return None
    if field.kind == "string":
        return reader.string(size)
    view = reader.take(size)
    return view if field.kind == "records" else bytes(view)


def _write_struct(pieces: list[Buffer], value: Any, version: int, flexible: bool) -> None:
    struct_type = type(value)
    for field in sent_fields(struct_type, version):
        try:
            _write_field(pieces, getattr(value, field.name), field, version, flexible)
        except (EncodeError, struct_error, TypeError, AttributeError, UnicodeEncodeError) as error:
            raise EncodeError(f"{struct_type.__name__}.{field.name}: {error}") from None
    if flexible:
        pieces.append(encode_tagged_fields(value, version))


def encode_tagged_fields(value: Any, version: int) -> bytes:
    """Encode the tagged fields that do not have their default, in the order of their tags, after their count."""
    count, encoded = 0, bytearray()
    for tag, field in tagged_fields(type(value), version).items():
        content = getattr(value, field.name)
        if _is_default(content, field):
            continue
        pieces: list[Buffer] = []
        if content is None and is_marked(field, version):
            pieces.append(b"\0")
        else:
            _write_field(pieces, content, field, version, flexible=True)
        body = b"".join(pieces)
        encoded += unsigned_varint(tag) + unsigned_varint(len(body)) + body
        count += 1
    return unsigned_varint(count) + encoded


def _is_default(content: Any, field: Field) -> bool:
    default = default_of(field)
    if isinstance(default, list) and content is not None:
        return list(content) == default
    return bool(content == default)


def _write_field(pieces: list[Buffer], content: Any, field: Field, version: int, flexible: bool) -> None:
    if content is None and not field.null_in(version):
        raise EncodeError("null where none is allowed")
    has_mark = is_marked(field, version)
    if has_mark:
        pieces.append(b"\xff" if content is None else b"\x01")
    if content is None and not has_mark:
        pieces.append(length_of(None, compact=flexible, wide=field.is_array or field.kind != "string"))
    elif type(content) is EncodedArray:
        pieces.append(length_of(content.count, compact=flexible, wide=True))
        pieces += content.chunks
    elif field.is_array:
        pieces.append(length_of(len(content), compact=flexible, wide=True))
        for element in content:
            _write_element(pieces, element, field, version, flexible)
    elif content is not None:
        _write_element(pieces, content, field, version, flexible)


def _write_element(pieces: list[Buffer], content: Any, field: Field, version: int, flexible: bool) -> None:
    if field.struct is not None:
        if type(content) is not field.struct:
            raise EncodeError(f"{content!r} is not a {field.struct.__name__}")
        _write_struct(pieces, content, version, flexible)
    elif field.kind in NUMBER_STRUCTS:
        pieces.append(NUMBER_STRUCTS[field.kind].pack(content))
    elif field.kind == "uuid":
        pieces.append(content.bytes)
    else:
        data = content.encode() if field.kind == "string" else memoryview(content)
        if field.kind == "string" and len(data) > MAX_STRING_SIZE:
            raise EncodeError(f"string of {len(data)} bytes")
        pieces += (length_of(len(data), compact=flexible, wide=field.kind != "string"), data)
