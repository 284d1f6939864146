from __future__ import annotations

import pytest

from minibroker.console.filters import Filter, FilterError, parse_json_path
from minibroker.console.times import parse_time
from minibroker.records.record import Record

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
