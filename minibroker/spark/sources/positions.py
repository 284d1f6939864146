"""Where a pipeline begins or ends, as users write it, for commands and for Python alike.

earliest                        the log start offset of each partition
latest                          its end: under read_committed the last stable offset, else the high watermark
{"flights": {"0": 23, "1": -2}} an offset for each partition, as Spark's Kafka source has it; -2 is earliest, -1 latest
@2026-11-22T10:00:00Z           the first record as late as this in each partition, or its end; UTC unless it says otherwise
@1700000000000                  the same in epoch milliseconds
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from minibroker.client.times import epoch_ms
from minibroker.spark.errors import SourceError

EARLIEST_OFFSET = -2
LATEST_OFFSET = -1


@dataclass(frozen=True, slots=True)
class Position:
    """One of the three: a number for all partitions (EARLIEST_OFFSET or LATEST_OFFSET), offsets by partition, or a time in epoch ms."""

    everywhere: int | None = None
    by_partition: Mapping[tuple[str, int], int] | None = None
    timestamp_ms: int | None = None

    def __str__(self) -> str:
        """As parse_position reads it."""
        if self.timestamp_ms is not None:
            return f"@{self.timestamp_ms}"
        if self.by_partition is None:
            return "earliest" if self.everywhere == EARLIEST_OFFSET else "latest"
        found: dict[str, dict[str, int]] = {}
        for (topic, partition), offset in sorted(self.by_partition.items()):
            found.setdefault(topic, {})[str(partition)] = offset
        return json.dumps(found)


EARLIEST = Position(everywhere=EARLIEST_OFFSET)
LATEST = Position(everywhere=LATEST_OFFSET)

_NAMED = {"earliest": EARLIEST, "latest": LATEST}


def parse_position(text: str) -> Position:
    """A position from its text; SourceError in one line for another text."""
    stripped = text.strip()
    if stripped.lower() in _NAMED:
        return _NAMED[stripped.lower()]
    if stripped.startswith("@"):
        return Position(timestamp_ms=_epoch_ms(stripped[1:].strip()))
    if stripped.startswith("{"):
        return Position(by_partition=_offsets(stripped))
    raise SourceError(
        f'{text!r} is no position: earliest, latest, {{"topic": {{"0": 23}}}} (offsets by partition), or @ and a time such as '
        "@2026-11-22T10:00:00Z or @1700000000000"
    )


def as_position(given: Position | str) -> Position:
    """A position that may be given as its text."""
    return parse_position(given) if isinstance(given, str) else given


def _epoch_ms(text: str) -> int:
    try:
        found = epoch_ms(text)
    except ValueError as error:
        raise SourceError(f"@{text} is no position: {error}") from None
    if found < 0:
        raise SourceError(f"@{text} is before 1970, as no record is")
    return found


def _offsets(text: str) -> dict[tuple[str, int], int]:
    try:
        given = json.loads(text)
    except ValueError as error:
        raise SourceError(f"{text} is no JSON: {error}") from None
    found = {}
    for topic, partitions in given.items():
        if not isinstance(partitions, dict) or not partitions:
            raise SourceError(f'{text} has no offsets for {topic}: it should be like {{"{topic}": {{"0": 23}}}}')
        for partition, offset in partitions.items():
            if not (partition.isascii() and partition.isdigit()):
                raise SourceError(f"{partition!r} is no number of a partition of {topic}")
            if not isinstance(offset, int) or isinstance(offset, bool) or offset < EARLIEST_OFFSET:
                raise SourceError(f"{topic}-{partition} is given {offset!r}, which is no offset (nor -2, earliest, nor -1, latest)")
            found[topic, int(partition)] = offset
    return found
