"""Plan the new offsets of a group from its committed offsets and the bounds of the logs. Nothing is written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from minibroker.client.client import Client
from minibroker.client.group_offsets import Committed, Offsets
from minibroker.client.leaders import TopicPartition
from minibroker.client.offsets import EARLIEST, LATEST, FoundOffset, list_offsets
from minibroker.errors import KafkaError, OffsetOutOfRange

TO_EARLIEST: Final = "to-earliest"
TO_LATEST: Final = "to-latest"
TO_CURRENT: Final = "to-current"
TO_OFFSET: Final = "to-offset"
SHIFT_BY: Final = "shift-by"
TO_TIMESTAMP: Final = "to-timestamp"


class Reset(NamedTuple):
    """A requested reset: one of the words above, and its offset, number of offsets or ms since 1970."""

    how: str
    value: int = 0


class Planned(NamedTuple):
    """The plan of one partition; `new_offset` is between log start and log end."""

    committed_offset: int | None
    wanted_offset: int  #: the requested offset, which may be outside of the log
    new_offset: int
    log_start_offset: int
    log_end_offset: int


def plan(
    client: Client, resets: Mapping[TopicPartition, Reset], committed: Offsets, *, group: str
) -> dict[TopicPartition, Planned | KafkaError]:
    """Return the new offset of each partition, or the error. By time: the first record at or after it, otherwise the log end."""
    deadline = client.deadline()
    starts = list_offsets(client, dict.fromkeys(resets, EARLIEST), deadline=deadline)
    ends = list_offsets(client, dict.fromkeys(resets, LATEST), deadline=deadline)
    times = {key: reset.value for key, reset in resets.items() if reset.how == TO_TIMESTAMP}
    by_time = list_offsets(client, times, deadline=deadline) if times else {}
    return {
        key: _plan_one(reset, (starts[key], ends[key], by_time.get(key)), committed.get(key), what=f"group {group}: {key[0]}-{key[1]}")
        for key, reset in sorted(resets.items())
    }


def _plan_one(
    reset: Reset, answers: tuple[FoundOffset | KafkaError | None, ...], committed: Committed | KafkaError | None, *, what: str
) -> Planned | KafkaError:
    offsets = []
    for answer in (*answers, committed):
        if isinstance(answer, KafkaError):
            return answer
        offsets.append(None if answer is None else answer.offset)
    start, end, by_time, current = offsets
    if start is None or end is None:
        raise TypeError("every partition has a start and an end")
    return _planned(reset, start, end, current, by_time, what=what)


def _planned(reset: Reset, start: int, end: int, committed: int | None, by_time: int | None, *, what: str) -> Planned | KafkaError:
    if reset.how == SHIFT_BY and committed is None:
        return OffsetOutOfRange(f"{what} has no committed offset to shift")
    base = end if committed is None else committed
    targets = {
        TO_EARLIEST: start,
        TO_LATEST: end,
        TO_CURRENT: base,
        TO_OFFSET: reset.value,
        SHIFT_BY: base + reset.value,
        TO_TIMESTAMP: end if by_time is None or by_time < 0 else by_time,
    }[reset.how]
    return Planned(committed, targets, min(max(targets, start), end), start, end)
