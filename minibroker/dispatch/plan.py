"""How one version of one API is served: everything that can be looked up once is looked up once.

    request   int16 api_key | int16 api_version | int32 correlation_id | nullable string client_id | tags, if flexible | body
    response  int32 size | int32 correlation_id | tags, if flexible and not ApiVersions | body

The client_id has an int16 length at every version; wire/header.py is the definition, this is its straight-line form.
"""

from __future__ import annotations

from struct import Struct
from typing import Any, Final

from minibroker.dispatch.registry import Handler
from minibroker.errors import WireError
from minibroker.schemas import k18_api_versions
from minibroker.wire.codec import encode as encode_slowly
from minibroker.wire.compiled import decoder, encoder
from minibroker.wire.header import request_header_version, response_header_version
from minibroker.wire.primitives import skip_tagged_fields
from minibroker.wire.schema import Buffer

_PREFIX = Struct(">ii")
_PREFIX_TAGGED = Struct(">iib")
_SMALL = 4096  #: bytes up to which a chunk is joined with the prefix; a copy is cheaper than one more buffer to write


class Plan:
    """One (API, version): handler, decoder and encoder."""

    HEADER: Final = Struct(">Iih")  #: api_key and api_version as one number, correlation_id, length of client_id

    __slots__ = ("_decode", "_encode", "_request_has_tags", "_response_has_tags", "api", "handle", "on_error", "version")

    def __init__(self, handler: Handler, version: int) -> None:
        self.api = handler.api
        self.version = version
        self.handle = handler.handle
        self.on_error = handler.on_error
        flexible = self.api.flexible(version)
        self._decode = decoder(self.api.Request, version, flexible)
        self._encode = encoder(self.api.Response, version, flexible)
        self._request_has_tags = request_header_version(self.api, version) == 2
        self._response_has_tags = response_header_version(self.api, version) == 1

    def decode(self, frame: memoryview, client_id_length: int) -> tuple[str | None, Any]:
        """The client_id and the request of a frame whose fixed header was read already.

        Raises:
            WireError: the header or the body is not what this version allows, or bytes are left over.
        """
        position = 10
        client_id = None
        if client_id_length >= 0:
            position += client_id_length
            if position > len(frame):
                raise WireError("client_id is longer than the frame")
            try:
                client_id = str(frame[10:position], "utf-8")
            except UnicodeDecodeError:
                raise WireError("client_id is not UTF-8") from None
        elif client_id_length != -1:
            raise WireError(f"client_id of length {client_id_length}")
        if self._request_has_tags:
            position = skip_tagged_fields(frame, position)
        request, end = self._decode(frame, position)
        if end != len(frame) and not self.api.leftover_allowed:
            raise WireError(f"{self.api.name} version {self.version}: {len(frame) - end} bytes left over")
        return client_id, request

    def encode(self, response: Any, correlation_id: int) -> list[Buffer]:
        """The response's chunks with size and header in front of them."""
        chunks = self._encode(response)
        if self._response_has_tags:
            prefix = _PREFIX_TAGGED.pack(5 + sum(map(len, chunks)), correlation_id, 0)
        else:
            prefix = _PREFIX.pack(4 + sum(map(len, chunks)), correlation_id)
        if chunks and len(chunks[0]) <= _SMALL:
            chunks[0] = prefix + chunks[0]
        else:
            chunks.insert(0, prefix)
        return chunks

    @staticmethod
    def encode_api_versions_v0(response: k18_api_versions.Response, correlation_id: int) -> list[Buffer]:
        """The answer to an ApiVersions version that is not known."""
        body = encode_slowly(response, 0, flexible=False)
        return [_PREFIX.pack(4 + len(body), correlation_id), body]
