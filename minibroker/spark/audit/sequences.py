"""What happened where two sequences of records begin to differ: something is missing, there twice, or changed. No PySpark.

Records are known by their digests here. A window around the first difference is enough: when one side, moved by a few records, agrees with
the other again, that many were lost or added.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from minibroker.spark.audit.result import CHANGED, DUPLICATE_LEFT, DUPLICATE_RIGHT, MISSING_LEFT, MISSING_RIGHT

CONTEXT = 64  #: records before and from the first difference on that are looked at
ENOUGH = 16  #: records that agree again are no coincidence, or all up to the end


@dataclass(frozen=True, slots=True)
class Change:
    """What it is, and how many records in a row."""

    kind: str
    count: int


def change_at(left: Sequence[int], right: Sequence[int], index: int) -> Change:
    """What changed at `index`, the first place where the two differ.

    Args:
        left: digests of records in order: up to CONTEXT before `index`, and CONTEXT from there on, fewer where the side ends.
        right: likewise, beginning with the same record.
        index: left[:index] == right[:index], and not one more.
    """
    ones, others = left[index:], right[index:]
    if not ones or not others:
        return _more(left, index, len(ones), is_left=True) if ones else _more(right, index, len(others), is_left=False)
    if _agrees(ones[1:], others[1:]):
        return Change(CHANGED, 1)
    for count in range(1, CONTEXT - ENOUGH + 1):
        if _agrees(ones[count:], others):
            return _more(left, index, count, is_left=True)
        if _agrees(ones, others[count:]):
            return _more(right, index, count, is_left=False)
    return Change(CHANGED, 1)


def _agrees(ones: Sequence[int], others: Sequence[int]) -> bool:
    """Whether they go on alike, as far as both go and we look; a side that goes on does not agree with one that has ended."""
    count = min(len(ones), len(others), ENOUGH)
    return ones[:count] == others[:count] if count else len(ones) == len(others)


def _more(digests: Sequence[int], index: int, count: int, *, is_left: bool) -> Change:
    """One side has more: the same again, or what the other lacks."""
    is_repeated = count <= index and digests[index - count : index] == digests[index : index + count]
    if is_left:
        return Change(DUPLICATE_LEFT if is_repeated else MISSING_RIGHT, count)
    return Change(DUPLICATE_RIGHT if is_repeated else MISSING_LEFT, count)
