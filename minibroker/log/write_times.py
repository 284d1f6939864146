"""When the records of a log were written, roughly, without noting it at each append: where the log ended at some moments.

    note(now_ms, end_offset)     now and then, e.g. whenever idle producers are looked for
    written_ms(offset)           the record was written by then, and not much earlier than one note before

The timestamps of records do not tell: an import of last year's records is written today.
"""

from __future__ import annotations

from bisect import bisect_right

MARKS = 64  #: kept for one span: how exact the answer is


class WriteTimes:
    """Moments and log end offsets, both growing; `span_ms` is how far back anybody asks."""

    __slots__ = ("_end_offsets", "_times_ms")

    def __init__(self, now_ms: int, end_offset: int) -> None:
        self._times_ms = [now_ms]
        self._end_offsets = [end_offset]

    def note(self, now_ms: int, end_offset: int, span_ms: int) -> None:
        """The log ends at `end_offset` now; what was written more than `span_ms` ago need not be told apart."""
        times, ends = self._times_ms, self._end_offsets
        if end_offset == ends[-1]:
            return
        if len(times) > 1 and 0 <= times[-1] - times[-2] < span_ms // MARKS:
            del times[-1], ends[-1]
        times.append(now_ms)
        ends.append(end_offset)
        while len(times) > 1 and now_ms - times[1] > span_ms:
            del times[0], ends[0]

    def written_ms(self, offset: int) -> int:
        """When the record at `offset` was there for sure; the last note's time for one that came after it."""
        index = bisect_right(self._end_offsets, offset)
        return self._times_ms[min(index, len(self._times_ms) - 1)]
