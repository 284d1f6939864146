"""The plan of one version of one API, created once: handler, decoder and encoder.

    request   int16 api_key | int16 api_version | int32 correlation_id | nullable string client_id | tags, if flexible | body
    response  int32 size | int32 correlation_id | tags, if flexible and not ApiVersions | body

The client_id has an int16 length in every version. wire/header.py defines the header; this module
decodes it without loops.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from struct import Struct
from typing import Any, Final

from minibroker.compilation import mypyc_attr
from minibroker.dispatch.delayed import Delayed, then
from minibroker.dispatch.registry import Handler
from minibroker.dispatch.slices import Steps
from minibroker.errors import WireError
from minibroker.schemas import k18_api_versions
from minibroker.wire.codec import encode as encode_slowly
from minibroker.wire.codec import has_records
from minibroker.wire.compiled import decoder, encoder, sliced_decoder
from minibroker.wire.header import PREFIX_SIZE, request_header_version, response_header_version
from minibroker.wire.primitives import skip_tagged_fields
from minibroker.wire.schema import Buffer
from minibroker.wire.sliced_encoder import encode_arrays, is_long

#: (api_key and api_version as one number, correlation_id, length of client_id) of a request; raises struct.error if it is shorter
read_header: Final = Struct(">Iih").unpack_from
HEADER_SIZE: Final = 10

_PREFIX: Final = Struct(">ii")
_PREFIX_TAGGED: Final = Struct(">iix")
SLICED_FROM: Final = 64 * 1024  #: larger frames are decoded in slices
_SMALL: Final = 4096  #: bytes up to which a chunk is joined with the prefix; a copy is cheaper than writing one more buffer


@mypyc_attr(allow_interpreted_subclasses=True)  # testing/recording.py
class Plan:
    """One (API, version): handler, decoder and encoder."""

    __slots__ = (
        "_decode", "_encode", "_has_leftover", "_header_size", "_pack_prefix", "_request_has_tags", "api", "at_once", "counts", "flexible",
        "handle", "limit", "on_error", "pieces", "version", "without_answer",
    )  # fmt: skip

    counts: Any  #: of a broker with metrics (minibroker/metrics/counting.py); unset otherwise

    def __init__(self, handler: Handler, version: int) -> None:
        self.api = handler.api
        self.version = version
        self.handle = handler.handle
        self.on_error = handler.on_error
        flexible = self.flexible = self.api.flexible(version)
        if handler.has_long_answer:
            self.handle = _encoded_in_slices(handler.handle, version, flexible=flexible)
        self.pieces = next((each for each in handler.pieces if each.are_in(self.api.Request, version)), None)
        self.limit = handler.limit
        #: bytes of the largest frame that is certain to be decoded and served at once
        self.at_once = SLICED_FROM
        if self.pieces is not None and not has_records(self.api.Request, version):
            self.at_once = min(SLICED_FROM, self.pieces.min_size(self.api.Request, version, flexible))
        if self.limit is not None:
            self.at_once = min(self.at_once, self.limit.most)  # each element has at least one byte
        self._decode = decoder(self.api.Request, version, flexible)
        self._encode = encoder(self.api.Response, version, flexible)
        self.without_answer: Callable[[Any], object] = _nothing  #: called for a request that gets none; metrics count it
        self._has_leftover = self.api.leftover_allowed
        self._request_has_tags = request_header_version(self.api, version) == 2
        prefix = _PREFIX_TAGGED if response_header_version(self.api, version) == 1 else _PREFIX
        self._pack_prefix = prefix.pack
        self._header_size = prefix.size - PREFIX_SIZE

    def decode(self, frame: memoryview, size: int, client_id_length: int) -> tuple[str | None, Any]:
        """Return the client_id and the request of a frame of `size` bytes, whose fixed header was read already.

        Raises:
            WireError: the header or the body is invalid in this version, or bytes are left over.
        """
        if client_id_length >= 0:
            position = HEADER_SIZE + client_id_length
            if position > size:
                raise WireError("client_id is longer than the frame")
            try:
                client_id = frame[HEADER_SIZE:position].tobytes().decode()
            except UnicodeDecodeError:
                raise WireError("client_id is not UTF-8") from None
        elif client_id_length == -1:
            position, client_id = HEADER_SIZE, None
        else:
            raise WireError(f"client_id of length {client_id_length}")
        if self._request_has_tags:
            position = skip_tagged_fields(frame, position)
        request, end = self._decode(frame, position)
        if end != size and not self._has_leftover:
            raise WireError(f"{self.api.name} version {self.version}: {size - end} bytes left over")
        return client_id, request

    def decode_in_slices(self, frame: memoryview, position: int, budget: int) -> Generator[None, None, tuple[Any, int]]:
        """Decode the body at `position`, and yield at pauses.

        Returns the request and the rest of `budget`.

        Args:
            frame: the whole frame.
            position: where the body starts.
            budget: the most memory that the request may take.

        Raises:
            OverBudgetError: it takes more.
            WireError: as `decode`.
        """
        decode = sliced_decoder(self.api.Request, self.version, self.flexible)
        request, end, left = yield from decode(frame, position, budget)
        if end != len(frame) and not self._has_leftover:
            raise WireError(f"{self.api.name} version {self.version}: {len(frame) - end} bytes left over")
        return request, left

    def count(
        self,
        counts: Any,
        decode: Callable[[Buffer, int], tuple[Any, int]],
        encode: Callable[[Any], list[Buffer]],
        without_answer: Callable[[Any], object],
    ) -> None:
        """Use these functions for requests, responses, and requests that get no answer. They count them in `counts`."""
        self.counts = counts
        self._decode = decode
        self._encode = encode
        self.without_answer = without_answer

    def encode(self, response: Any, correlation_id: int) -> list[Buffer]:
        """Return the chunks of the response, with its size and header before them."""
        chunks = self._encode(response)
        if len(chunks) == 1 and len(chunks[0]) <= _SMALL:
            body = chunks[0]
            return [self._pack_prefix(self._header_size + len(body), correlation_id) + body]
        prefix = self._pack_prefix(self._header_size + sum(map(len, chunks)), correlation_id)
        if chunks and len(chunks[0]) <= _SMALL:
            chunks[0] = prefix + chunks[0]
        else:
            chunks.insert(0, prefix)
        return chunks

    @staticmethod
    def encode_api_versions_v0(response: k18_api_versions.Response, correlation_id: int) -> list[Buffer]:
        """Encode the answer to an unknown version of ApiVersions."""
        body = encode_slowly(response, 0, flexible=False)
        return [_PREFIX.pack(4 + len(body), correlation_id), body]


def _nothing(_request: Any) -> None:
    pass


def _encoded_in_slices(handle: Callable[[Any, Any], Any], version: int, *, flexible: bool) -> Callable[[Any, Any], Any]:
    """Return the same handler.

    If its answer took longer than a slice, its arrays are encoded in slices as well.

    The elements exist as objects until they are encoded, so functions around a handler
    (dispatch/middleware.py) can leave some of them out.
    """

    def encode_arrays_of(response: Any) -> Steps:
        yield from encode_arrays(response, version, flexible=flexible)
        return response

    def serve(ctx: Any, request: Any) -> Any:
        def encode(response: Any) -> Any:
            return ctx.broker.slices.run(encode_arrays_of(response)) if is_long(response, version) else response

        result = handle(ctx, request)
        return then(result, encode) if isinstance(result, Delayed) else result

    return serve
