"""What a run has to archive: what was asked for, against what the archive has. Pure decisions; every refusal is one line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from minibroker.spark.archive.manifest import ArchivedTopic, Gap, current
from minibroker.spark.errors import SourceError
from minibroker.spark.sources.ranges import PartitionRange, ResolvedTopics, common, merged, without

ERROR = "error"
SKIP = "skip"
OVERLAPS = (ERROR, SKIP)


@dataclass(frozen=True, slots=True)
class Allowed:
    """What a user agreed to."""

    gaps: bool = False
    recreated: bool = False
    overlap: str = ERROR


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be done.

    Attributes:
        ranges: to archive; they have offsets.
        gaps: to note.
        skipped: archived already.
        topics: the archive's list, with those that are new, before anything is archived.
        empty: partitions that have nothing yet and had nothing before: what is deleted of them from now on is a gap, too.
    """

    ranges: tuple[PartitionRange, ...]
    gaps: tuple[Gap, ...]
    skipped: tuple[PartitionRange, ...]
    topics: tuple[ArchivedTopic, ...]
    empty: tuple[PartitionRange, ...] = ()

    def topics_seen(self) -> tuple[ArchivedTopic, ...]:
        """`topics`, with those partitions."""
        newest = current(self.topics)
        return tuple(
            each.with_ranges([one for one in self.empty if one.topic == each.topic]) if each is newest[each.topic] else each
            for each in self.topics
        )


def plan(
    archived: Sequence[ArchivedTopic], resolved: ResolvedTopics, allowed: Allowed, *, is_continuing: bool, is_to_the_end: bool = True
) -> Plan:
    """Decide.

    Args:
        archived: what the archive has.
        resolved: what was asked for; when continuing, everything from the log start on.
        allowed: what a user agreed to.
        is_continuing: go on where the archive ends; else the ranges were asked for as they are.
        is_to_the_end: the ranges end where the topic does, so that a shorter topic has lost something.

    Raises:
        SourceError: another topic under the same name, offsets that are gone, offsets that are there already.
    """
    topics = with_topics(archived, resolved, allowed)
    there = current(topics)
    ranges: list[PartitionRange] = []
    gaps: list[Gap] = []
    skipped: list[PartitionRange] = []
    empty: list[PartitionRange] = []
    for each in resolved.ranges:
        topic = there[each.topic]
        if is_continuing:
            gap = _gap(each, topic, allowed)
            gaps += [gap] if gap else []
            ranges += _continued(each, topic, is_to_the_end=is_to_the_end)
            empty += [each] if each.size == 0 and topic.reached(each.partition) is None else []
            continue
        double = common([each], topic.ranges)
        if double and allowed.overlap != SKIP:
            raise SourceError(f"{double[0]} is archived already: leave it out, or pass over it with --overlap skip (overlap='skip')")
        skipped += double
        ranges += without([each], topic.ranges)
    return Plan(merged(ranges), tuple(gaps), tuple(skipped), topics, tuple(empty))


def with_topics(archived: Sequence[ArchivedTopic], resolved: ResolvedTopics, allowed: Allowed) -> tuple[ArchivedTopic, ...]:
    """The archive's topics and those that are new to it; SourceError for one that has been created anew."""
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
                    f"{reason}; the archive has this one, too, from before (topic={older.folder}), and cannot go on with it: archive it to "
                    "another folder"
                )
            number = sum(each.topic == name for each in archived) + 1
            found.append(ArchivedTopic(name, topic_id, resolved.cluster_id, f"{name}@{number}"))
    return tuple(found)


def check_ids(topics: Sequence[ArchivedTopic], topic_ids: Mapping[str, str]) -> None:
    """After the records were read: they are of the topics that were planned. SourceError when one was created anew meanwhile."""
    known = current(topics)
    for name, topic_id in topic_ids.items():
        if name in known and (reason := _another(known[name], topic_id, "")):
            raise SourceError(f"{reason} while it was read; nothing of this run was kept")


def _another(before: ArchivedTopic, topic_id: str, cluster_id: str) -> str | None:
    """Why this is not the topic that was archived; None when it is, as far as is known."""
    if before.topic_id and topic_id and before.topic_id != topic_id:
        return f"topic {before.topic} was created anew: its id is {topic_id}, the archive has {before.topic_id}"
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
            "--allow-gaps (allow_gaps=True) goes on without them, and notes it in the manifest"
        )
    return Gap(there.topic, there.partition, reached, there.start_offset)


def _continued(there: PartitionRange, topic: ArchivedTopic, *, is_to_the_end: bool) -> list[PartitionRange]:
    reached = topic.reached(there.partition)
    if reached is None or reached <= there.end_offset:
        return [there._replace(start_offset=max(there.start_offset, reached or 0))]
    if is_to_the_end:
        raise SourceError(
            f"{there.topic}-{there.partition} ends at offset {there.end_offset}, but the archive has it up to {reached}: it has lost "
            "its end, and what comes next would be under offsets that are archived; archive it to another folder"
        )
    return []


def portions(ranges: Iterable[PartitionRange], offset_count: int) -> Iterator[tuple[PartitionRange, ...]]:
    """Ranges in portions of about so many offsets, each partition by its share, so that all of them end together."""
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
