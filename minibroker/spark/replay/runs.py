"""Which old offsets became which new ones, as runs of both that grow by one: no pyspark, no broker.

Old offsets have gaps where markers of transactions, aborted or compacted records were; new ones where our own markers are.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np


class OffsetRun(NamedTuple):
    """Records old_first to old_first + records - 1 became new_first to new_first + records - 1."""

    old_first: int
    new_first: int
    records: int


def runs_of(old_offsets: np.ndarray, new_first: int) -> list[OffsetRun]:
    """The runs of records whose new offsets are new_first, new_first + 1 and so on; old ones grow."""
    breaks = np.flatnonzero(np.diff(old_offsets) != 1) + 1
    starts = [0, *breaks.tolist()]
    stops = [*breaks.tolist(), len(old_offsets)]
    return [OffsetRun(int(old_offsets[start]), new_first + start, stop - start) for start, stop in zip(starts, stops, strict=True)]


def joined(runs: Iterable[OffsetRun]) -> list[OffsetRun]:
    """The same in as few runs as possible; they are in order."""
    found: list[OffsetRun] = []
    for run in runs:
        last = found[-1] if found else None
        if last and last.old_first + last.records == run.old_first and last.new_first + last.records == run.new_first:
            found[-1] = last._replace(records=last.records + run.records)
        else:
            found.append(run)
    return found
