"""Encode requests and decode responses."""

from __future__ import annotations

from typing import Any

from minibroker.errors import WireError
from minibroker.wire.api import Api
from minibroker.wire.compiled import decode_all, encoder
from minibroker.wire.frame import with_size
from minibroker.wire.header import (
    RequestHeader,
    decode_response_header,
    encode_request_header,
    request_header_version,
    response_header_version,
)
from minibroker.wire.schema import Buffer


def encode_request(api: Api, version: int, correlation_id: int, client_id: str, request: Any) -> list[Buffer]:
    """Encode a request as a frame in chunks, its size first; EncodeError for a value that the version cannot carry."""
    header = RequestHeader(api_key=api.key, api_version=version, correlation_id=correlation_id, client_id=client_id)
    encoded_header = encode_request_header(header, request_header_version(api, version))
    return with_size([encoded_header, *encoder(api.Request, version, api.flexible(version))(request)])


def decode_response(api: Api, version: int, correlation_id: int, frame: memoryview) -> Any:
    """Decode a response from a frame without its size; WireError for other bytes, and for the response to another request.

    A broker that does not know the version of an ApiVersions request answers in version 0 (KIP-511).
    """
    answered_id, position = decode_response_header(frame, response_header_version(api, version))
    if answered_id != correlation_id:
        raise WireError(f"an answer to request {answered_id} where {correlation_id} was due")
    try:
        return decode_all(api.Response, frame, position, version, api.flexible(version))
    except WireError:
        if api.name != "ApiVersions" or version == 0:
            raise
        return decode_all(api.Response, frame, position, 0, api.flexible(0))
