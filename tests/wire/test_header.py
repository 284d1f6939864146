"""Headers: every version, both sides, and what real clients sent."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minibroker.errors import WireError
from minibroker.schemas import k00_produce, k18_api_versions, k60_describe_cluster
from minibroker.wire import header
from minibroker.wire.api import Api, api_of
from minibroker.wire.header import RequestHeader, decode_request_header
from minibroker.wire.primitives import EncodeError
from tests.golden import Golden, all_golden
from tests.support.failing import failing

PRODUCE = api_of(k00_produce)
API_VERSIONS = api_of(k18_api_versions)
DESCRIBE_CLUSTER = api_of(k60_describe_cluster)

# header version, bytes, header
REQUESTS = [
    (1, "0000 0003 00000007 0001 61", RequestHeader(api_key=0, api_version=3, correlation_id=7, client_id="a")),
    (1, "0000 0003 ffffffff ffff", RequestHeader(api_key=0, api_version=3, correlation_id=-1)),
    (2, "0000 0009 00000007 0001 61 00", RequestHeader(api_key=0, api_version=9, correlation_id=7, client_id="a")),
    (2, "0000 0009 00000007 0000 00", RequestHeader(api_key=0, api_version=9, correlation_id=7, client_id="")),
    (2, "0000 0009 00000007 ffff 00", RequestHeader(api_key=0, api_version=9, correlation_id=7)),
]

BAD_REQUESTS = {
    "nothing": "",
    "cut before the client_id": "0000 0003 00000007 00",
    "client_id longer than the frame": "0000 0003 00000007 0003 61",
    "client_id of length -2": "0000 0003 00000007 fffe 61",
    "client_id is not UTF-8": "0000 0003 00000007 0001 ff",
    "no tags": "0000 0009 00000007 0001 61",
    "2^30 tags": "0000 0009 00000007 0001 61 8080808004",
}


def flexible_of(api_key: int, version: int) -> bool:
    if api_key != 0:
        raise WireError(f"api_key {api_key} is unknown")
    return PRODUCE.flexible(version)


@pytest.mark.parametrize(("header_version", "data", "expected"), REQUESTS)
def test_request_headers(header_version: int, data: str, expected: RequestHeader) -> None:
    encoded = bytes.fromhex(data)
    assert decode_request_header(memoryview(encoded + b"body"), flexible_of) == (expected, len(encoded))
    assert header.encode_request_header(expected, header_version) == encoded


def test_oldest_request_header_has_no_client_id() -> None:
    old = RequestHeader(api_key=7, api_version=0, correlation_id=7, client_id="a")
    assert header.encode_request_header(old, 0) == bytes.fromhex("0007 0000 00000007")


def test_unknown_tags_of_a_request_header_are_skipped() -> None:
    encoded = bytes.fromhex("0000 0009 00000007 0001 61 01 05 02 6162")
    assert decode_request_header(encoded, flexible_of)[1] == len(encoded)


@pytest.mark.parametrize("why", BAD_REQUESTS)
def test_bad_request_headers(why: str) -> None:
    with pytest.raises(WireError):
        decode_request_header(bytes.fromhex(BAD_REQUESTS[why]), flexible_of)


@given(st.binary(max_size=24))
def test_random_bytes_decode_or_raise_wire_error(data: bytes) -> None:
    with contextlib.suppress(WireError):
        read, position = decode_request_header(b"\0\0\0\x09" + data, flexible_of)
        assert 10 < position <= 4 + len(data)
        assert read.api_version == 9


def test_unknown_api_key_raises_the_error_of_the_callback() -> None:
    with pytest.raises(WireError, match="api_key 99 is unknown"):
        decode_request_header(bytes.fromhex("0063 0003 00000007 ffff"), flexible_of)


@pytest.mark.parametrize("wrong", [{"correlation_id": 2**31}, {"client_id": "x" * 40_000}], ids=["correlation_id", "client_id"])
def test_invalid_header_values_raise_encode_error(wrong: dict[str, object]) -> None:
    values: dict[str, object] = {"api_key": 0, "api_version": 3, "correlation_id": 1}
    with pytest.raises(EncodeError):
        header.encode_request_header(RequestHeader(**values | wrong), 1)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("api", "version", "versions"),
    [
        (PRODUCE, 8, (1, 0)),
        (PRODUCE, 9, (2, 1)),
        (API_VERSIONS, 2, (1, 0)),
        (API_VERSIONS, 3, (2, 0)),
        (API_VERSIONS, 4, (2, 0)),
        (DESCRIBE_CLUSTER, 0, (2, 1)),
    ],
    ids=str,
)
def test_header_versions(api: Api, version: int, versions: tuple[int, int]) -> None:
    assert (header.request_header_version(api, version), header.response_header_version(api, version)) == versions


def test_controlled_shutdown_v0_uses_header_v0() -> None:
    api = Api.__new__(Api)
    api.key, api.flexible_since = 7, 3
    assert [header.request_header_version(api, version) for version in range(4)] == [0, 1, 1, 2]


@pytest.mark.parametrize(("header_version", "data"), [(0, "00000007"), (1, "00000007 00")])
def test_response_headers(header_version: int, data: str) -> None:
    encoded = bytes.fromhex(data)
    assert header.encode_response_header(7, header_version) == encoded
    assert header.decode_response_header(memoryview(encoded + b"body"), header_version) == (7, len(encoded))
    for length in range(len(encoded)):
        with pytest.raises(WireError):
            header.decode_response_header(encoded[:length], header_version)


def test_headers_of_real_clients() -> None:
    def check(golden: Golden) -> None:
        api = api_of(golden.schema)
        read, position = decode_request_header(golden.frame, lambda api_key, version: api.flexible(version))
        assert (read.api_key, read.api_version, position) == (golden.api_key, golden.version, golden.header_size)
        assert header.encode_request_header(read, header.request_header_version(api, golden.version)) == golden.frame[:position]

    requests = [each for each in all_golden().values() if each.direction == "request"]
    assert failing(requests, check, lambda golden: golden.name) == {}
