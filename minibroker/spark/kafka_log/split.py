"""Find the starts of records: a walk from record to record, since a record holds only its own length.

The walk reads one or two bytes per record; fields.py reads the rest of all records at once. If numba is
installed, the function is also compiled, and the code is stored on disk for the next process. It is then eight
times faster, but takes half a second to load, so a process loads it after it has walked for about as long.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Walk = Callable[[Any, Any, Any, Any, Any], int]

COMPLETE = -1
RECORDS_BEFORE_COMPILING = 500_000
#: the least bytes of a record: length, attributes, both deltas, the lengths of a null key and value, the header count
MIN_RECORD_SIZE = 7
_SIGNATURE = "int64(Array(uint8, 1, 'C', readonly=True), int64[::1], int64[::1], int64[::1], int64[::1])"


def _walk(data: Any, starts: Any, stops: Any, counts: Any, found: Any) -> int:
    """Write the position of each record of each batch to `found`.

    Batch i is data[starts[i]:stops[i]] and has counts[i] records. Returns COMPLETE, or the first batch whose
    records do not end at its end. The function is simple enough for numba.
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
    """Splits with the faster way that this process has; one object for all threads."""

    def __init__(self, compile_after: int = RECORDS_BEFORE_COMPILING) -> None:
        self._left = compile_after
        self._compiled: Walk | None = None

    def positions(self, data: bytes, starts: np.ndarray, stops: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, int]:
        """Return the positions of all records in `data` and COMPLETE, or the number of a batch that its records do not fill."""
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
        # reading and writing an item of a memoryview takes half as long as of a numpy array
        return found, _walk(data, starts.tolist(), stops.tolist(), counts.tolist(), found.data)


def compile_walk() -> Walk | None:
    """Return the walk as machine code; None if numba is not installed."""
    try:
        import numba  # type: ignore[import-not-found, unused-ignore]  # noqa: PLC0415  optional, and heavy
    except ImportError:
        return None
    try:
        return numba.njit(_SIGNATURE, cache=True, nogil=True)(_walk)  # type: ignore[no-any-return, unused-ignore]
    except RuntimeError:  # no folder can store the code
        return numba.njit(_SIGNATURE, nogil=True)(_walk)  # type: ignore[no-any-return, unused-ignore]


SPLITTER = Splitter()
