"""Encode the long arrays of a message a few elements at a time, so that the caller may do other work in between.

`encode_arrays` replaces each long array by an EncodedArray. The rest is then encoded at once, like any message.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Final

from minibroker.wire.codec import EncodedArray, encode_chunks, joined, sent_fields
from minibroker.wire.compiled import encoder
from minibroker.wire.schema import Buffer, Field

STEP: Final = 200  #: structs that are encoded between two pauses: a fraction of a millisecond
LONG: Final = 1_000  #: messages of at most this many structs are encoded at once

_ARRAYS: Final[dict[tuple[type[Any], int], list[Field]]] = {}


def is_long(value: Any, version: int) -> bool:
    """Whether a message has more than LONG structs in its arrays. Strings, bytes and numbers do not count."""
    return _count(value, version, LONG) > LONG


def encode_arrays(value: Any, version: int, *, flexible: bool) -> Generator[None, None, None]:
    """Encode the arrays of more than STEP structs in `value`, at any level, and put them in their place. Pauses after STEP structs.

    Each element is removed from its list when it is encoded, because freeing all of them together would take long.
    """
    for field in _arrays(type(value), version):
        elements = getattr(value, field.name)
        if _count_in(elements, version, STEP) > STEP:
            setattr(value, field.name, (yield from _encoded(elements, version, flexible)))


def _encoded(elements: list[Any], version: int, flexible: bool) -> Generator[None, None, EncodedArray]:
    chunks: list[Buffer] = []
    pieces: list[Buffer] = []
    encode = encoder(type(elements[0]), version, flexible)
    since_pause = 0
    for number, element in enumerate(elements):
        elements[number] = None
        count = 1 + _count(element, version, STEP)
        if count > STEP:
            yield from encode_arrays(element, version, flexible=flexible)
            pieces += encode_chunks(element, version, flexible=flexible)
        else:
            pieces += encode(element)
        since_pause += count
        if since_pause >= STEP:
            chunks += joined(pieces)
            pieces.clear()
            since_pause = 0
            yield
    return EncodedArray(len(elements), chunks + joined(pieces))


def _count(value: Any, version: int, most: int) -> int:
    """Count the structs in the arrays of a struct; stop soon after `most` of them."""
    total = 0
    for field in _arrays(type(value), version):
        total += _count_in(getattr(value, field.name), version, most - total)
        if total > most:
            break
    return total


def _count_in(elements: Any, version: int, most: int) -> int:
    """Count the structs of an array and those in their arrays. Elements that are encoded already do not count."""
    if not elements or type(elements) is EncodedArray:
        return 0
    total = len(elements)
    if total <= most and _arrays(type(elements[0]), version):
        for each in elements:
            total += _count(each, version, most - total)
            if total > most:
                break
    return total


def _arrays(struct_type: type[Any], version: int) -> list[Field]:
    """Return the arrays of structs that this version sends."""
    key = struct_type, version
    found = _ARRAYS.get(key)
    if found is None:
        found = _ARRAYS[key] = [field for field in sent_fields(struct_type, version) if field.is_array and field.struct is not None]
    return found
