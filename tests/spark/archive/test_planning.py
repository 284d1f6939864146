"""What a run has to archive."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minibroker.spark.archive.manifest import (
    ArchivedFile,
    ArchivedRange,
    ArchivedTopic,
    Gap,
    Identity,
    Run,
    StreamPlace,
    decode_identity,
    decode_run,
    encode_identity,
    encode_run,
)
from minibroker.spark.archive.planning import SKIP, Allowed, Plan, check_ids, plan, portions
from minibroker.spark.failures import SourceError
from minibroker.spark.sources.ranges import PartitionRange, ResolvedTopics, merged

ARCHIVED = ArchivedTopic("t", "id-1", "cluster", "t", (PartitionRange("t", 0, 0, 10), PartitionRange("t", 1, 5, 7)))
STRICT = Allowed()


def resolved(*ranges: tuple[int, int, int], topic_id: str = "id-1", cluster_id: str = "cluster") -> ResolvedTopics:
    return ResolvedTopics({"t": topic_id}, tuple(PartitionRange("t", *each) for each in ranges), cluster_id)


def continued(there: ResolvedTopics, allowed: Allowed = STRICT, *archived: ArchivedTopic, is_to_the_end: bool = True) -> Plan:
    return plan(archived or (ARCHIVED,), there, allowed, is_continuing=True, is_to_the_end=is_to_the_end)


def test_the_first_run_begins_at_the_log_start() -> None:
    found = plan((), resolved((0, 3, 9), (1, 0, 0)), STRICT, is_continuing=True)
    topics = (ArchivedTopic("t", "id-1", "cluster", "t"),)
    assert found == Plan((PartitionRange("t", 0, 3, 9),), (), (), topics, empty=(PartitionRange("t", 1, 0, 0),))


def test_the_next_goes_on_where_the_archive_ends() -> None:
    """New partitions from their log start on."""
    found = continued(resolved((0, 4, 25), (1, 7, 7), (2, 3, 4)))
    assert found.ranges == (PartitionRange("t", 0, 10, 25), PartitionRange("t", 2, 3, 4))
    assert (found.gaps, found.topics) == ((), (ARCHIVED,))


def test_what_was_deleted_before_it_was_archived() -> None:
    there = resolved((0, 12, 25), (1, 7, 7))
    with pytest.raises(SourceError, match=r"offsets 10 up to 12 of t-0 were deleted before they were archived: --allow-gaps"):
        continued(there)
    found = continued(there, Allowed(gaps=True))
    assert (found.ranges, found.gaps) == ((PartitionRange("t", 0, 12, 25),), (Gap("t", 0, 10, 12),))
    emptied = continued(resolved((0, 12, 12), (1, 7, 7)), Allowed(gaps=True))
    assert (emptied.ranges, emptied.gaps) == ((), (Gap("t", 0, 10, 12),))


def test_what_was_deleted_of_a_partition_that_was_empty_when_others_were_archived() -> None:
    first = plan((), resolved((0, 3, 9), (1, 4, 4)), STRICT, is_continuing=True)
    (topic,) = first.topics_seen()
    topic = topic.with_ranges(first.ranges)
    with pytest.raises(SourceError, match="offsets 4 up to 6 of t-1 were deleted before they were archived"):
        continued(resolved((0, 3, 9), (1, 6, 8)), STRICT, topic)
    assert continued(resolved((0, 3, 9), (1, 4, 4)), STRICT, topic).empty == ()
    found = continued(resolved((0, 3, 9), (1, 4, 8)), STRICT, topic)
    assert found.ranges == (PartitionRange("t", 1, 4, 8),)
    assert topic.with_ranges(found.ranges).ranges == (PartitionRange("t", 0, 3, 9), PartitionRange("t", 1, 4, 8))


def test_a_topic_that_lost_its_end() -> None:
    with pytest.raises(SourceError, match="t-0 ends at offset 8, but the archive has it up to 10"):
        continued(resolved((0, 0, 8), (1, 0, 7)))
    assert continued(resolved((0, 0, 8), (1, 0, 7)), is_to_the_end=False).ranges == ()  # somebody asked for no more


def test_a_range_that_is_archived_in_part() -> None:
    there = resolved((0, 8, 12), (1, 0, 9))
    with pytest.raises(SourceError, match=r"t-0 \[8, 10\) is archived already"):
        plan((ARCHIVED,), there, STRICT, is_continuing=False)
    found = plan((ARCHIVED,), there, Allowed(overlap=SKIP), is_continuing=False)
    assert found.ranges == (PartitionRange("t", 0, 10, 12), PartitionRange("t", 1, 0, 5), PartitionRange("t", 1, 7, 9))
    assert found.skipped == (PartitionRange("t", 0, 8, 10), PartitionRange("t", 1, 5, 7))
    assert plan((ARCHIVED,), resolved((0, 20, 30)), STRICT, is_continuing=False).ranges == (PartitionRange("t", 0, 20, 30),)


@pytest.mark.parametrize(
    ("there", "says"),
    [
        (resolved((0, 0, 3), topic_id="id-2"), "topic t was recreated: its id is id-2, the archive has id-1"),
        (resolved((0, 0, 3), topic_id="", cluster_id="other"), "topic t is in cluster other, the archive has it from cluster cluster"),
    ],
)
def test_another_topic_of_the_same_name(there: ResolvedTopics, says: str) -> None:
    with pytest.raises(SourceError, match=says):
        continued(there)
    found = continued(there, Allowed(recreated=True))
    assert found.topics == (ARCHIVED, ArchivedTopic("t", there.topic_ids["t"], there.cluster_id, "t@2"))
    assert found.ranges == (PartitionRange("t", 0, 0, 3),)
    second = dataclasses.replace(found.topics[1], ranges=found.ranges)
    assert continued(resolved((0, 0, 9), topic_id="id-3"), Allowed(recreated=True), ARCHIVED, second).topics[2].folder == "t@3"
    if second.topic_id:
        with pytest.raises(SourceError, match=r"the archive already has this topic from before \(topic=t\)"):
            continued(resolved((0, 0, 12)), Allowed(recreated=True), ARCHIVED, second)


def test_an_unknown_id_is_no_other_id() -> None:
    assert continued(resolved((0, 0, 12), topic_id="", cluster_id="")).topics == (ARCHIVED,)


def test_created_anew_while_it_was_read() -> None:
    check_ids((ARCHIVED,), {"t": "id-1"})
    with pytest.raises(SourceError, match=r"recreated.*while it was read; nothing of this run was kept"):
        check_ids((ARCHIVED,), {"t": "id-2"})


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 50), st.integers(0, 40)), unique_by=lambda each: each[0]), st.integers(1, 60))
def test_portions_are_everything_once(parts: list[tuple[int, int, int]], count: int) -> None:
    ranges = merged(PartitionRange("t", partition, start, start + size) for partition, start, size in parts)
    found = list(portions(ranges, count))
    assert merged(each for part in found for each in part) == ranges
    assert sum(each.size for part in found for each in part) == sum(each.size for each in ranges)
    for part in found:
        assert 0 < sum(each.size for each in part) <= count + len(ranges)
        assert len({each.partition for each in part}) == len(part)


def test_the_manifest_is_what_was_written() -> None:
    run = Run(
        number=7,
        run_id="ab" * 16,
        source="cluster at here:9092",
        isolation_level="read_committed",
        started_ms=1,
        committed_ms=2,
        ranges=(ArchivedRange("t", 0, 10, 20, 8, 11, 19), ArchivedRange("t", 1, 7, 9, 0, None, None)),
        gaps=(Gap("t", 2, 0, 4),),
        files=(ArchivedFile("topic=t/date=2026-01-01/part-7-0.parquet", "topic=t/date=2026-01-01/part-0.parquet", 8, 1000),),
        topics=(ARCHIVED, ArchivedTopic("u", "", "", "u", (PartitionRange("u", 3, 8, 8),))),
        stream=StreamPlace("query", 3),
    )
    assert decode_run(encode_run(run), "here") == run
    assert (run.record_count, run.size) == (8, 1000)
    identity = Identity("archive", "parquet", "read_committed")
    assert decode_identity(encode_identity(identity), "here") == identity
    with pytest.raises(SourceError, match="here is damaged"):
        decode_run(b"[]", "here")
