"""Straight-line code for one (struct, version, flexible), generated at its first use: the fast twin of `wire/codec.py`.

What a decoder looks like (Produce v9, shortened):

    def decode(data, start):
        try:
            if type(data) is not memoryview:
                data = memoryview(data)
            end = len(data)
            pos = start
            value = new(Struct1)
            ...
            value.acks, value.timeout_ms, n3 = unpack4(data, pos)   # a run of fixed-size fields, and the next length, is one call
            pos += 7
            if n3 > 127:                                            # a varint of more than one byte
                n3, pos = read_unsigned_varint(data, pos - 1)
            if n3 == 0:
                raise MalformedError                                # null where none is allowed
            n3 -= 1
            if n3 * 3 > end - pos:
                raise MalformedError                                # too many topics for the remaining bytes
            items5 = []
            value.topic_data = items5
            while n3:                                               # nested structs are written out in place
                n3 -= 1
                ...
            if pos <= end:
                return value, pos
        except FAILURES:
            pass
        return definition(data, start)                              # wire/codec.py: raises the exact error

Why this is safe on any bytes: a number read beyond the end raises (IndexError, struct.error); a slice beyond the end is
short and leaves `pos` beyond it, so that the next read, the next count or the last line rejects the message. Each count is
compared with the bytes that remain before anything is allocated for it.

A sliced decoder is the same code as a generator, for large frames: it pauses after some hundred elements and has a budget.

An encoder collects packed runs, lengths and strings in a list and joins it once; record batches stay out of the join.

The codec handles rare cases: error messages, and tagged fields that are present (decoding) or differ from their
default (encoding). Each generated function keeps its text in the attribute `source`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from minibroker.errors import WireError
from minibroker.wire.compiled_decoder import SlicedDecoder, compile_decoder, compile_sliced_decoder
from minibroker.wire.compiled_encoder import compile_encoder
from minibroker.wire.schema import Buffer

S = TypeVar("S")
Decoder = Callable[[Buffer, int], tuple[S, int]]
Encoder = Callable[[S], list[Buffer]]

_decoders: dict[tuple[type[Any], int, bool], Decoder[Any]] = {}
_sliced_decoders: dict[tuple[type[Any], int, bool], SlicedDecoder] = {}
_encoders: dict[tuple[type[Any], int, bool], Encoder[Any]] = {}


def decoder(struct_type: type[S], version: int, flexible: bool) -> Decoder[S]:
    """Return a function (data, position) -> (value, position after it), which raises only WireError on bad bytes."""
    key = (struct_type, version, flexible)
    if key not in _decoders:
        _decoders[key] = compile_decoder(*key)
    return _decoders[key]


def sliced_decoder(struct_type: type[Any], version: int, flexible: bool) -> SlicedDecoder:
    """Return a function (data, position, budget) -> generator that pauses and returns (value, position after it, the rest of the budget).

    It raises only WireError on bad bytes, and OverBudgetError before it creates more than `budget` bytes of objects.
    """
    key = (struct_type, version, flexible)
    if key not in _sliced_decoders:
        _sliced_decoders[key] = compile_sliced_decoder(*key)
    return _sliced_decoders[key]


def decode_all(struct_type: type[S], data: Buffer, position: int, version: int, flexible: bool) -> S:
    """Read one message that fills `data` from `position` on. Raises WireError if it does not."""
    decode: Decoder[S] = _decoders.get((struct_type, version, flexible)) or decoder(struct_type, version, flexible)
    value, end = decode(data, position)
    if end != len(data):
        raise WireError(f"{struct_type.__name__}: {len(data) - end} bytes left over")
    return value


def encoder(struct_type: type[S], version: int, flexible: bool) -> Encoder[S]:
    """Return a function value -> chunks. Each record batch is one chunk, uncopied, as are the bytes between two batches.

    It raises EncodeError for a value that this version cannot carry.
    """
    key = (struct_type, version, flexible)
    if key not in _encoders:
        _encoders[key] = compile_encoder(*key)
    return _encoders[key]
