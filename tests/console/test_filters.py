from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from minibroker.console.filters import (
    DECODED_MAX,
    SCHEMA_LETTERS_MAX,
    SCHEMAS_MAX,
    Filter,
    FilterError,
    UnknownSchemaError,
    parse_json_path,
)
from minibroker.console.scanning import Found, Scan
from minibroker.console.searching import Search
from minibroker.console.times import parse_time
from minibroker.records.any_format import decode_records
from minibroker.records.builder import build_batch
from minibroker.records.record import Record
from minibroker.registry.serdes.codecs import RegisteredSchema, codec_of
from minibroker.registry.stored_schema import AVRO

if TYPE_CHECKING:
    from minibroker.cluster.partition import Partition
    from minibroker.console.reading import LogReader

ORDER = b'{"user": {"id": 5, "name": "Ann"}, "items": [{"name": "tea"}, 2], "a.b": true, "none": null}'


@pytest.mark.parametrize(
    "path, is_found",
    [
        ("$.user.id", True),
        ("$.user.id = 5", True),
        ("$.user.id = 6", False),
        ("$.user.id != 6", True),
        ("$.user.id > 4", True),
        ("$.user.id < 4", False),
        ("$.user.name = Ann", True),
        ('$.user.name = "Ann"', True),
        ("$.user.name ~ nn", True),
        ("$.items[0].name = tea", True),
        ("$.items[1] = 2", True),
        ("$.items[9]", False),
        ("$['a.b'] = true", True),
        ("$.none = null", True),
        ("$.missing", False),
        ("$.user > 4", False),
        ("$ ~ tea", True),
    ],
)
def test_json_paths_find_what_they_name(path: str, is_found: bool) -> None:
    assert parse_json_path(path).matches(ORDER) is is_found


@pytest.mark.parametrize("frame", [b"\0\0\0\0\7", b"\1" + bytes(range(16))])
def test_json_paths_find_values_after_the_id_of_their_schema(frame: bytes) -> None:
    path = parse_json_path("$.user.id = 5")
    assert path.matches(frame + ORDER)
    assert not path.matches(frame[:-1] + ORDER)
    assert not path.matches(frame)
    assert not path.matches(b"")


@pytest.mark.parametrize("path", ["user.id", "$..id", "$.a[", "$.a[x]", "$.a[-1]", "$x", "$" + ".a" * 30, "$." + "a" * 2000])
def test_invalid_json_paths_are_explained(path: str) -> None:
    with pytest.raises(FilterError):
        parse_json_path(path)


@pytest.mark.parametrize("value", [None, b"", b"\xff", b"not JSON", b"[" * 100_000])
def test_values_that_are_not_json_never_match(value: bytes | None) -> None:
    assert not parse_json_path("$.a").matches(value)


NAMED = RegisteredSchema(7, AVRO, '{"type": "record", "name": "A", "fields": [{"name": "name", "type": "string"}]}')


def named(name: str, schema_id: int = 7) -> bytes:
    return codec_of(NAMED._replace(schema_id=schema_id)).encode({"name": name})


def decoding_filter(text: str) -> Filter:
    return Filter(json_path=parse_json_path(text)._replace(schemas={}))


def test_a_scan_asks_for_each_schema_before_it_decodes_values() -> None:
    values = (b'{"name": "tea"}', named("tea"), named("cup"), b"\0\0\0\0\x08" + b'{"name": "tea"}', named("tea")[:-1])
    batch = bytes(build_batch([Record(offset, 1, None, value) for offset, value in enumerate(values)]))
    wanted = decoding_filter("$.name = tea")
    found = Scan(0, 10, wanted).run(batch)
    assert (len(found.rows), found.next_offset, found.unknown_schema) == (1, 1, 7)
    wanted = wanted.with_schema(7, NAMED)
    found = Scan(1, 10, wanted).run(batch)
    assert ([row["offset"] for row in found.rows], found.next_offset, found.unknown_schema) == ([1], 3, 8)
    found = Scan(3, 10, wanted.with_schema(8, None)).run(batch)
    assert ([row["offset"] for row in found.rows], found.next_offset, found.unknown_schema) == ([3], 5, None)
    assert Scan(0, 10, Filter(json_path=parse_json_path("$.name = tea"))).run(batch).unknown_schema is None, "there is no registry"


