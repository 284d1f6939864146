"""How a key or value names its schema, as expressions of Spark: by an id or a GUID in front of it, or by a GUID in a header.

    0, id (4 bytes), [message indexes], payload       Confluent's wire format
    1, GUID (16 bytes), [message indexes], payload
    payload; in the header `__key_schema_id` or `__value_schema_id`: 1, GUID, [message indexes]

Only Protobuf has message indexes: the path to a message in its file. They are zigzag varints after their count.
A count of 0 means the first message.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from pyspark.sql import functions as F  # noqa: N812  as PySpark's own documentation calls it

from minibroker.spark.decoding.schemas import RegisteredSchema

if TYPE_CHECKING:
    from pyspark.sql import Column

_ID, _GUID = b"\0", b"\1"
_WHOLE = 2**31 - 1  #: longer than any value


def prefixes(schema: RegisteredSchema, indexes: Iterable[bytes] = (b"",)) -> list[bytes]:
    """Return what values of a schema start with. `indexes` are the forms of their message indexes."""
    starts = [_ID + schema.schema_id.to_bytes(4, "big"), *([_GUID + UUID(schema.guid).bytes] if schema.guid else [])]
    return [start + each for start in starts for each in indexes]


def encoded_indexes(path: Sequence[int]) -> list[bytes]:
    """Return the forms of the path to a message: the usual one, and for the first message also the long one of old clients."""
    long_form = b"".join(_varint(each << 1) for each in (len(path), *path))
    return [b"\0", long_form] if list(path) == [0] else [long_form]


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


class FramedColumn:
    """A column of keys or values with their frames.

    Args:
        column: of bytes.
        headers: the column of headers, whose GUIDs count before the bytes; None for the bytes alone.
        part: "key" or "value", as headers name it.
    """

    def __init__(self, column: Column, headers: Column | None, part: str) -> None:
        self._column = column
        self._header = None
        self._frame = column
        if headers is not None:
            named = F.filter(headers, lambda each: each["key"] == f"__{part}_schema_id")
            self._header = F.get(named, F.lit(0))["value"]
            self._frame = F.coalesce(self._header, column)

    def starts_with(self, starts: Sequence[bytes]) -> Column:
        """Return whether the frame is one of these."""
        by_size: dict[int, list[bytes]] = {}
        for start in starts:
            by_size.setdefault(len(start), []).append(start)
        found = F.lit(False)
        for size, group in by_size.items():
            found |= F.substring(self._frame, 1, size).isin([F.lit(each) for each in group])
        return found

    def payload(self, starts: Sequence[bytes]) -> Column:
        """Return what follows the frame, which is one of these."""
        found = F.lit(None).cast("binary")
        for size in {len(start) for start in starts}:
            of_size = [start for start in starts if len(start) == size]
            found = F.when(self.starts_with(of_size), F.substring(self._column, size + 1, _WHOLE)).otherwise(found)
        return found if self._header is None else F.when(self._header.isNotNull(), self._column).otherwise(found)

    def description(self) -> Column:
        """Return the schema of a frame in words, for errors."""
        number = F.conv(F.hex(F.substring(self._frame, 2, 4)), 16, 10)
        guid = F.lower(F.hex(F.substring(self._frame, 2, 16)))
        first = F.substring(self._frame, 1, 1)
        size = F.octet_length(self._frame)
        return (
            F.when((first == F.lit(_ID)) & (size >= F.lit(5)), F.concat(F.lit("schema id "), number))
            .when((first == F.lit(_GUID)) & (size >= F.lit(17)), F.concat(F.lit("schema GUID "), guid))
            .otherwise(F.lit("no schema id"))
        )
