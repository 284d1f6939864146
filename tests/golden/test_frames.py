"""Golden frames through both codecs: decoded whole, encoded back to the byte, with bytes after the end, and cut at many lengths.

A failure names the frame, and so the client that sent it. Only a soak cuts frames at each length (`lengths`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

import pytest

from minibroker.errors import WireError
from minibroker.schemas import k18_api_versions
from minibroker.wire import codec, compiled, header
from minibroker.wire.api import api_of
from tests.golden import Golden, all_golden, golden
from tests.support.failing import failing
from tests.support.soak import seed, stride

ALL = sorted(all_golden().values())
SERVED = {golden.stem: golden.schema.VERSIONS for golden in ALL}
#: franz-go asks for ApiVersions 5, newer than any that Kafka serves; the answer has the layout of version 0.
FRAMES = [golden for golden in ALL if golden.version <= SERVED[golden.stem][1]]

CHANCE = Random(seed())
STEMS = sorted({golden.stem for golden in FRAMES})

each_api = pytest.mark.parametrize("stem", STEMS)


def failing_frames(stem: str, check: Callable[[Golden], object]) -> dict[str, str]:
    """Return the frames of an API for which `check` fails, by name."""
    return failing((each for each in FRAMES if each.stem == stem), check, lambda golden: golden.name)


def is_refused(decode: Callable[..., object], *arguments: object) -> bool:
    """Return whether decoding raises WireError. pytest.raises costs ten times as much, and there are half a million calls."""
    try:
        decode(*arguments)
    except WireError:
        return True
    return False


def lengths(body: bytes, spacing: int = 1) -> Iterator[int]:
    """Lengths at which to cut a frame: each of its first hundred bytes, then each fourth; fewer in `make check`, all in a soak."""
    yield from range(0, min(100, len(body)), spacing * stride(1))
    step = spacing * stride(4)
    yield from range(100 + CHANCE.randrange(step), len(body), step)


def reads(golden: Golden, data: bytes) -> object:
    return codec.decode(golden.struct, data, golden.version, flexible=golden.flexible)


def reads_compiled(golden: Golden, data: bytes) -> object:
    return compiled.decode_all(golden.struct, data, 0, golden.version, golden.flexible)


@pytest.mark.parametrize("stem", sorted(SERVED))
def test_every_served_version_has_a_request_and_a_response(stem: str) -> None:
    low, high = SERVED[stem]
    captured = {(golden.version, golden.direction) for golden in FRAMES if golden.stem == stem}
    expected = {(version, direction) for version in range(low, high + 1) for direction in ("request", "response")}
    assert expected <= captured


@each_api
def test_strict_codec_reads_and_writes_it(stem: str) -> None:
    def check(golden: Golden) -> None:
        assert codec.encode(reads(golden, golden.body), golden.version, flexible=golden.flexible) == golden.body

    assert failing_frames(stem, check) == {}


@each_api
def test_compiled_codec_reads_and_writes_it(stem: str) -> None:
    def check(golden: Golden) -> None:
        value = compiled.decode_all(golden.struct, golden.frame, golden.header_size, golden.version, golden.flexible)
        assert value == golden.decode()
        assert b"".join(compiled.encoder(golden.struct, golden.version, golden.flexible)(value)) == golden.body

    assert failing_frames(stem, check) == {}


@each_api
def test_trailing_bytes_are_refused(stem: str) -> None:
    def check(golden: Golden) -> None:
        assert is_refused(reads, golden, golden.body + b"\0")
        assert is_refused(reads_compiled, golden, golden.body + b"\0")

    assert failing_frames(stem, check) == {}


@each_api
def test_cut_at_any_length_it_is_refused(stem: str) -> None:
    def check(golden: Golden) -> None:
        body = golden.body
        assert [length for length in lengths(body) if not is_refused(reads_compiled, golden, body[:length])] == []
        # the slow codec at fewer places
        assert [length for length in lengths(body, 7) if not is_refused(reads, golden, body[:length])] == []

    assert failing_frames(stem, check) == {}


def reads_header(golden: Golden, frame: bytes) -> object:
    api = api_of(golden.schema)
    if golden.direction == "request":
        return header.decode_request_header(frame, lambda _, version: api.flexible(version))
    return header.decode_response_header(frame, header.response_header_version(api, golden.version))


@each_api
def test_its_header_is_read_and_written(stem: str) -> None:
    def check(golden: Golden) -> None:
        api = api_of(golden.schema)
        if golden.direction == "request":
            read, position = header.decode_request_header(golden.frame, lambda _, version: api.flexible(version))
            assert (read.api_key, read.api_version, position) == (golden.api_key, golden.version, golden.header_size)
            written = header.encode_request_header(read, header.request_header_version(api, golden.version))
        else:
            header_version = header.response_header_version(api, golden.version)
            correlation_id, position = header.decode_response_header(golden.frame, header_version)
            assert position == golden.header_size
            written = header.encode_response_header(correlation_id, header_version)
        assert bytes(written) == golden.frame[: golden.header_size]

    assert failing_frames(stem, check) == {}


@each_api
def test_a_cut_header_is_refused(stem: str) -> None:
    def check(golden: Golden) -> None:
        taken = [length for length in range(golden.header_size) if not is_refused(reads_header, golden, golden.frame[:length])]
        assert taken == []

    assert failing_frames(stem, check) == {}


def test_kafka_answers_a_too_new_api_versions_in_the_layout_of_version_0() -> None:
    too_new = golden("k18_api_versions_v5_response_franz_go_1.22.2")
    answer = codec.decode(k18_api_versions.Response, too_new.frame[4:], 0, flexible=False)
    assert answer.error_code == 35
    assert [(api.api_key, api.min_version, api.max_version) for api in answer.api_keys] == [(18, 0, 4)]
