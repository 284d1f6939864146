"""Server-side assignors: what Apache Kafka's make of the same cases, and what holds whatever the case."""

from __future__ import annotations

import json
from uuid import UUID

import pytest

from minibroker.coordinator.group.consumer.assignors import RANGE, UNIFORM, assign, check_assignor, preferred
from minibroker.coordinator.group.modern import MemberSpec
from minibroker.errors import UnsupportedAssignor
from tests.coordinator.group.consumer.cases import case_of, drawn, line_of, text_of
from tests.coordinator.group.consumer.observe_assignors import KEPT

KNOWN = json.loads(KEPT.read_text())["cases"]
A, B = UUID(int=1), UUID(int=2)


@pytest.mark.parametrize("assignor", [UNIFORM, RANGE])
@pytest.mark.parametrize("is_homogeneous", [True, False])
def test_assignments_match_kafka(assignor: str, is_homogeneous: bool) -> None:
    found = [(line, theirs, case) for line, theirs in KNOWN if (case := case_of(line))[:2] == (assignor, is_homogeneous)]
    assert len(found) > 20
    for line, theirs, case in found:
        assert line_of(case) == line
        assert " ".join(f"{member_id}={text_of(each)}" for member_id, each in case.assign().items()) == theirs, line


@pytest.mark.parametrize("seed", range(1_000, 1_100))
def test_each_partition_has_one_subscribed_owner(seed: int) -> None:
    for case in drawn(seed):
        found = case.assign()
        owned = [(topic, each, member) for member, topics in found.items() for topic, partitions in topics.items() for each in partitions]
        expected = {topic for member in case.members.values() for topic in member.topics}
        assert sorted((topic, each) for topic, each, _ in owned) == [
            (topic, each) for topic in sorted(expected) for each in range(case.partition_counts[topic])
        ]
        assert all(topic in case.members[member].topics for topic, _, member in owned)
        assert found.keys() == case.members.keys()


@pytest.mark.parametrize("seed", range(1_100, 1_140))
def test_uniform_is_even_and_sticky(seed: int) -> None:
    for case in drawn(seed):
        if case.assignor == UNIFORM and case.is_homogeneous:
            found = case.assign()
            sizes = [sum(map(len, each.values())) for each in found.values()]
            assert max(sizes) - min(sizes) <= 1
            settled = case._replace(members={name: each._replace(assignment=found[name]) for name, each in case.members.items()})
            assert settled.assign() == found


def test_static_members_are_first_in_ranges() -> None:
    members = {"a": MemberSpec(frozenset([A])), "b": MemberSpec(frozenset([A]), instance_id="z")}
    assert assign(RANGE, members, {A: 3}, is_homogeneous=True) == {"a": {A: {2}}, "b": {A: {0, 1}}}


def test_no_members_or_no_topics() -> None:
    assert assign(UNIFORM, {}, {}, is_homogeneous=True) == {}
    assert assign(UNIFORM, {"a": MemberSpec(frozenset())}, {}, is_homogeneous=True) == {"a": {}}


def test_most_requested_assignor_is_preferred() -> None:
    assert preferred([]) == UNIFORM
    assert preferred([None, RANGE, None]) == RANGE
    assert preferred([RANGE, UNIFORM]) == RANGE
    assert preferred([RANGE, UNIFORM, UNIFORM]) == UNIFORM
    assert preferred([RANGE, UNIFORM, UNIFORM], [RANGE]) == RANGE  # the broker had both once


def test_unknown_assignor() -> None:
    check_assignor(None)
    check_assignor(RANGE)
    with pytest.raises(UnsupportedAssignor, match=r"^ServerAssignor nope is not supported\. Supported assignors: uniform, range\.$"):
        check_assignor("nope")
