"""The compiled codec does what the codec defines, for any declaration, value and bytes."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Generator
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minibroker.errors import WireError
from minibroker.schemas import k00_produce, k01_fetch, k03_metadata, k18_api_versions, k19_create_topics
from minibroker.wire import codec, compiled
from minibroker.wire.compiled_decoder import OverBudgetError
from minibroker.wire.primitives import EncodeError
from tests.golden import Golden, all_golden
from tests.support.soak import examples
from tests.support.worst_frames import schemas, worst_bodies
from tests.wire.declarations import VERSIONS, declarations, values

# Of many frames of the same version one is enough to mutate; the longest are slow to.
SEEDS = [golden for golden in sorted(all_golden().values()) if golden.version <= golden.schema.VERSIONS[1] and len(golden.body) < 600]


def must_not_be_asked(*_: object) -> None:
    raise AssertionError("generated code gave a good message up to the codec")


def alone(function: Callable[..., Any], *arguments: object) -> Any:
    """Call generated code without the codec that it falls back to."""
    names = function.__globals__
    definition, names["definition"] = names["definition"], must_not_be_asked
    try:
        return function(*arguments)
    finally:
        names["definition"] = definition


def outcome(decode: Callable[..., Any], *arguments: Any, version: int, flexible: bool) -> tuple[bytes, int] | str:
    """What comes of bytes: the value (as bytes, for NaN is not equal to itself) and where it ended, or the complaint."""
    try:
        value, end = decode(*arguments)
    except WireError as error:
        return str(error)
    return codec.encode(value, version, flexible=flexible), end


@examples(150)
@given(st.data(), st.sampled_from(VERSIONS), st.booleans())
def test_random_values_of_random_declarations(data: st.DataObject, version: int, flexible: bool) -> None:
    struct = data.draw(declarations())
    decoder, encoder = compiled.decoder(struct, version, flexible), compiled.encoder(struct, version, flexible)
    for _ in range(3):
        value = data.draw(values(struct, version, flexible))

        encoded = codec.encode(value, version, flexible=flexible)

        assert b"".join(alone(encoder, value)) == encoded
        assert codec.decode(struct, encoded, version, flexible=flexible) == value
        assert alone(decoder, encoded, 0) == (value, len(encoded))
        assert alone(decoder, memoryview(bytearray(b"ab" + encoded)), 2) == (value, 2 + len(encoded))


@examples(150)
@given(st.data(), st.sampled_from(VERSIONS), st.booleans())
def test_random_bytes_for_random_declarations(data: st.DataObject, version: int, flexible: bool) -> None:
    struct = data.draw(declarations())
    decoder = compiled.decoder(struct, version, flexible)
    message = codec.encode(data.draw(values(struct, version, flexible)), version, flexible=flexible)
    for noise in (data.draw(st.binary(max_size=40)), mutated(data.draw, message), mutated(data.draw, message)):
        defined = outcome(
            lambda noise=noise: codec.decode_from(struct, noise, 0, version, flexible=flexible), version=version, flexible=flexible
        )
        assert outcome(decoder, noise, 0, version=version, flexible=flexible) == defined


def sliced(struct: Any, version: int, flexible: bool, budget: int = 1 << 40) -> Callable[..., Any]:
    """The sliced decoder as a function of bytes and position."""
    decode = compiled.sliced_decoder(struct, version, flexible)
    return lambda data, position: to_the_end(decode(memoryview(data), position, budget))[0][:2]


def to_the_end(steps: Generator[None, None, Any]) -> tuple[Any, int]:
    """What a generator returns, and how often it paused."""
    pauses = 0
    while True:
        try:
            next(steps)
            pauses += 1
        except StopIteration as end:
            return end.value, pauses


@examples(150)
@given(st.data(), st.sampled_from(VERSIONS), st.booleans())
def test_sliced_decoding_of_random_values(data: st.DataObject, version: int, flexible: bool) -> None:
    struct = data.draw(declarations())
    value = data.draw(values(struct, version, flexible))
    encoded = codec.encode(value, version, flexible=flexible)
    assert sliced(struct, version, flexible)(encoded, 0) == (value, len(encoded))
    assert sliced(struct, version, flexible)(b"ab" + encoded, 2) == (value, 2 + len(encoded))


@examples(150)
@given(st.data(), st.sampled_from(VERSIONS), st.booleans())
def test_sliced_decoding_of_random_bytes(data: st.DataObject, version: int, flexible: bool) -> None:
    """The same as at once, but for the complaint, which does not name the field."""
    struct = data.draw(declarations())
    message = codec.encode(data.draw(values(struct, version, flexible)), version, flexible=flexible)
    for noise in (data.draw(st.binary(max_size=40)), mutated(data.draw, message), mutated(data.draw, message)):
        defined = outcome(compiled.decoder(struct, version, flexible), noise, 0, version=version, flexible=flexible)
        found = outcome(sliced(struct, version, flexible), noise, 0, version=version, flexible=flexible)
        assert found == defined or (isinstance(found, str) and isinstance(defined, str))


@given(st.sampled_from(SEEDS))
def test_sliced_decoding_of_real_client_frames(golden: Golden) -> None:
    value, end = compiled.decoder(golden.struct, golden.version, golden.flexible)(golden.body, 0)
    assert sliced(golden.struct, golden.version, golden.flexible)(golden.body, 0) == (value, end)


@pytest.mark.parametrize("key", sorted(schemas))
def test_decoding_memory_stays_within_budget(key: int) -> None:
    """What the worst frame of each API takes is at most its weight, and what is refused takes no more than the budget."""
    size, budget = 50_000, 400_000
    schema = schemas[key]
    for version in schema.VERSIONS:
        flexible = schema.FLEXIBLE_SINCE is not None and version >= schema.FLEXIBLE_SINCE
        decode = compiled.sliced_decoder(schema.Request, version, flexible)
        for body in worst_bodies(schema, version, size):
            data = memoryview(body)
            with suppress(OverBudgetError):
                to_the_end(decode(data, 0, 1000))  # what is made once
            tracemalloc.start()
            try:
                with suppress(OverBudgetError):
                    to_the_end(decode(data, 0, budget))
                _, peak = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
            assert peak <= 1.1 * budget + 200_000, (version, peak)


@given(st.data(), st.sampled_from(VERSIONS), st.booleans())
def test_truncated_or_trailing_bytes_are_refused(data: st.DataObject, version: int, flexible: bool) -> None:
    struct = data.draw(declarations())
    message = codec.encode(data.draw(values(struct, version, flexible)), version, flexible=flexible)
    for length in range(0, len(message), 1 + len(message) // 100):
        with pytest.raises(WireError):
            compiled.decoder(struct, version, flexible)(message[:length], 0)
        with pytest.raises(WireError):
            codec.decode_from(struct, message[:length], 0, version, flexible=flexible)
    with pytest.raises(WireError):
        compiled.decode_all(struct, message + b"\0", 0, version, flexible)
    with pytest.raises(WireError):
        codec.decode(struct, message + b"\0", version, flexible=flexible)


@examples(600)
@given(st.sampled_from(SEEDS), st.data())
def test_mutated_frames_of_real_clients(golden: Golden, data: st.DataObject) -> None:
    noise, version, flexible = mutated(data.draw, golden.body), golden.version, golden.flexible
    defined = outcome(lambda: codec.decode_from(golden.struct, noise, 0, version, flexible=flexible), version=version, flexible=flexible)
    decoder = compiled.decoder(golden.struct, version, flexible)
    assert outcome(decoder, noise, 0, version=version, flexible=flexible) == defined


def mutated(draw: Callable[[st.SearchStrategy[Any]], Any], message: bytes) -> bytes:
    """Overwrite, insert or drop some bytes; lengths and counts like to be extreme."""
    noise = bytearray(message)
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(noise)))
        end = min(len(noise), start + draw(st.integers(0, 4)))
        noise[start:end] = draw(
            st.sampled_from([b"", b"\x00", b"\x7f", b"\x80", b"\xff", b"\xff" * 4, b"\xff" * 5, b"\x7f" + b"\xff" * 3])
            | st.binary(max_size=5)
        )
    return bytes(noise)


def fetch_response(*records: bytes | None) -> k01_fetch.Response:
    partitions = [
        k01_fetch.PartitionResult(partition_index=index, error_code=0, high_watermark=1, aborted_transactions=None, records=each)
        for index, each in enumerate(records)
    ]
    return k01_fetch.Response(responses=[k01_fetch.TopicResult(topic="orders", partitions=partitions)])


@pytest.mark.parametrize("version", [11, 12, 17])
def test_records_are_not_copied_when_encoded(version: int) -> None:
    batches = [memoryview(b"first batch"), b"", None, bytearray(b"second batch")]
    flexible = version >= k01_fetch.FLEXIBLE_SINCE
    response = fetch_response(*batches)  # type: ignore[arg-type]

    chunks = compiled.encoder(k01_fetch.Response, version, flexible)(response)

    assert [chunk for chunk in chunks if any(chunk is batch for batch in batches)] == [batches[0], batches[3]]
    assert len(chunks) == 4 + flexible, "what lies between two batches is one chunk"
    assert b"".join(chunks) == codec.encode(response, version, flexible=flexible)


def test_records_decode_as_views_of_the_frame() -> None:
    topic = k00_produce.Topic(name="orders", partition_data=[k00_produce.Partition(index=0, records=b"batch")])
    request = k00_produce.Request(acks=1, timeout_ms=0, topic_data=[topic])
    frame = bytearray(codec.encode(request, 9, flexible=True))

    decoded = compiled.decode_all(k00_produce.Request, memoryview(frame), 0, 9, True)
    frame[frame.index(b"batch")] = ord("m")

    records = decoded.topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    assert bytes(records) == b"match"


def test_decoded_values_do_not_reference_the_frame() -> None:
    frame = bytearray(codec.encode(k18_api_versions.Request(client_software_name="x", client_software_version="1"), 3, flexible=True))
    compiled.decode_all(k18_api_versions.Request, memoryview(frame), 0, 3, True)
    frame.clear()  # BufferError, if something still looked into it


@pytest.mark.parametrize(
    "wrong",
    [None, "x" * 40_000, 5, "\ud800"],
    ids=["null where none is allowed", "longer than any string", "a number", "no character"],
)
@pytest.mark.parametrize("version", [4, 5])
def test_invalid_values_raise_encode_error(wrong: Any, version: int) -> None:
    topic = k19_create_topics.Topic(name=wrong, num_partitions=1, replication_factor=1, assignments=[], configs=[])
    request = k19_create_topics.Request(topics=[topic], timeout_ms=0)
    with pytest.raises(EncodeError, match="name"):
        compiled.encoder(k19_create_topics.Request, version, version >= 5)(request)
    with pytest.raises(EncodeError, match="name"):
        codec.encode(request, version, flexible=version >= 5)


def test_null_is_refused_in_versions_before_nullable() -> None:
    assert compiled.decode_all(k03_metadata.Request, b"\xff\xff\xff\xff", 0, 1, False).topics is None
    with pytest.raises(WireError, match="null where none is allowed"):
        compiled.decode_all(k03_metadata.Request, b"\xff\xff\xff\xff", 0, 0, False)


def test_decoder_is_generated_once_and_keeps_its_source() -> None:
    decoder = compiled.decoder(k03_metadata.Request, 12, True)
    assert decoder is compiled.decoder(k03_metadata.Request, 12, True)
    assert "topics" in decoder.source  # type: ignore[attr-defined]
