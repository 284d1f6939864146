"""The offset of the last record of each key in a range of a log, within bounded memory.

    fill     batch by batch, in offset order, from `first_offset` on. The map is full when the next key would be one too many;
             `end_offset` is where it ends, and the next round starts there
    freeze   then `live` holds the codes (offset and tombstone bit, see records/key_walk.py) of all last records, in order

A key of up to 47 bytes is kept as it is, a longer one as its digest of 48 bytes, so that two keys collide only with a probability of
2^-384. Apache Kafka's SkimpyOffsetMap keeps 24 bytes for each key, MD5 and offset; a dict takes more memory and a tenth of the time.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable
from typing import Final

from minibroker.records.key_walk import map_key, note_keys, walk_keys
from minibroker.records.record import Record

#: What a key of up to 15 bytes takes: its object (48; 80 for one of 47), the code (32), its places in the dict (50) and in `live` (8).
BYTES_A_KEY: Final = 138


class OffsetMap:
    """See the module. `latest` is read-only for callers."""

    __slots__ = ("_max_keys", "end_offset", "first_offset", "has_tombstones", "is_full", "latest", "live")

    def __init__(self, first_offset: int, max_bytes: int) -> None:
        self._max_keys = max(max_bytes // BYTES_A_KEY, 1)
        self.latest: dict[bytes, int] = {}  #: key to code
        self.live = array("q")
        self.has_tombstones = False  #: some last record is one; known once frozen
        self.first_offset = first_offset
        self.end_offset = first_offset  #: records below it, from first_offset on, are in the map
        self.is_full = False

    def add(self, data: bytes, position: int, stop: int, *, count: int, base_offset: int, last_offset: int) -> None:
        """Add the batch whose records lie in data[position:stop]. Raises InvalidRecord."""
        if base_offset >= self.first_offset and len(self.latest) + count <= self._max_keys:
            note_keys(self.latest, data, position, stop, count, base_offset)
            self.end_offset = last_offset + 1
        else:
            self._add_slowly(((code, key) for _, code, key in walk_keys(data, position, stop, count, base_offset)), last_offset)

    def add_records(self, records: Iterable[Record], last_offset: int) -> None:
        """Add a batch of an old format, decoded."""
        codes = ((2 * each.offset | (each.value is None), None if each.key is None else map_key(each.key)) for each in records)
        self._add_slowly(codes, last_offset)

    def _add_slowly(self, records: Iterable[tuple[int, bytes | None]], last_offset: int) -> None:
        latest = self.latest
        for code, key in records:
            if key is None or code >> 1 < self.first_offset:
                continue
            if len(latest) >= self._max_keys and key not in latest:
                self.is_full = True
                return
            latest[key] = code
            self.end_offset = (code >> 1) + 1
        self.pass_over(last_offset)

    def pass_over(self, last_offset: int) -> None:
        """Skip up to and including `last_offset`: a control batch, an aborted batch, a gap."""
        self.end_offset = max(self.end_offset, last_offset + 1)

    def freeze(self) -> None:
        """Compute `live`, after everything was added."""
        self.live = array("q", sorted(self.latest.values()))
        self.has_tombstones = any(code & 1 for code in self.live)

    def live_codes(self, base_offset: int, last_offset: int) -> array[int]:
        """Return the codes of last records within these offsets, both included."""
        low = bisect_left(self.live, 2 * base_offset)
        return self.live[low : bisect_left(self.live, 2 * last_offset + 2, low)]
