"""Decide what to archive: the requested ranges, without those that the archive has. Pure functions; errors are one line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from minibroker.spark.archive.manifest import ArchivedTopic, Gap, current
from minibroker.spark.failures import SourceError
from minibroker.spark.sources.ranges import PartitionRange, ResolvedTopics, common, merged, without

ERROR = "error"
SKIP = "skip"
OVERLAPS = (ERROR, SKIP)


@dataclass(frozen=True, slots=True)
class Allowed:
    """Exceptions that the user has allowed."""

    gaps: bool = False
    recreated: bool = False
    overlap: str = ERROR


@dataclass(frozen=True, slots=True)
class Plan:
    """What to archive.

    Attributes:
        ranges: not empty.
        gaps: to note in the manifest.
        skipped: ranges that are archived already.
        topics: the archive's topics and the new ones, before anything is archived.
        empty: partitions without records so far. Records that are deleted later are a gap.
    """

    ranges: tuple[PartitionRange, ...]
    gaps: tuple[Gap, ...]
    skipped: tuple[PartitionRange, ...]
    topics: tuple[ArchivedTopic, ...]
    empty: tuple[PartitionRange, ...] = ()

    def topics_seen(self) -> tuple[ArchivedTopic, ...]:
        """Return `topics` with the ranges in `empty`."""
        newest = current(self.topics)
        return tuple(
            each.with_ranges([one for one in self.empty if one.topic == each.topic]) if each is newest[each.topic] else each
            for each in self.topics
        )


def plan(
    archived: Sequence[ArchivedTopic], resolved: ResolvedTopics, allowed: Allowed, *, is_continuing: bool, is_to_the_end: bool = True
) -> Plan:
    """Return the plan of one call of `archive` or `follow`.

    Args:
        archived: the topics of the archive.
        resolved: the requested ranges; if continuing, all offsets from the log start.
        allowed: exceptions that the user has allowed.
        is_continuing: continue where the archive ends; else archive exactly the requested ranges.
        is_to_the_end: the ranges end at the topic's end, so that a topic shorter than the archive has lost records.

    Raises:
        SourceError: another topic of the same name, deleted offsets, or offsets that are archived already.
    """
    topics = with_topics(archived, resolved, allowed)
    by_name = current(topics)
    ranges: list[PartitionRange] = []
    gaps: list[Gap] = []
    skipped: list[PartitionRange] = []
    empty: list[PartitionRange] = []
    for each in resolved.ranges:
        topic = by_name[each.topic]
        if is_continuing:
            gap = _gap(each, topic, allowed)
            gaps += [gap] if gap else []
            ranges += _continued(each, topic, is_to_the_end=is_to_the_end)
            empty += [each] if each.size == 0 and topic.reached(each.partition) is None else []
            continue
        overlap = common([each], topic.ranges)
        if overlap and allowed.overlap != SKIP:
            raise SourceError(f"{overlap[0]} is archived already: leave it out, or skip it with --overlap skip (overlap='skip')")
        skipped += overlap
        ranges += without([each], topic.ranges)
    return Plan(merged(ranges), tuple(gaps), tuple(skipped), topics, tuple(empty))


def with_topics(archived: Sequence[ArchivedTopic], resolved: ResolvedTopics, allowed: Allowed) -> tuple[ArchivedTopic, ...]:
    """Return the archive's topics and the new ones; SourceError for a recreated topic, unless allowed."""
    found = list(archived)
    known = current(archived)
    for name in sorted({each.topic for each in resolved.ranges} | set(resolved.topic_ids)):
        topic_id = resolved.topic_ids.get(name, "")
        before = known.get(name)
        if before is None:
            found.append(ArchivedTopic(name, topic_id, resolved.cluster_id, name))
        elif reason := _another(before, topic_id, resolved.cluster_id):
            if not allowed.recreated:
                raise SourceError(
                    f"{reason}: its offsets are of another topic; --allow-recreated (allow_recreated=True) archives it beside the old one"
                )
            older = next((each for each in archived if each.topic == name and topic_id and each.topic_id == topic_id), None)
            if older is not None:
                raise SourceError(
                    f"{reason}; the archive already has this topic from before (topic={older.folder}) and cannot continue it: archive "
                    "it to another folder"
                )
            number = sum(each.topic == name for each in archived) + 1
            found.append(ArchivedTopic(name, topic_id, resolved.cluster_id, f"{name}@{number}"))
    return tuple(found)


def check_ids(topics: Sequence[ArchivedTopic], topic_ids: Mapping[str, str]) -> None:
    """Check after reading that the topics are those of the plan; SourceError if one was recreated meanwhile."""
    known = current(topics)
    for name, topic_id in topic_ids.items():
        if name in known and (reason := _another(known[name], topic_id, "")):
            raise SourceError(f"{reason} while it was read; nothing of this run was kept")


def _another(before: ArchivedTopic, topic_id: str, cluster_id: str) -> str | None:
    """Return why this is not the archived topic; None if it is, or if ids are unknown."""
    if before.topic_id and topic_id and before.topic_id != topic_id:
        return f"topic {before.topic} was recreated: its id is {topic_id}, the archive has {before.topic_id}"
    if before.cluster_id and cluster_id and before.cluster_id != cluster_id:
        return f"topic {before.topic} is in cluster {cluster_id}, the archive has it from cluster {before.cluster_id}"
    return None


def _gap(there: PartitionRange, topic: ArchivedTopic, allowed: Allowed) -> Gap | None:
    reached = topic.reached(there.partition)
    if reached is None or reached >= there.start_offset:
        return None
    if not allowed.gaps:
        raise SourceError(
            f"offsets {reached} up to {there.start_offset} of {there.topic}-{there.partition} were deleted before they were archived: "
            "--allow-gaps (allow_gaps=True) continues without them, and notes the gap in the manifest"
        )
    return Gap(there.topic, there.partition, reached, there.start_offset)


def _continued(there: PartitionRange, topic: ArchivedTopic, *, is_to_the_end: bool) -> list[PartitionRange]:
    reached = topic.reached(there.partition)
    if reached is None or reached <= there.end_offset:
        return [there._replace(start_offset=max(there.start_offset, reached or 0))]
    if is_to_the_end:
        raise SourceError(
            f"{there.topic}-{there.partition} ends at offset {there.end_offset}, but the archive has it up to {reached}: it has lost "
            "its end, and new records would get archived offsets; archive it to another folder"
        )
    return []


def portions(ranges: Iterable[PartitionRange], offset_count: int) -> Iterator[tuple[PartitionRange, ...]]:
    """Yield portions of about `offset_count` offsets, with a share of each partition, so that all partitions end together."""
    left = [each for each in ranges if each.size > 0]
    while left:
        total = sum(each.size for each in left)
        taken, rest = [], []
        for each in left:
            size = each.size if total <= offset_count else min(max(each.size * offset_count // total, 1), each.size)
            taken.append(each._replace(end_offset=each.start_offset + size))
            if size < each.size:
                rest.append(each._replace(start_offset=each.start_offset + size))
        yield tuple(taken)
        left = rest
