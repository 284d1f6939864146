"""The fuzzer's own parts: layouts find every field, templates are valid, mutations are repeatable and reach what they should."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from minibroker.schemas import k02_list_offsets, k37_create_partitions
from tests.fuzz.answers import apis
from tests.fuzz.excluded import decoded, is_excluded
from tests.fuzz.findings import Finding, SentFrame, load, save
from tests.fuzz.kafkas_errors import is_kafkas_answer
from tests.fuzz.layout import layout_of
from tests.fuzz.mutations import with_changed_bytes, with_changed_fields
from tests.fuzz.sequences import SEQUENCES, Sequence
from tests.fuzz.templates import Template, Templates, encoded
from tests.fuzz.values import request_of
from tests.fuzz.world import World
from tests.golden import all_golden

REQUESTS = [each for each in all_golden().values() if each.direction == "request" and each.version <= each.schema.VERSIONS[1]]


def made(seed: int, count: int) -> list[Template]:
    chance, templates = Random(seed), Templates(World())
    return [templates.one(chance) for _ in range(count)]


@pytest.mark.parametrize("stem", sorted({each.stem for each in REQUESTS}))
def test_a_layout_covers_every_byte_of_a_body(stem: str) -> None:
    for each in (golden for golden in REQUESTS if golden.stem == stem):
        layout = layout_of(each.struct, each.frame, each.header_size, each.version, flexible=each.flexible)
        covered = {place for span in layout.spans if span.kind != "array" for place in range(span.start, span.end)}
        covered |= {place for span in layout.spans if span.kind == "array" for place in range(span.start, span.count_end)}
        if each.schema.API_KEY not in (3, 51):  # librdkafka leaves bytes behind these
            assert covered == set(range(each.header_size, len(each.frame))), each.name


def test_templates_are_valid_requests_of_every_api_and_version() -> None:
    templates = made(1, 6000)
    assert all(decoded(template.frame) is not None for template in templates)
    kinds = {(int.from_bytes(template.frame[:2]), int.from_bytes(template.frame[2:4])) for template in templates}
    assert kinds == {(api.key, version) for api in apis().values() for version in range(api.min_version, api.max_version + 1)}


def test_changed_fields_are_mostly_valid_requests_and_changed_bytes_mostly_not() -> None:
    chance, templates = Random(2), made(2, 2000)
    fields = Counter(decoded(with_changed_fields(each.frame, each.layout, chance)) is not None for each in templates)
    damaged = Counter(decoded(with_changed_bytes(each.frame, templates[0].frame, chance)) is not None for each in templates)
    assert 0.4 < fields[True] / 2000 < 0.95
    assert 0.02 < damaged[True] / 2000 < 0.6


def test_a_seed_gives_the_same_frames_again() -> None:
    def frames() -> list[bytes]:
        chance = Random(3)
        return [with_changed_fields(each.frame, each.layout, chance) for each in made(3, 300)]

    first, second = frames(), frames()
    same = [one == other for one, other in zip(first, second, strict=True)]
    assert sum(same) > 250  # batches carry the time of day


def test_oversized_requests_are_excluded() -> None:
    for count, excluded in ((64, False), (65, True)):
        topic = k37_create_partitions.Topic(name="alpha", count=count, assignments=None)
        request = k37_create_partitions.Request(topics=[topic], timeout_ms=0, validate_only=False)
        assert is_excluded(encoded(apis()[37], 3, request)[0]) is excluded


def test_unknown_server_error_is_allowed_only_like_kafka() -> None:
    def frame(isolation_level: int) -> bytes:
        return encoded(apis()[2], 5, k02_list_offsets.Request(replica_id=-1, isolation_level=isolation_level, topics=[]))[0]

    assert is_kafkas_answer(frame(7))
    assert not is_kafkas_answer(frame(1))
    assert not is_kafkas_answer(b"\0\x12\0\0\0\0\0\1\xff\xff")


@pytest.mark.parametrize("make", SEQUENCES)
def test_a_sequence_ends_when_its_connection_is_closed(make: Callable[[World, Random], Sequence]) -> None:
    steps = make(World(), Random(5))
    api_key, fields = next(steps)
    assert request_of(apis()[api_key].Request, api_key, apis()[api_key].max_version, World(), Random(5), **fields)
    left = 0
    for _ in range(30):
        try:
            steps.send(None)
        except StopIteration:
            return
        left += 1
    raise AssertionError(f"{left} more steps without an answer")


def test_a_finding_is_read_back(tmp_path: Path) -> None:
    frames = (SentFrame(1, b"\0\0\0\1a"), SentFrame(2, b"\0\0\0\2bc"), SentFrame(2, bytes(5000)))
    path = save(Finding("a kind: of it", "all of it", frames), tmp_path, 7, 1)
    assert tuple(load(path)) == frames
