"""Search the logs of partitions for records: forwards from given offsets, or backwards from the end for the newest ones.

A search stops after enough matches, SEARCH_S or KEPT_MAX bytes that it keeps for decoding, and says where: its cursor has an offset for
each partition that it has not finished.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final

from minibroker.cluster.partition import Partition
from minibroker.console.filters import Filter
from minibroker.console.reading import LogReader
from minibroker.console.scanning import KEPT_MAX, Scan, kept_size, order_of
from minibroker.errors import KafkaError

SEARCH_S: Final = 2.0
#: Offsets that a backward search looks at first, few enough to decode all in time. Each further window is four times as large.
_WINDOW: Final = 8
_WINDOW_MAX: Final = 256_000

WithSchema = Callable[[Filter, int | str], Awaitable[Filter]]


class Search:
    """One search, for at most `count` records. Without a filter each partition gives `count`; with `is_newest`, all of them together."""

    def __init__(
        self, reader: LogReader, wanted: Filter, count: int, *, is_newest: bool = False, with_schema: WithSchema | None = None
    ) -> None:
        """`with_schema` adds a schema to a filter whose scan needs it."""
        self._reader = reader
        self._with_schema = with_schema
        self._is_newest = is_newest
        self._wanted = None if wanted.is_empty else wanted
        self._count = count
        self._deadline_s = time.monotonic() + SEARCH_S
        self.rows: list[dict[str, Any]] = []
        self._kept_bytes = 0  #: of all rows
        self.record_count = 0  #: records that were looked at
        self.left: dict[int, int] = {}  #: where to go on, by partition

    @property
    def cursor(self) -> str:
        """What `parse_cursor` reads; empty if the search is complete."""
        return ",".join(f"{index}:{offset}" for index, offset in self.left.items())

    def _is_over(self) -> bool:
        """Return whether it is time to stop. A search that waited for others looks at some records first."""
        return time.monotonic() >= self._deadline_s and self.record_count > 0

    async def forwards(self, partitions: Iterable[Partition], positions: Mapping[int, int]) -> None:
        """Read from the positions on, one partition after another."""
        for partition in partitions:
            log, offset = partition.online_log, positions.get(partition.index)
            if log is None or offset is None:
                continue
            room = self._count if self._wanted is None else self._count - len(self.rows)
            rows, offset, _ = await self._read(partition, offset, room)
            self._keep(rows)
            if self._is_newest and len(self.rows) > self._count:
                self.rows = sorted(self.rows, key=order_of)[-self._count :]
            if offset < log.log_end_offset:
                self.left[partition.index] = offset

    async def backwards(self, partitions: Iterable[Partition], ends: Mapping[int, int]) -> None:
        """Read the records before the ends, the newest first, one partition after another."""
        for partition in partitions:
            log, end = partition.online_log, ends.get(partition.index)
            if log is None or end is None:
                continue
            window, found = _WINDOW, 0
            while end > log.log_start_offset and found < self._count and partition.online_log is log and not self._has_to_stop():
                first = max(log.log_start_offset, end - window)
                rows, reached, is_cut = await self._read(partition, first, self._count - found, end)
                if reached < end and self._is_over():
                    break  # half a window would leave out the newest matches
                self._keep(rows)
                found += len(rows)
                end = rows[0]["offset"] if is_cut or found >= self._count else first
                window = min(window * 4, _WINDOW_MAX)
            if end > log.log_start_offset:
                self.left[partition.index] = end

    def _keep(self, rows: list[dict[str, Any]]) -> None:
        self.rows += rows
        self._kept_bytes += _size(rows)

    def _has_to_stop(self) -> bool:
        return self._is_over() or self._kept_bytes > KEPT_MAX

    async def _read(self, partition: Partition, offset: int, room: int, end: int | None = None) -> tuple[list[dict[str, Any]], int, bool]:
        """Return at most `room` matches from `offset` on.

        `end`: return the last matches below it, not the first ones.

        Returns:
            The matches, the offset after the last record that was looked at, and whether matches before the first row are left out,
            because together they have too many bytes.
        """
        rows: list[dict[str, Any]] = []
        is_cut = False
        while (len(rows) < room if end is None else offset < end) and not self._is_over():
            if end is None and not self._is_newest and self._kept_bytes + _size(rows) > KEPT_MAX:
                break
            scan = Scan(offset, room - len(rows), self._wanted) if end is None else Scan(offset, room, self._wanted, end, takes_last=True)
            try:
                found, size = await (self._reader.find_rows if self._wanted is None else self._reader.search_rows)(partition, scan)
            except KafkaError as error:
                return [*rows, {"partition": partition.index, "offset": offset, "error": str(error)}], offset, is_cut
            if found.is_cut:
                rows, is_cut = [], True
            rows = [*rows, *found.rows][-room:]
            while end is not None and len(rows) > 1 and _size(rows) > KEPT_MAX:
                rows, is_cut = rows[1:], True
            self.record_count += found.record_count
            if found.unknown_schema is not None and self._wanted is not None and self._with_schema is not None:
                self._wanted = await self._with_schema(self._wanted, found.unknown_schema)
            elif not size:
                break
            offset = found.next_offset
        return rows, offset, is_cut


def _size(rows: Iterable[dict[str, Any]]) -> int:
    return sum(map(kept_size, rows))


def parse_cursor(text: str) -> dict[int, int]:
    """Return offsets by partition. Raises ValueError."""
    pairs = [each.split(":") for each in text.split(",")]
    return {int(index[:12]): int(offset[:20]) for index, offset in pairs}
