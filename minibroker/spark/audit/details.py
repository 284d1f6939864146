"""From where sides differ to what is there: the records themselves, of a bounded number of places."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from minibroker.spark.audit.extents import Key
from minibroker.spark.audit.reading import Seen, SideReader
from minibroker.spark.audit.result import CHANGED, Difference

MAX_DETAILED = 100  #: partitions whose first difference is looked for


@dataclass(frozen=True, slots=True)
class Found:
    """Where a partition first differs; see Difference. Digests tell records of one offset apart; None: any."""

    topic: str
    partition: int
    kind: str
    position: int
    count: int
    left_offset: int | None
    right_offset: int | None
    left_digest: int | None = None
    right_digest: int | None = None


def describe(found: Sequence[Found], left: SideReader, right: SideReader) -> dict[Key, Difference]:
    """The records of each place, read again from both sides."""
    lefts = left.seen([(each.topic, each.partition, each.left_offset) for each in found if each.left_offset is not None])
    rights = right.seen([(each.topic, each.partition, each.right_offset) for each in found if each.right_offset is not None])
    differences = {}
    for each in found:
        ones = _of(lefts.get((each.topic, each.partition, each.left_offset or 0), ()), each.left_digest)
        others = _of(rights.get((each.topic, each.partition, each.right_offset or 0), ()), each.right_digest)
        one = ones[0].record if ones and each.left_offset is not None else None
        other = others[0].record if others and each.right_offset is not None else None
        changed = _changed(ones, others, left.columns) if each.kind == CHANGED else ()
        differences[each.topic, each.partition] = Difference(each.kind, changed, each.position, each.count, one, other)
    return differences


def _of(seen: Iterable[Seen], digest: int | None) -> list[Seen]:
    return sorted((each for each in seen if digest is None or each.digest == digest), key=lambda each: each.digest)


def _changed(ones: Sequence[Seen], others: Sequence[Seen], columns: Sequence[str]) -> tuple[str, ...]:
    """The columns whose values are not the same."""
    return tuple(
        name
        for index, name in enumerate(columns)
        if {each.column_digests[index] for each in ones} != {each.column_digests[index] for each in others}
    )
