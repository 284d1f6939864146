"""Golden frames through both codecs: read whole, written back to the byte, with bytes behind, and cut at each length.

A frame that fails here names the client that sent it.
"""

from __future__ import annotations

import pytest

from minibroker.errors import WireError
from minibroker.schemas import k18_api_versions
from minibroker.wire import codec, compiled, header
from minibroker.wire.api import api_of
from minibroker.wire.frame import FrameSplitter
from tests.golden import Golden, all_golden, golden

ALL = sorted(all_golden().values())
SERVED = {golden.stem: golden.schema.VERSIONS for golden in ALL}
#: franz-go asks for ApiVersions 5, newer than any that Kafka serves; the answer has the layout of version 0.
FRAMES = [golden for golden in ALL if golden.version <= SERVED[golden.stem][1]]

each_frame = pytest.mark.parametrize("golden", FRAMES, ids=lambda golden: golden.name)


@pytest.mark.parametrize("stem", sorted(SERVED))
def test_every_served_version_has_a_request_and_a_response(stem: str) -> None:
    low, high = SERVED[stem]
    captured = {(golden.version, golden.direction) for golden in FRAMES if golden.stem == stem}
    wanted = {(version, direction) for version in range(low, high + 1) for direction in ("request", "response")}
    assert wanted <= captured


@each_frame
def test_strict_codec_reads_and_writes_it(golden: Golden) -> None:
    value = codec.decode(golden.struct, golden.body, golden.version, flexible=golden.flexible)
    assert codec.encode(value, golden.version, flexible=golden.flexible) == golden.body


@each_frame
def test_compiled_codec_reads_and_writes_it(golden: Golden) -> None:
    value = compiled.decode_all(golden.struct, golden.frame, golden.header_size, golden.version, golden.flexible)
    assert value == golden.decode()
    assert b"".join(compiled.encoder(golden.struct, golden.version, golden.flexible)(value)) == golden.body


@each_frame
def test_bytes_behind_it_are_refused(golden: Golden) -> None:
    with pytest.raises(WireError):
        codec.decode(golden.struct, golden.body + b"\0", golden.version, flexible=golden.flexible)
    with pytest.raises(WireError):
        compiled.decode_all(golden.struct, golden.body + b"\0", 0, golden.version, golden.flexible)


@each_frame
def test_cut_at_any_length_it_is_refused(golden: Golden) -> None:
    for length in range(len(golden.body)):
        with pytest.raises(WireError):
            compiled.decode_all(golden.struct, golden.body[:length], 0, golden.version, golden.flexible)
        if length % 7 == 0:  # the slow codec at fewer places
            with pytest.raises(WireError):
                codec.decode(golden.struct, golden.body[:length], golden.version, flexible=golden.flexible)


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_a_stream_fed_in_pieces_gives_the_frames_back(size: int) -> None:
    stream = b"".join(golden.data for golden in ALL)
    splitter = FrameSplitter(max_size=10_000)
    found = [frame for i in range(0, len(stream), size) for frame in splitter.feed(stream[i : i + size])]
    assert found == [golden.frame for golden in ALL]
    assert splitter.pending == 0


@each_frame
def test_its_header_is_read_and_written(golden: Golden) -> None:
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


@each_frame
def test_a_cut_header_is_refused(golden: Golden) -> None:
    api = api_of(golden.schema)
    for length in range(golden.header_size):
        cut = golden.frame[:length]
        if golden.direction == "request":
            with pytest.raises(WireError):
                header.decode_request_header(cut, lambda _, version: api.flexible(version))
        else:
            with pytest.raises(WireError):
                header.decode_response_header(cut, header.response_header_version(api, golden.version))


def test_kafka_answers_a_too_new_api_versions_in_the_layout_of_version_0() -> None:
    too_new = golden("k18_api_versions_v5_response_franz_go_1.22.2")
    answer = codec.decode(k18_api_versions.Response, too_new.frame[4:], 0, flexible=False)
    assert answer.error_code == 35
    assert [(api.api_key, api.min_version, api.max_version) for api in answer.api_keys] == [(18, 0, 4)]
