"""Internal topics: every topology is refused, lacks topics, or is ready, and then stays so."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minibroker.coordinator.group.streams.internal_topics import StatusCode, configure
from minibroker.coordinator.group.streams.topology import topology_of
from minibroker.errors import StreamsInvalidTopology
from minibroker.schemas import k88_streams_group_heartbeat as k88
from tests.coordinator.group.modern_world import KnownTopics
from tests.coordinator.group.streams.world import subtopology, topic, topology
from tests.support.soak import examples

SOURCES = {"a": 1, "b": 3, "c": 3}
NAMES = st.sampled_from(["x", "y", "z"])
COUNTS = st.sampled_from([0, 0, 0, 1, 3, -1])

groups = st.builds(
    k88.CopartitionGroup,
    source_topics=st.lists(st.integers(0, 1), max_size=2),
    source_topic_regex=st.just([]),
    repartition_source_topics=st.lists(st.integers(0, 1), max_size=2),
)
said = st.fixed_dictionaries(
    {
        "repartition_sink_topics": st.lists(NAMES, max_size=2),
        "repartition_source_topics": st.lists(st.builds(topic, NAMES, COUNTS), max_size=2),
        "state_changelog_topics": st.lists(st.builds(topic, st.sampled_from(["x", "log", "other"])), max_size=2),
        "copartition_groups": st.lists(groups, max_size=2),
    }
)


@examples(150)
@given(st.lists(st.tuples(st.lists(st.sampled_from([*SOURCES, "missing"]), max_size=2), said), max_size=3))
def test_random_topologies_are_configured_or_refused(parts: list[tuple[list[str], dict[str, Any]]]) -> None:
    topics = KnownTopics(**SOURCES)
    try:
        requested = topology_of(topology(*(subtopology(str(at), sources, **each) for at, (sources, each) in enumerate(parts))))
        first = configure(requested, topics)
    except StreamsInvalidTopology:
        return
    if first.problem is not None and first.problem.code is not StatusCode.MISSING_INTERNAL_TOPICS:
        assert first.missing == ()
        return
    for missing in first.missing:
        assert topics.find(missing.name) is None
        assert missing.partition_count > 0
        topics.create(missing.name, missing.partition_count)
    second = configure(requested, topics)
    assert second.missing == ()
    if second.is_ready:
        assert {each: found.task_count for each, found in second.subtopologies.items()} == {
            each: found.task_count for each, found in first.subtopologies.items()
        }


def test_repartition_topics_match_the_partition_count_of_their_sources() -> None:
    """b has 3 partitions, x is read with c (3), y is fixed."""
    requested = topology(
        subtopology("0", ["a", "b"], repartition_sink_topics=["x", "y"]),
        subtopology("1", ["c"], repartition_source_topics=[topic("x"), topic("y", 5)], state_changelog_topics=[topic("log")]),
    )
    found = configure(topology_of(requested), KnownTopics(**SOURCES))
    assert {each.name: each.partition_count for each in found.missing} == {"x": 3, "y": 5, "log": 5}
    assert {each: subtopology.task_count for each, subtopology in found.subtopologies.items()} == {"0": 3, "1": 5}


@pytest.mark.parametrize(("partitions", "is_refused"), [(1666, False), (1667, True)])
def test_number_of_tasks_is_limited(partitions: int, is_refused: bool) -> None:
    """Three subtopologies: one reads a topic that exists, two a repartition topic of a size that the application requests."""
    expected = topology_of(
        topology(
            subtopology("0", ["large"], repartition_sink_topics=["x"]),
            subtopology("1", [], repartition_source_topics=[topic("x", partitions)], repartition_sink_topics=["y"]),
            subtopology("2", [], repartition_source_topics=[topic("y", partitions)]),
        )
    )
    topics = KnownTopics(large=1668)
    if is_refused:
        with pytest.raises(StreamsInvalidTopology, match=r"^A topology may have 5000 tasks at most, and .* make 5002\.$"):
            configure(expected, topics)
    else:
        assert sum(each.task_count for each in configure(expected, topics).subtopologies.values()) == 5000
