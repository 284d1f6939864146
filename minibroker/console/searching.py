"""Search the logs of partitions for records: forwards from given offsets, or backwards from the end for the newest ones.

A search stops after enough matches or SEARCH_S, and says where: its cursor has an offset for each partition that it has not finished. It
rests RESTS times as long as it works, because the loop waits for the interpreter's lock meanwhile.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping
from typing import Any, Final

from minibroker.cluster.partition import Partition
from minibroker.console.filters import Filter
from minibroker.console.reading import LogReader
from minibroker.errors import KafkaError

SEARCH_S: Final = 2.0
RESTS: Final = 3
_WINDOW: Final = 1_000  #: offsets that a backward search looks at first; each further window is four times as large
_WINDOW_MAX: Final = 256_000


class Search:
    """One search, for at most `count` records. Without a filter each partition gives `count`."""

    def __init__(self, reader: LogReader, wanted: Filter, count: int) -> None:
        self._reader = reader
        self._wanted = None if wanted.is_empty else wanted
        self._count = count
        self._deadline_s = time.monotonic() + SEARCH_S
        self.rows: list[dict[str, Any]] = []
        self.record_count = 0  #: records that were looked at
        self.left: dict[int, int] = {}  #: where to go on, by partition

    @property
    def cursor(self) -> str:
        """What `parse_cursor` reads; empty if the search is complete."""
        return ",".join(f"{index}:{offset}" for index, offset in self.left.items())

    def _is_over(self) -> bool:
        return time.monotonic() >= self._deadline_s

    async def forwards(self, partitions: Iterable[Partition], positions: Mapping[int, int]) -> None:
        """Read from the positions on, one partition after another."""
        for partition in partitions:
            log, offset = partition.online_log, positions.get(partition.index)
            if log is None or offset is None:
                continue
            room = self._count if self._wanted is None else self._count - len(self.rows)
            rows, offset = await self._read(partition, offset, room)
            self.rows += rows
            if offset < log.log_end_offset:
                self.left[partition.index] = offset

    async def backwards(self, partitions: Iterable[Partition], ends: Mapping[int, int]) -> None:
        """Read the records before the ends, the newest first, one partition after another."""
        for partition in partitions:
            log, end = partition.online_log, ends.get(partition.index)
            if log is None or end is None:
                continue
            window, found = _WINDOW, 0
            while end > log.log_start_offset and found < self._count and not self._is_over():
                first = max(log.log_start_offset, end - window)
                rows, reached = await self._read(partition, first, window, end)
                if reached < end and self._is_over():
                    break  # half a window would leave out the newest matches
                kept = rows[-(self._count - found) :]
                self.rows += kept
                found += len(kept)
                end = kept[0]["offset"] if len(kept) < len(rows) else first
                window = min(window * 4, _WINDOW_MAX)
            if end > log.log_start_offset:
                self.left[partition.index] = end

    async def _read(self, partition: Partition, offset: int, room: int, end: int | None = None) -> tuple[list[dict[str, Any]], int]:
        """Return at most `room` matches from `offset` on and below `end`, and the offset after the last record that was looked at."""
        rows: list[dict[str, Any]] = []
        while len(rows) < room and (end is None or offset < end) and not self._is_over():
            began_s = time.monotonic()
            try:
                found, size = await self._reader.find_rows(partition, offset, room - len(rows), self._wanted)
            except KafkaError as error:
                return [*rows, {"partition": partition.index, "offset": offset, "error": str(error)}], offset
            if not size:
                break
            rows += found.rows if end is None else [row for row in found.rows if row["offset"] < end]
            self.record_count += found.record_count
            offset = found.next_offset
            if self._wanted is not None:
                await asyncio.sleep(RESTS * (time.monotonic() - began_s))
        return rows, offset


def parse_cursor(text: str) -> dict[int, int]:
    """Return offsets by partition. Raises ValueError."""
    pairs = [each.split(":") for each in text.split(",")]
    return {int(index[:12]): int(offset[:20]) for index, offset in pairs}
