"""Follow the records of a topic from the append itself, without polling: each append wakes the tail.

At most ROWS_MAX rows are sent every INTERVAL_S, or every BUSY_INTERVAL_S while there are more. The rest is counted. The id of an
event has the offset of each partition, from which a browser goes on after its connection was lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from minibroker.cluster.partition import Partition
from minibroker.cluster.topic import Topic
from minibroker.console.filters import Filter
from minibroker.console.live import Stream
from minibroker.console.page import Visit
from minibroker.console.pages.records import filter_of, partitions_of
from minibroker.console.rendering import Templates
from minibroker.console.scanning import Scan, order_of
from minibroker.errors import KafkaError
from minibroker.security.acl import Operation, ResourceType

ROWS_MAX: Final = 25
INTERVAL_S: Final = 0.2
BUSY_INTERVAL_S: Final = 0.5  #: rows cost the loop time, and 25 take longer to read
_KEEP_ALIVE_S: Final = 5.0
_CHUNKS_MAX: Final = 4  #: of 256 kB, read of one partition in one turn; a producer may be faster


class TailRequest:
    """What a visitor wants to follow."""

    def __init__(self, visit: Visit, is_logged_in: Callable[[], bool]) -> None:
        """Check the request. Raises KafkaError and what Visit raises."""
        self.is_logged_in = is_logged_in
        self.visit = visit
        self.topic: Topic = visit.topic("topic")
        visit.visitor.check(Operation.READ, ResourceType.TOPIC, self.topic.name)
        self.partitions: list[Partition] = partitions_of(visit, self.topic)
        self.wanted: Filter = filter_of(visit)


async def tail(request: TailRequest, stream: Stream, templates: Templates, last_event_id: str) -> None:
    """Send new records until the visitor leaves."""
    visit, partitions = request.visit, request.partitions
    changed = asyncio.Event()
    positions = _positions(partitions, last_event_id)
    cancels = [each.subscribe(changed.set) for each in partitions]
    await stream.send("ready", {"positions": positions})
    try:
        while visit.host.cluster.topics.get(request.topic.name) is request.topic:
            rows, skipped = await _new_rows(request, positions)
            await visit.decode(rows, request.topic.name)
            if rows or skipped:
                html = await templates.block("records.html", "rows", {"rows": rows[::-1], "topic": request.topic.name}) if rows else ""
                event_id = ",".join(f"{index}:{offset}" for index, offset in positions.items())
                await stream.send("rows", {"html": html, "count": len(rows), "skipped": skipped}, event_id)
            if not request.is_logged_in() or not visit.visitor.may(Operation.READ, ResourceType.TOPIC, request.topic.name):
                return
            await stream.pause(BUSY_INTERVAL_S if skipped else INTERVAL_S)
            if not _is_behind(partitions, positions):
                try:
                    await asyncio.wait_for(changed.wait(), _KEEP_ALIVE_S)
                except TimeoutError:
                    await stream.pause(0)
            changed.clear()
        await stream.send("gone", {"message": f"topic {request.topic.name} was deleted"})
    finally:
        for cancel in cancels:
            cancel()


def _positions(partitions: list[Partition], last_event_id: str) -> dict[int, int]:
    """Return where to start: after the last event, or at the end."""
    ends = {each.index: log.log_end_offset for each in partitions if (log := each.online_log) is not None}
    ends |= {each.index: 0 for each in partitions if each.is_unopened}
    for pair in last_event_id.split(","):
        index, _, offset = pair.partition(":")
        if index.isdecimal() and offset.isdecimal() and (number := int(index[:12])) in ends:
            ends[number] = min(ends[number], int(offset[:20]))
    return ends


def _is_behind(partitions: list[Partition], positions: dict[int, int]) -> bool:
    return any((log := each.online_log) is not None and positions.get(each.index, 0) < log.log_end_offset for each in partitions)


async def _new_rows(request: TailRequest, positions: dict[int, int]) -> tuple[list[dict[str, Any]], int]:
    """Return the last new rows, and how many matching ones are left out. Moves the positions to the end."""
    rows: list[dict[str, Any]] = []
    skipped = 0
    wanted = None if request.wanted.is_empty else request.wanted
    for partition in request.partitions:
        log = partition.online_log
        if log is None:
            continue
        offset, end = positions.get(partition.index, log.log_end_offset), log.log_end_offset
        if wanted is None and end - offset > ROWS_MAX:
            skipped += end - ROWS_MAX - offset
            offset = end - ROWS_MAX
        for _ in range(_CHUNKS_MAX):
            if offset >= end:
                break
            try:
                found, size = await request.visit.host.reader.find_rows(partition, Scan(offset, ROWS_MAX, wanted))
            except KafkaError:
                break
            rows += found.rows
            rows.sort(key=order_of)
            left_out = max(len(rows) - ROWS_MAX, 0)
            del rows[:left_out]  # at once: a topic has many partitions, and a row may keep its whole record
            skipped += left_out
            offset = found.next_offset
            if found.unknown_schema is not None:
                request.wanted = wanted = await request.visit.with_schema(request.wanted, found.unknown_schema)
            elif not size:
                break
        positions[partition.index] = offset
    return rows, skipped