def test_a_search_decodes_few_schemas_and_small_values() -> None:
    wanted = decoding_filter("$.name ~ t")
    for schema_id in range(SCHEMAS_MAX):
        with pytest.raises(UnknownSchemaError):
            wanted.matches(Record(0, 1, None, named("tea", schema_id)))
        wanted = wanted.with_schema(schema_id, NAMED)
    assert not wanted.matches(Record(0, 1, None, named("tea", SCHEMAS_MAX)))
    assert wanted.matches(Record(0, 1, None, named("t" * (DECODED_MAX - 10))))
    assert not wanted.matches(Record(0, 1, None, named("t" * DECODED_MAX)))
    large = decoding_filter("$.name").with_schema(7, NAMED._replace(text=NAMED.text + " " * SCHEMA_LETTERS_MAX))
    assert not large.matches(Record(0, 1, None, named("tea")))


def test_a_scan_that_compares_values_ends_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The records of a chunk may be many, if they are compressed."""
    monkeypatch.setattr("minibroker.console.scanning.CHUNK_S", 0)
    batch = bytes(build_batch([Record(offset, 1, None, b'{"a": 1}') for offset in range(3)]))
    found = Scan(0, 10, Filter(json_path=parse_json_path("$.a"))).run(batch)
    assert (len(found.rows), found.next_offset) == (1, 1)


def test_a_scan_that_starts_deep_in_a_batch_compares_more_than_one_value(monkeypatch: pytest.MonkeyPatch) -> None:
    """The way to the first record may take longer than the limit, again in each scan."""
    seconds = itertools.count()
    monkeypatch.setattr(
        "minibroker.console.scanning.decode_records", lambda batch: (each for each in decode_records(batch) if next(seconds) >= 0)
    )
    monkeypatch.setattr("minibroker.console.scanning.time", SimpleNamespace(monotonic=lambda: next(seconds)))
    monkeypatch.setattr("minibroker.console.scanning.CHUNK_S", 10)
    batch = bytes(build_batch([Record(offset, 1, None, b'{"a": 1}') for offset in range(60)]))
    found = Scan(40, 10, Filter(json_path=parse_json_path("$.a"))).run(batch)
    assert found.record_count > 1


@pytest.mark.parametrize("values_a_turn", [10, 100])
async def test_each_request_of_a_slow_search_from_the_end_gets_further(monkeypatch: pytest.MonkeyPatch, values_a_turn: int) -> None:
    clock = MovingClock()
    monkeypatch.setattr("minibroker.console.searching.time", SimpleNamespace(monotonic=clock.now_s))

    async def search_rows(_: Any, scan: Scan) -> tuple[Found, int]:
        clock.seconds += 0.5
        end = min(scan.offset + values_a_turn, scan.end_offset)
        return Found([{"offset": each} for each in range(scan.offset, end)], end, end - scan.offset), 1

    partition = cast("Partition", SimpleNamespace(index=0, online_log=SimpleNamespace(log_start_offset=0, log_end_offset=5_000)))
    search = Search(cast("LogReader", SimpleNamespace(search_rows=search_rows)), Filter(json_path=parse_json_path("$.a")), 50)
    await search.backwards([partition], {0: 5_000})
    assert search.rows
    assert search.left[0] < 5_000


class MovingClock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now_s(self) -> float:
        """Return the time."""
        return self.seconds


def test_filters_look_at_keys_values_headers_and_times() -> None:
    record = Record(7, 1_000, b"key-1", b"value", (("trace", b"abc"),))
    assert Filter(text="alu").matches(record)
    assert Filter(text="bc").matches(record)
    assert Filter(text="trac").matches(record)
    assert not Filter(text="other").matches(record)
    assert Filter(key="key-1").matches(record)
    assert not Filter(key="key").matches(record)
    assert Filter(from_ms=1_000, until_ms=1_001).matches(record)
    assert not Filter(from_ms=1_001).matches(record)
    assert not Filter(until_ms=1_000).matches(record)


def test_times_are_absolute_or_ago() -> None:
    assert parse_time("1700000000000", 0) == 1_700_000_000_000
    assert parse_time("-5m", 1_000_000) == 700_000
    assert parse_time("2026-01-31T12:00", 0) == 1_769_860_800_000
    assert parse_time("2026-01-31T12:00+01:00", 0) == 1_769_857_200_000
    for wrong in ("", "yesterday", "-5", "-xm", "9" * 40):
        with pytest.raises(ValueError, match="time"):
            parse_time(wrong, 0)


def test_a_text_across_two_pieces_of_a_payload_is_found() -> None:
    wanted = Filter(text="needle")
    for start in (0, 32 * 1024 - 7, 32 * 1024 - 6, 32 * 1024 - 3, 32 * 1024, 64 * 1024 - 1):
        payload = memoryview(b"x" * start + b"needle" + b"x" * 50)
        assert wanted.may_be_in(payload), start
        assert not wanted.may_be_in(payload[: start + 5]), start
