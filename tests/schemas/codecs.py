"""Our two codecs under one interface, so that every test of schemas holds for both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from minibroker.wire import codec, compiled


class Codec(NamedTuple):
    """`decode(struct, data, version, flexible)` of a whole message, `encode(value, version, flexible)`."""

    name: str
    decode: Callable[[type[Any], bytes, int, bool], Any]
    encode: Callable[[Any, int, bool], bytes]


def _decode_by_definition(struct: type[Any], data: bytes, version: int, flexible: bool) -> Any:
    return codec.decode(struct, data, version, flexible=flexible)


def _encode_by_definition(value: Any, version: int, flexible: bool) -> bytes:
    return codec.encode(value, version, flexible=flexible)


def _decode_compiled(struct: type[Any], data: bytes, version: int, flexible: bool) -> Any:
    return compiled.decode_all(struct, data, 0, version, flexible)


def _encode_compiled(value: Any, version: int, flexible: bool) -> bytes:
    return b"".join(compiled.encoder(type(value), version, flexible)(value))


CODECS = (
    Codec("definition", _decode_by_definition, _encode_by_definition),
    Codec("compiled", _decode_compiled, _encode_compiled),
)
