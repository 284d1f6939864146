"""Where the records of many batches begin: the one walk that must go from record to record, since each says only how long it is.

It reads one or two bytes a record and nothing inside of it; fields.py does the rest for all records at once. Where numba is installed
the same function is compiled, and kept on the disk for the next process: eight times faster, for half a second at its first use, which
is why it is used only by a process that has walked for about as long.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Walk = Callable[[Any, Any, Any, Any, Any], int]

COMPLETE = -1
RECORDS_BEFORE_COMPILING = 500_000
#: bytes of a record at least: length, attributes, both deltas, the lengths of a null key and value, the header count
MIN_RECORD_SIZE = 7
_SIGNATURE = "int64(Array(uint8, 1, 'C', readonly=True), int64[::1], int64[::1], int64[::1], int64[::1])"


def _walk(data: Any, starts: Any, stops: Any, counts: Any, found: Any) -> int:
    """Note the position of each record of each batch in `found`.

    Batch i lies in data[starts[i]:stops[i]] and has counts[i] records. Returns COMPLETE, or the first batch whose records do not end
    where it ends. Plain enough to be compiled.
    """
    index = 0
    for batch in range(len(starts)):
        position = starts[batch]
        stop = stops[batch]
        for _ in range(counts[batch]):
            if position >= stop:
                return batch
            found[index] = position
            index += 1
            number = data[position]
            position += 1
            if number >= 0x80:
                number &= 0x7F
                shift = 7
                while True:
                    if position >= stop or shift > 28:
                        return batch
                    byte = data[position]
                    position += 1
                    number |= (byte & 0x7F) << shift
                    if byte < 0x80:
                        break
                    shift += 7
                if number >> 32:
                    return batch
            if number & 1:
                return batch
            position += number >> 1
        if position != stop:
            return batch
    return COMPLETE


class Splitter:
    """Splits with what this process has: one for all threads of it."""

    def __init__(self, compile_after: int = RECORDS_BEFORE_COMPILING) -> None:
        self._left = compile_after
        self._compiled: Walk | None = None

    def positions(self, data: bytes, starts: np.ndarray, stops: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, int]:
        """The position in `data` of every record of the batches, and COMPLETE; or a batch that is not as long as its records."""
        too_many = np.flatnonzero((counts < 0) | (counts > (stops - starts) // MIN_RECORD_SIZE))
        if too_many.size:
            return np.empty(0, np.int64), int(too_many[0])
        found = np.empty(int(counts.sum()), np.int64)
        if self._compiled is None and self._left <= 0:
            self._left = 1 << 62
            self._compiled = compile_walk()
        if self._compiled is not None:
            return found, self._compiled(np.frombuffer(data, np.uint8), starts, stops, counts, found)
        self._left -= len(found)
        # memoryviews: reading and writing one item takes half as long as in an array of numpy's
        return found, _walk(data, starts.tolist(), stops.tolist(), counts.tolist(), found.data)


def compile_walk() -> Walk | None:
    """The walk as machine code; None where numba is not installed."""
    try:
        import numba  # type: ignore[import-not-found, unused-ignore]  # noqa: PLC0415  optional, and heavy
    except ImportError:
        return None
    try:
        return numba.njit(_SIGNATURE, cache=True, nogil=True)(_walk)  # type: ignore[no-any-return, unused-ignore]
    except RuntimeError:  # there is no folder where it could keep it
        return numba.njit(_SIGNATURE, nogil=True)(_walk)  # type: ignore[no-any-return, unused-ignore]


SPLITTER = Splitter()
