"""Positions: where a pipeline starts or ends, as users write it on the command line and in Python.

earliest                        the log start offset of each partition
latest                          its end: the last stable offset under read_committed, else the high watermark
{"flights": {"0": 23, "1": -2}} an offset for each partition, as for Spark's Kafka source; -2 is earliest, -1 latest
@2026-11-22T10:00:00Z           the first record at or after this time in each partition, or its end; UTC by default
@1700000000000                  the same in epoch milliseconds
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from minibroker.client.offsets import epoch_ms
from minibroker.spark.failures import SourceError

EARLIEST_OFFSET = -2
LATEST_OFFSET = -1


@dataclass(frozen=True, slots=True)
class Position:
    """One of: EARLIEST_OFFSET or LATEST_OFFSET for all partitions, offsets by partition, or a time in epoch ms."""

    everywhere: int | None = None
    by_partition: Mapping[tuple[str, int], int] | None = None
    timestamp_ms: int | None = None

    def __str__(self) -> str:
        """Return the text that parse_position reads."""
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
    """Return the position that a text stands for; SourceError for an invalid text."""
    stripped = text.strip()
    if stripped.lower() in _NAMED:
        return _NAMED[stripped.lower()]
    if stripped.startswith("@"):
        return Position(timestamp_ms=_epoch_ms(stripped[1:].strip()))
    if stripped.startswith("{"):
        return Position(by_partition=_offsets(stripped))
    raise SourceError(
        f'{text!r} is not a position: give earliest, latest, {{"topic": {{"0": 23}}}} (offsets by partition), or @ and a time such as '
        "@2026-11-22T10:00:00Z or @1700000000000"
    )


def as_position(given: Position | str) -> Position:
    """Return a position that is given as such or as its text."""
    return parse_position(given) if isinstance(given, str) else given


def _epoch_ms(text: str) -> int:
    try:
        found = epoch_ms(text)
    except ValueError as error:
        raise SourceError(f"@{text} is not a position: {error}") from None
    if found < 0:
        raise SourceError(f"@{text} is before 1970, and no record is that old")
    return found


def _offsets(text: str) -> dict[tuple[str, int], int]:
    try:
        given = json.loads(text)
    except ValueError as error:
        raise SourceError(f"{text} is not JSON: {error}") from None
    found = {}
    for topic, partitions in given.items():
        if not isinstance(partitions, dict) or not partitions:
            raise SourceError(f'{text} has no offsets for {topic}: write it like {{"{topic}": {{"0": 23}}}}')
        for partition, offset in partitions.items():
            if not (partition.isascii() and partition.isdigit()):
                raise SourceError(f"{partition!r} is not a partition number of {topic}")
            if not isinstance(offset, int) or isinstance(offset, bool) or offset < EARLIEST_OFFSET:
                raise SourceError(f"{topic}-{partition} is given {offset!r}: give an offset, -2 (earliest) or -1 (latest)")
            found[topic, int(partition)] = offset
    return found
