"""A plain model of what a partition holds, one offset at a time: what reports are held against."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import groupby

from minibroker.records.record import Headers

DAY_MS = 86_400_000
HOUR_MS = 3_600_000


@dataclass(frozen=True)
class Kept:
    """A record as it was produced."""

    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()

    @property
    def sizes(self) -> tuple[int, int, int]:
        return (
            len(self.key or b""),
            len(self.value or b""),
            sum(len(name.encode()) + len(value or b"") for name, value in self.headers),
        )


@dataclass
class Model:
    """Offsets from `start` to `end`: with a record that counts, with none for a reason ("control", "aborted"), or in no batch."""

    start: int = 0
    end: int = 0
    records: dict[int, Kept] = field(default_factory=dict)
    hidden: dict[int, str] = field(default_factory=dict)

    def within(self, start: int, end: int) -> Model:
        return Model(
            start,
            end,
            {offset: record for offset, record in self.records.items() if start <= offset < end},
            {offset: why for offset, why in self.hidden.items() if start <= offset < end},
        )

    def reasons(self) -> Counter[str]:
        return Counter(self.hidden.get(offset, "absent") for offset in range(self.start, self.end) if offset not in self.records)

    def gaps(self) -> list[tuple[int, int, int, int]]:
        """First offset, offset behind it, control, aborted; every run."""
        found = []
        empty = [offset for offset in range(self.start, self.end) if offset not in self.records]
        for _, run in groupby(enumerate(empty), key=lambda each: each[1] - each[0]):
            offsets = [offset for _, offset in run]
            why = Counter(self.hidden.get(offset) for offset in offsets)
            found.append((offsets[0], offsets[-1] + 1, why["control"], why["aborted"]))
        return found

    def longest_gaps(self, limit: int) -> list[tuple[int, int, int, int]]:
        return sorted(sorted(self.gaps(), key=lambda gap: (gap[0] - gap[1], gap[0]))[:limit])

    def buckets(self, bucket_ms: int) -> dict[int | None, tuple[int, int]]:
        """Records and bytes by number of the day or hour; None: without a timestamp."""
        found: dict[int | None, tuple[int, int]] = {}
        for record in self.records.values():
            bucket = None if record.timestamp == -1 else record.timestamp // bucket_ms
            records, size = found.get(bucket, (0, 0))
            found[bucket] = (records + 1, size + sum(record.sizes))
        return found

    def bytes(self) -> tuple[int, int, int]:
        """Of keys, values and headers."""
        sizes = [record.sizes for record in self.records.values()]
        return sum(each[0] for each in sizes), sum(each[1] for each in sizes), sum(each[2] for each in sizes)

    def times(self) -> list[tuple[int, int]]:
        """Timestamp and offset of every record that has one."""
        return [(record.timestamp, offset) for offset, record in sorted(self.records.items()) if record.timestamp != -1]

    def cells(self, cell_size: int, offsets: Iterable[int]) -> list[int]:
        found = [0] * -(-(self.end - self.start) // cell_size)
        for offset in offsets:
            found[(offset - self.start) // cell_size] += 1
        return found


def hidden_for(why: Mapping[int, str], kind: str) -> list[int]:
    return [offset for offset, each in why.items() if each == kind]
