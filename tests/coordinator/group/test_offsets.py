"""Offsets against a plain model, and against what a replay of the log comes to, whatever compaction left of it."""

from __future__ import annotations

from typing import Any, NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from minibroker.coordinator.group.offsets import CommittedOffset, Offsets
from tests.support.soak import examples

GROUPS = ("g", "h")
PARTITIONS = (("a", 0), ("a", 1))
PRODUCERS = (1, 2)


class Put(NamedTuple):
    group: str
    partition: tuple[str, int]
    producer_id: int = -1


class Remove(NamedTuple):
    group: str
    partition: tuple[str, int]


class End(NamedTuple):
    producer_id: int
    is_commit: bool


places = st.tuples(st.sampled_from(GROUPS), st.sampled_from(PARTITIONS))
steps = st.one_of(
    places.map(lambda place: Put(*place)),
    st.tuples(places, st.sampled_from(PRODUCERS)).map(lambda each: Put(*each[0], each[1])),
    places.map(lambda place: Remove(*place)),
    st.builds(End, st.sampled_from(PRODUCERS), st.booleans()),
)
logs = st.lists(steps, min_size=5, max_size=60).map(lambda found: list(enumerate(found)))


def committed(record_offset: int) -> CommittedOffset:
    return CommittedOffset(1000 + record_offset, -1, "", 0, record_offset=record_offset)


def replay(log: list[tuple[int, Any]]) -> Offsets:
    offsets = Offsets()
    for record_offset, step in log:
        if isinstance(step, Put):
            offsets.put(step.group, step.partition, committed(record_offset), step.producer_id)
        elif isinstance(step, Remove):
            offsets.remove(step.group, step.partition)
        else:
            offsets.end_transaction(step.producer_id, is_commit=step.is_commit)
    return offsets


def seen(offsets: Offsets) -> dict[tuple[str, tuple[str, int]], int]:
    return {(group, partition): each.offset for group in GROUPS for partition, each in offsets.of_group(group).items()}


def unstable(offsets: Offsets) -> set[tuple[str, tuple[str, int]]]:
    return {(group, partition) for group in GROUPS for partition in PARTITIONS if offsets.is_unstable(group, partition)}


class Outcome(NamedTuple):
    """Of one offset in a log: when it came to count, if it did."""

    record_offset: int
    place: tuple[str, tuple[str, int]]


def model(log: list[tuple[int, Any]]) -> tuple[dict[tuple[str, tuple[str, int]], int], set[tuple[str, tuple[str, int]]]]:
    """For each place the largest record that counts and no tombstone came behind; and those that some transaction may yet change."""
    counts: list[Outcome] = []
    pending: list[tuple[int, Outcome]] = []
    for record_offset, step in log:
        if isinstance(step, Put):
            outcome = Outcome(record_offset, (step.group, step.partition))
            if step.producer_id < 0:
                counts = [*(each for each in counts if each.place != outcome.place), outcome]
            else:
                pending.append((step.producer_id, outcome))
        elif isinstance(step, Remove):
            place = (step.group, step.partition)
            counts = [each for each in counts if each.place != place]
            pending = [each for each in pending if each[1].place != place]
        else:
            ended = [outcome for producer_id, outcome in pending if producer_id == step.producer_id]
            pending = [each for each in pending if each[0] != step.producer_id]
            counts += ended if step.is_commit else []
    largest: dict[tuple[str, tuple[str, int]], int] = {}
    for each in counts:
        largest[each.place] = max(largest.get(each.place, 0), 1000 + each.record_offset)
    return largest, {outcome.place for _, outcome in pending}


@examples(300)
@given(logs)
def test_replayed_offsets_match_the_model(log: list[tuple[int, Any]]) -> None:
    offsets = replay(log)
    assert (seen(offsets), unstable(offsets)) == model(log)
    for group in GROUPS:
        assert offsets.has_open_transaction(group) == any(place[0] == group for place in unstable(offsets))
    assert {(group, partition) for group, partition, _ in offsets.all()} == set(seen(offsets)) | unstable(offsets)


@examples(300)
@given(logs, st.data())
def test_compacted_log_replays_to_the_same_offsets(log: list[tuple[int, Any]], data: st.DataObject) -> None:
    """A key keeps its last record below some offset; aborted records go, those of open transactions stay, markers too."""
    # The cleaner goes no further than the last stable offset.
    end = data.draw(st.sampled_from([end for end in range(len(log), -1, -1) if _first_open(log, end) is None]))
    last = {
        (step.group, step.partition): offset
        for offset, step in log[:end]
        if not isinstance(step, End) and not _is_aborted(log[:end], offset, step)
    }
    kept = [
        (offset, step) for offset, step in log if offset >= end or isinstance(step, End) or last.get((step.group, step.partition)) == offset
    ]
    assert seen(replay(kept)) == seen(replay(log))
    assert unstable(replay(kept)) == unstable(replay(log))


def _first_open(log: list[tuple[int, Any]], end: int) -> int | None:
    """Where the first transaction begins that is open at `end`."""
    return next((offset for offset, step in log[:end] if _is_transactional(step) and _ending(log[:end], offset, step) is None), None)


def _is_transactional(step: Any) -> bool:
    return isinstance(step, Put) and step.producer_id >= 0


def _ending(log: list[tuple[int, Any]], offset: int, put: Put) -> End | None:
    return next((step for at, step in log if at > offset and isinstance(step, End) and step.producer_id == put.producer_id), None)


def _is_aborted(log: list[tuple[int, Any]], offset: int, step: Any) -> bool:
    if not _is_transactional(step):
        return False
    ending = _ending(log, offset, step)
    return ending is not None and not ending.is_commit
