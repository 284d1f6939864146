"""Records as text and as JSON, input cut into messages, points in time: without a broker."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minibroker.cli import input as source
from minibroker.cli.records import RecordFormat, bytes_from_json, bytes_to_json, from_json, to_json, unescape
from minibroker.client.consumer import ConsumedRecord
from minibroker.client.offsets import epoch_ms
from minibroker.records.batch import TimestampType
from minibroker.records.record import Record
from tests.support.soak import examples

RECORD = Record(7, 1356998400000, b"key", b"\xffvalue", (("a", b"1"), ("b", None)))
CONSUMED = ConsumedRecord("orders", 2, TimestampType.CREATE_TIME, RECORD)
NULLS = ConsumedRecord("orders", 0, TimestampType.LOG_APPEND_TIME, Record(0, 0, None, None, ()))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("%t %p %o %T\\n", b"orders 2 7 1356998400000\n"),
        ("%k=%v;%s", b"key=\xffvalue;\xffvalue"),
        ("%h", b"a=1,b="),
        ("%K %S %%", b"3 6 %"),
        ("%R%v", b"\0\0\0\x06\xffvalue"),
        ("\\x41\\t\\\\n\\0é", b"A\t\\n\0\xc3\xa9"),
        ("", b""),
    ],
)
def test_formats(text: str, expected: bytes) -> None:
    assert RecordFormat(text)(CONSUMED) == expected


def test_null_has_its_own_text() -> None:
    assert RecordFormat("[%k] [%v] %K %S", null=b"NULL")(NULLS) == b"[NULL] [NULL] -1 -1"
    assert RecordFormat("[%k] [%v] %R")(NULLS) == b"[] [] \xff\xff\xff\xff"


@pytest.mark.parametrize("text", ["%q", "%", "a%"])
def test_unknown_letters_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="unknown"):
        RecordFormat(text)


def test_unknown_escapes_stay() -> None:
    assert unescape("\\q\\x4\\xzz\\n") == b"\\q\\x4\\xzz\n"


@given(st.none() | st.binary())
def test_bytes_survive_json(content: bytes | None) -> None:
    assert bytes_from_json(json.loads(json.dumps(bytes_to_json(content)))) == content


def test_a_record_survives_json() -> None:
    item = json.loads(json.dumps(to_json(CONSUMED)))
    record, partition = from_json(item, now_ms=0)
    assert (record._replace(offset=7), partition) == (RECORD, 2)


def test_little_is_needed_of_a_json_record() -> None:
    assert from_json({}, now_ms=5) == (Record(0, 5, None, None, ()), None)
    assert from_json({"headers": {"a": "1", "b": None}}, now_ms=5)[0].headers == (("a", b"1"), ("b", None))


@pytest.mark.parametrize(
    "item",
    [[], 1, {"value": 1}, {"key": {"base64": "?"}}, {"timestamp": "now"}, {"partition": 1.5}, {"headers": [1]}, {"headers": "a=1"}],
    ids=str,
)
def test_invalid_record_is_refused(item: object) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        from_json(item, now_ms=0)


class Chunks(io.RawIOBase):
    """A source that yields so many bytes at a time, and has no descriptor."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def read(self, size: int = -1) -> bytes:
        data, self._data = self._data, b""
        return data


@examples(200)
@given(st.lists(st.binary(max_size=8)), st.sampled_from([b"\n", b"\0", b"--", b"\r\n"]), st.integers(1, 5))
def test_messages_do_not_depend_on_how_they_arrive(parts: list[bytes], delimiter: bytes, size: int) -> None:
    data = delimiter.join(parts)
    pieces = [data[index : index + size] for index in range(0, len(data), size)]
    expected = data.split(delimiter)
    if not expected[-1]:
        expected.pop()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(source, "_chunks", lambda stream, idle: iter(pieces))
        found = list(source._split(Chunks(b""), delimiter, source.Progress([]), lambda: None))  # type: ignore[arg-type]  # it is not read
    assert found == expected


def test_a_file_is_read_and_cut(tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_bytes(b"a\nb\n" + b"c" * 3_000_000)
    idle: list[int] = []
    assert list(source.messages(file, b"\n", source.Progress([]), lambda: idle.append(1))) == [b"a", b"b", b"c" * 3_000_000]
    assert list(source.messages(file, None, source.Progress([]), lambda: None)) == [file.read_bytes()]
    assert idle == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0),
        ("1356998400000", 1356998400000),
        ("2013-01-01", 1356998400000),
        ("2013-01-01T00:00:00.123", 1356998400123),
        ("2013-01-01T01:30+01:30", 1356998400000),
        ("1969-12-31T23:59:59.999Z", -1),
    ],
)
def test_points_in_time(text: str, expected: int) -> None:
    assert epoch_ms(text) == expected


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_shown_on_a_terminal_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "lines"
    file.write_bytes(b"a\n" * 100)
    for stderr, files, shown in ((Terminal(), [file], True), (io.StringIO(), [file], False), (Terminal(), [], False)):
        monkeypatch.setattr("sys.stderr", stderr)
        with source.Progress(files) as progress:
            assert len(list(source.messages(file, b"\n", progress, lambda: None))) == 100
        assert ("100%" in stderr.getvalue()) is shown
