"""Values to send: for any struct and version, the emptiest, the fullest, and random ones between."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from random import Random
from typing import Any

from minibroker.errors import BY_CODE
from minibroker.wire.schema import MISSING, NIL_UUID, Field, default_of, fields_of

# kio reads these into its own types, which do not reach as far as the wire does.
ERROR_CODES = sorted({0, *BY_CODE})
LAST_DATETIME_MS = 4_102_444_800_000  #: the year 2100; kio keeps moments as a float, far ones are not exact
DATETIMES = {"log_append_time_ms"}
#: like these, but kio has no word for their -1; golden frames have it
MOMENTS = {"transaction_start_time_ms", "issue_timestamp_ms", "expiry_timestamp_ms", "max_timestamp_ms"}
#: of 64 bits, where all others have 32
DURATIONS = {"retention_time_ms", "session_lifetime_ms", "max_lifetime_ms", "renew_period_ms", "expiry_time_period_ms"}

BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
STRINGS = ("", "orders", "a-b_c.d", "ключ", "日本", "x" * 127, "y" * 128, "z" * 300)
FLOATS = (0.0, -1.5, 1e300, 5e-324)


class Chooser:
    """What to put where there is a choice: null or not, how many, which extreme."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)

    def null(self) -> bool:
        """Whether to send null where it may be sent."""
        return self.random.random() < 0.3

    def absent(self) -> bool:
        """Whether to leave a tagged field at its default."""
        return self.random.random() < 0.4

    def count(self) -> int:
        """How many elements."""
        return self.random.choice((0, 1, 1, 2, 3))

    def number(self, low: int, high: int) -> int:
        """Often an extreme or one of Kafka's marks."""
        return self.random.choice([low, high, *(each for each in (-2, -1, 0, 1) if low <= each <= high), self.random.randint(low, high)])

    def string(self) -> str:
        """Lengths around the steps of a varint, letters of several bytes."""
        return self.random.choice(STRINGS)

    def data(self) -> bytes:
        """Opaque bytes."""
        return self.random.randbytes(self.random.choice((0, 1, 61, 126, 127, 128, 400)))


class Emptiest(Chooser):
    """Null or nothing wherever that is allowed."""

    def null(self) -> bool:
        return True

    def absent(self) -> bool:
        return True

    def count(self) -> int:
        return 0


class Fullest(Chooser):
    """Nothing is null, no list empty, every tagged field is there."""

    def null(self) -> bool:
        return False

    def absent(self) -> bool:
        return False

    def count(self) -> int:
        return 2


def samples(struct: type[Any], version: int, *, random_ones: int) -> Iterator[Any]:
    """The emptiest, the fullest and some random values; the same ones in every run."""
    yield value_of(struct, version, Emptiest(version))
    yield value_of(struct, version, Fullest(version))
    for seed in range(random_ones):
        yield value_of(struct, version, Chooser(1000 * version + seed))


def value_of(struct: type[Any], version: int, chooser: Chooser) -> Any:
    """One value; fields that the version lacks have their default, so that it comes back equal."""
    return struct(**{field.name: _field(field, version, chooser) for field in fields_of(struct)})


def _field(field: Field, version: int, chooser: Chooser) -> Any:
    if not field.in_version(version) or (field.tag is not None and chooser.absent()):
        assert field.default is not MISSING
        return default_of(field)
    if field.null_in(version) and chooser.null():
        return None
    if field.is_array:
        return [_element(field, version, chooser) for _ in range(chooser.count())]
    return _element(field, version, chooser)


def _element(field: Field, version: int, chooser: Chooser) -> Any:
    if field.struct is not None:
        return value_of(field.struct, version, chooser)
    if field.name.endswith("error_code"):
        return chooser.random.choice(ERROR_CODES)
    if field.name in DATETIMES:
        return chooser.number(-1, LAST_DATETIME_MS)
    if field.name in MOMENTS:
        return chooser.number(0, LAST_DATETIME_MS)
    if field.name in DURATIONS:
        return chooser.number(-LAST_DATETIME_MS, LAST_DATETIME_MS)
    if field.kind in BITS:
        return chooser.number(-(1 << BITS[field.kind] - 1), (1 << BITS[field.kind] - 1) - 1)
    if field.kind == "uint16":
        return chooser.number(0, 65535)
    return _other(field.kind, chooser)


def _other(kind: str, chooser: Chooser) -> Any:
    if kind == "string":
        return chooser.string()
    if kind in ("bytes", "records"):
        return chooser.data()
    if kind == "uuid":
        return chooser.random.choice((NIL_UUID, uuid.UUID(int=chooser.random.getrandbits(128)), uuid.UUID(int=(1 << 128) - 1)))
    if kind == "bool":
        return chooser.random.random() < 0.5
    assert kind == "float64", kind
    return chooser.random.choice(FLOATS)
