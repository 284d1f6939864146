"""The codec's rules, each on bytes written by hand, and by both codecs."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from minibroker.errors import WireError
from minibroker.wire import codec, compiled
from minibroker.wire.primitives import EncodeError
from minibroker.wire.schema import Bool, Bytes, Int8, Int16, Int32, Int64, String, field, struct

ROOT = Path(__file__).parents[2]


@struct
class Cursor:
    topic: String
    partition: Int32 = field(default=-1)


@struct
class Range:
    low: Int8 = field(default=0)
    high: Int8 = field(default=0)


@struct
class Message:
    name: String
    alias: String | None = field(since=1, default=None)
    numbers: list[Int16] = field(since=1, default=())
    cursor: Cursor | None = field(since=2, nullable=2, default=None)
    inside: Range = field(since=3, tag=1, default=Range)
    note: Bytes | None = field(since=3, tag=0, default=None)
    rest: Range | None = field(since=4, tag=2, default=Range)
    gone: Bool = field(until=0, default=True)


# version, flexible, bytes, value
GOOD: list[tuple[int, bool, str, dict[str, Any]]] = [
    (0, False, "0001 61 00", {"gone": False}),
    (1, False, "0001 61 ffff 00000000", {}),
    (1, False, "0001 61 0000 00000002 0001 ffff", {"alias": "", "numbers": [1, -1]}),
    (1, True, "02 61 00 01 00", {}),
    (1, True, "02 61 01 03 0001 ffff 00", {"alias": "", "numbers": [1, -1]}),
    (2, True, "02 61 00 01 ff 00", {}),
    (2, True, "02 61 00 01 01 03 6f6f 00000007 00 00", {"cursor": Cursor(topic="oo", partition=7)}),
    (2, False, "0001 61 ffff 00000000 01 0002 6f6f 00000007", {"cursor": Cursor(topic="oo", partition=7)}),
    (3, True, "02 61 00 01 ff 01 01 03 05 06 00", {"inside": Range(low=5, high=6)}),
    (
        3,
        True,
        "02 61 00 01 ff 02 00 03 02 6e 00 01 03 00 06 00".replace("02 6e 00 01", "03 6e6e 01"),
        {"inside": Range(high=6), "note": b"nn"},
    ),
    (3, True, "02 61 00 01 ff 01 00 01 01", {"note": b""}),
    (4, True, "02 61 00 01 ff 00", {}),
    (4, True, "02 61 00 01 ff 01 02 01 00", {"rest": None}),
    (4, True, "02 61 00 01 ff 01 02 04 01 05 06 00", {"rest": Range(low=5, high=6)}),
]

# What is read, but is not how we write it.
TOLERATED: list[tuple[int, bool, str, dict[str, Any]]] = [
    (3, True, "02 61 00 01 ff 02 07 03 616263 c801 00", {}),
    (3, True, "02 61 00 01 ff 02 01 03 05 06 00 09 00", {"inside": Range(low=5, high=6)}),
    (3, True, "02 61 00 01 ff 01 00 01 00", {}),
    (3, True, "8200 61 00 01 ff 00", {}),
    (4, True, "02 61 00 01 ff 01 02 04 01 00 00 00", {}),
    (3, True, "02 61 00 01 01 02 6f 00000007 01 05 01 61 00", {"cursor": Cursor(topic="o", partition=7)}),
]

BAD = {
    "null where none is allowed": (0, False, "ffff 00"),
    "compact null where none is allowed": (1, True, "00 00 01 00"),
    "null array": (1, False, "0001 61 ffff ffffffff"),
    "compact null array": (1, True, "02 61 00 00 00"),
    "string of length -2": (1, False, "0001 61 fffe 00000000"),
    "array of -2": (1, False, "0001 61 ffff fffffffe"),
    "string longer than the rest": (0, False, "0003 61 00"),
    "compact string longer than the rest": (1, True, "09 61 00 01 00"),
    "array of 2^31-1": (1, False, "0001 61 ffff 7fffffff 0001"),
    "compact array of 2^31-1": (1, True, "02 61 00 ffffffff07 0001 00"),
    "one element too many": (1, False, "0001 61 ffff 00000002 0001 ff"),
    "varint of six bytes": (1, True, "828080808000 61 00 01 00"),
    "not UTF-8": (0, False, "0001 ff 00"),
    "marker of a struct": (2, True, "02 61 00 01 02 03 6f6f 00000007 00 00"),
    "marker -2 of a struct": (2, True, "02 61 00 01 fe 00"),
    "marker of a tagged struct": (4, True, "02 61 00 01 ff 01 02 04 02 05 06 00"),
    "marker -1 of a tagged struct": (4, True, "02 61 00 01 ff 01 02 01 ff"),
    "bytes behind a tagged null": (4, True, "02 61 00 01 ff 01 02 02 00 00"),
    "2^30 tagged fields": (1, True, "02 61 00 01 8080808004"),
    "tags descend": (3, True, "02 61 00 01 ff 02 01 03 05 06 00 00 01 01"),
    "tag twice": (3, True, "02 61 00 01 ff 02 00 01 01 00 01 01"),
    "tagged field larger than its content": (3, True, "02 61 00 01 ff 01 01 04 05 06 00 00"),
    "tagged field smaller than its content": (3, True, "02 61 00 01 ff 01 01 02 05 06 00"),
    "tagged field beyond the end": (3, True, "02 61 00 01 ff 01 07 05 61"),
    "bytes left over": (0, False, "0001 61 00 00"),
    "nothing": (0, False, ""),
}


def message(changes: dict[str, Any]) -> Message:
    return Message(**{"name": "a"} | changes)


@pytest.mark.parametrize(("version", "flexible", "data", "changes"), GOOD)
def test_reads_and_writes(version: int, flexible: bool, data: str, changes: dict[str, Any]) -> None:
    encoded = bytes.fromhex(data)
    assert codec.decode(Message, encoded, version, flexible=flexible) == message(changes)
    assert compiled.decode_all(Message, encoded, 0, version, flexible) == message(changes)
    assert codec.encode(message(changes), version, flexible=flexible) == encoded
    assert b"".join(compiled.encoder(Message, version, flexible)(message(changes))) == encoded


@pytest.mark.parametrize(("version", "flexible", "data", "changes"), TOLERATED)
def test_accepts_what_kafka_accepts(version: int, flexible: bool, data: str, changes: dict[str, Any]) -> None:
    assert codec.decode(Message, bytes.fromhex(data), version, flexible=flexible) == message(changes)
    assert compiled.decode_all(Message, bytes.fromhex(data), 0, version, flexible) == message(changes)


@pytest.mark.parametrize("why", BAD)
def test_refuses(why: str) -> None:
    version, flexible, data = BAD[why]
    with pytest.raises(WireError) as defined:
        codec.decode(Message, bytes.fromhex(data), version, flexible=flexible)
    with pytest.raises(WireError) as generated:
        compiled.decode_all(Message, bytes.fromhex(data), 0, version, flexible)
    assert str(generated.value) == str(defined.value)


def test_compact_strings_have_the_same_length_limit() -> None:
    longest = bytes.fromhex("808002") + b"x" * 32767 + bytes.fromhex("00 01 00")
    too_long = bytes.fromhex("818002") + b"x" * 32768 + bytes.fromhex("00 01 00")
    assert codec.decode(Message, longest, 1, flexible=True) == compiled.decode_all(Message, longest, 0, 1, True)
    for decode in (codec.decode, lambda struct, data, version, flexible: compiled.decode_all(struct, data, 0, version, flexible)):
        with pytest.raises(WireError, match="string of 32768 bytes"):
            decode(Message, too_long, 1, flexible=True)


def test_errors_name_the_field_and_position() -> None:
    with pytest.raises(WireError, match=r"^Message\.cursor: Cursor\.topic: 9 bytes wanted, 1 remain$"):
        codec.decode(Message, bytes.fromhex("02 61 00 01 01 0a 6f"), 2, flexible=True)


@struct
class Item:
    offset: Int64
    name: String


@struct
class Items:
    items: list[Item]
    more: list[Int8] = field(since=1, default=())


COUNTS = ["7fffffff", "07ffffff", "00010000"]


def peak_of_refusal(count: str) -> int:
    """The most bytes that are taken while both decoders refuse such a count."""
    claimed = bytes.fromhex(count) + bytes(500_000)  # what remains could hold a tenth of the smallest claim
    compiled.decoder(Items, 0, False)
    tracemalloc.start()
    try:
        for decode in (
            codec.decode_from,
            lambda struct, data, at, version, flexible: compiled.decoder(struct, version, flexible)(data, at),
        ):
            with pytest.raises(WireError, match="elements cannot be in"):
                decode(Items, claimed, 0, 0, flexible=False)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_declared_count_does_not_allocate_memory() -> None:
    """In a process of its own: what threads of other tests take is counted, too."""
    ran = subprocess.run([sys.executable, "-m", "tests.wire.test_codec"], cwd=ROOT, capture_output=True, text=True, check=True)
    peaks = [int(word) for word in ran.stdout.split()]
    assert len(peaks) == len(COUNTS)
    assert max(peaks) < 100_000


def test_minimum_size_of_a_struct() -> None:
    assert codec.min_size(Item, 0, flexible=False) == 8 + 2
    assert codec.min_size(Item, 0, flexible=True) == 8 + 1 + 1
    assert codec.min_size(Message, 2, flexible=True) == 1 + 1 + 1 + 1 + 1
    assert codec.min_size(Message, 0, flexible=False) == 2 + 1


@pytest.mark.parametrize(
    "changes",
    [{"name": None}, {"name": b"a"}, {"numbers": [2**15]}, {"numbers": None}, {"alias": 7}, {"cursor": Cursor(topic="x", partition=2**31)}],
    ids=str,
)
def test_invalid_values_raise_encode_error(changes: dict[str, Any]) -> None:
    (name,) = changes
    with pytest.raises(EncodeError, match=rf"Message\.{name}"):
        codec.encode(message(changes), 2, flexible=True)
    with pytest.raises(EncodeError, match=rf"Message\.{name}"):
        compiled.encoder(Message, 2, True)(message(changes))


def test_wrong_struct_type_raises_encode_error() -> None:
    with pytest.raises(EncodeError, match="is not a Cursor"):
        codec.encode(message({"cursor": Range()}), 2, flexible=True)


if __name__ == "__main__":
    print(*map(peak_of_refusal, COUNTS))
