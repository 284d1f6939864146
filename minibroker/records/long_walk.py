"""The walk over records of a batch that is too much for one turn: the same checks as walk.py, on pieces of the payload.

A piece ends anywhere, also within a record. Of a record that is not whole only its head is needed; a deep walk waits for the rest of it,
unless it is longer than `DEEP_BYTES`: then it is looked into as far as its key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from minibroker.errors import InvalidRecord
from minibroker.records.even_walk import MIN_FIELDS_BYTES
from minibroker.records.record import MAX_VARLONG_BITS
from minibroker.records.walk import check_fields, read_number

STEP_RECORDS: Final = 1024  #: between two pauses: less than a millisecond
DEEP_BYTES: Final = 1024 * 1024  #: of a record that a deep walk waits for
HEAD_BYTES: Final = 32  #: enough for a length, attributes, two deltas and the length of a key
_NULL: Final = 1  #: a length of -1, as it is encoded

Judge = Callable[[int, int, bool], object]  #: given a record's index, its timestamp delta, and whether its key is null


class LongWalk:
    """Where a walk over `record_count` records is."""

    __slots__ = ("_count", "_deep", "_index", "_judge", "_least", "_most", "_rest", "_skip", "keyless")

    def __init__(self, record_count: int, *, deep: bool, judge: Judge | None = None) -> None:
        self.keyless = False  #: whether some record has no key, which only a deep walk can tell
        self._count = record_count
        self._deep = deep
        self._judge = judge
        self._index = 0
        self._least: int | None = None
        self._most = 0
        self._skip = 0  #: bytes at the beginning of the next piece that belong to the last record
        self._rest = b""  #: the beginning of a record that was not whole enough

    @property
    def extremes(self) -> tuple[int, int]:
        """The least and the largest timestamp delta so far, in ms."""
        return self._least or 0, self._most

    def walk(self, piece: bytes) -> Iterator[None]:
        """Walk the records that `piece` completes, with pauses. Raises InvalidRecord as walk.py does."""
        skip = self._skip
        if skip >= len(piece):
            self._skip -= len(piece)
            return
        data = self._rest + piece if self._rest else piece
        self._skip, self._rest = 0, b""
        yield from self._walk(data, skip, len(data) - HEAD_BYTES, is_last=False)

    def finish(self) -> None:
        """Walk what is left after the last piece. Raises InvalidRecord when it is not the end of the last record."""
        data, self._rest = self._rest, b""
        try:
            for _ in self._walk(data, 0, len(data), is_last=True):
                pass
        except IndexError:
            raise InvalidRecord(f"the payload ends within record {self._index} of {self._count}") from None
        if self._skip or self._rest or self._index < self._count:
            raise InvalidRecord(f"{self._count} records do not end where the payload does")

    def _walk(self, data: bytes, position: int, end: int, *, is_last: bool) -> Iterator[None]:  # noqa: C901, PLR0912, PLR0915  as in walk.py
        index, count, deep, judge = self._index, self._count, self._deep, self._judge
        least, most, delta = self._least, self._most, 0
        previous = -1
        while position < end and index < count:
            start = position
            number = data[position]
            position += 1
            if number >= 0x80:
                number, position = read_number(data, start)
            if number & 1:
                raise InvalidRecord(f"record {index} has a negative length")
            stop = position + (number >> 1)
            number = data[position + 1]
            position += 2
            if number >= 0x80:
                number, position = read_number(data, position - 1, MAX_VARLONG_BITS)
            if number != previous:
                previous = number
                delta = (number >> 1) ^ -(number & 1)
                if least is None:
                    least = most = delta
                elif delta > most:
                    most = delta
                elif delta < least:
                    least = delta
            number = data[position]
            position += 1
            if number >= 0x80:
                number = number & 0x7F | data[position] << 7
                position += 1
                if number >= 0x4000:
                    number = number & 0x3FFF | data[position] << 14
                    position += 1
                    if number >= 0x200000:
                        number, position = read_number(data, position - 3)
            if number != index << 1:
                raise InvalidRecord(f"record {index} has the offset delta {(number >> 1) ^ -(number & 1)}")
            if stop - position < MIN_FIELDS_BYTES:
                raise InvalidRecord(f"record {index} is too short for its fields")
            if deep:
                if stop <= len(data):
                    is_keyless = check_fields(data, position, stop)
                elif stop - start > DEEP_BYTES or is_last:
                    is_keyless = data[position] == _NULL
                else:
                    position = start
                    break
                if is_keyless:
                    self.keyless = True
                if judge is not None:
                    judge(index, delta, is_keyless)
            position = stop
            index += 1
            if not index % STEP_RECORDS:
                yield
        self._index, self._least, self._most = index, least, most
        if position <= len(data):
            self._rest = data[position:]
            if self._rest and index == count:
                raise InvalidRecord(f"{count} records end {len(self._rest)} bytes or more before the payload does")
        else:
            self._skip = position - len(data)
