"""The assignor of share groups: what Apache Kafka's makes of the same cases, and what holds whatever the case."""

from __future__ import annotations

import json
from uuid import UUID

import pytest

from minibroker.coordinator.group.modern import MemberSpec, frozen
from minibroker.coordinator.group.share.step import assign_simple
from tests.coordinator.group.consumer.cases import text_of
from tests.coordinator.group.share.cases import case_of, drawn, line_of, wanted
from tests.coordinator.group.share.observe_assignor import KEPT

KNOWN = json.loads(KEPT.read_text())["cases"]
A, B = UUID(int=1), UUID(int=2)


@pytest.mark.parametrize("is_homogeneous", [True, False])
def test_assignments_match_kafka(is_homogeneous: bool) -> None:
    found = [(line, theirs, case) for line, theirs in KNOWN if (case := case_of(line)).is_homogeneous == is_homogeneous]
    assert len(found) > 20
    for line, theirs, case in found:
        assert line_of(case) == line
        assert " ".join(f"{member_id}={text_of(each)}" for member_id, each in case.assign().items()) == wanted(case, theirs), line


@pytest.mark.parametrize("seed", range(1_000, 1_100))
def test_every_partition_has_a_member_and_every_member_a_partition(seed: int) -> None:
    for case in drawn(seed):
        found = case.assign()
        assert found.keys() == case.members.keys()
        for topic, assignable in case.assignable.items():
            subscribers = {name for name, member in case.members.items() if topic in member.topics}
            readers = [name for name, each in found.items() if topic in each]
            assert set(readers) <= subscribers
            if subscribers:
                assert frozenset().union(*(found[name][topic] for name in readers)) == assignable
        if case.is_homogeneous:
            sizes = [sum(map(len, each.values())) for each in found.values()]
            assert max(sizes) - min(sizes) <= 1
            assert min(sizes) > 0


@pytest.mark.parametrize("seed", range(1_100, 1_140))
def test_settled_assignment_is_stable(seed: int) -> None:
    for case in drawn(seed):
        found = case.assign()
        settled = case._replace(members={name: each._replace(assignment=found[name]) for name, each in case.members.items()})
        assert settled.assign() == found


def test_more_members_than_partitions_share_them() -> None:
    members = {name: MemberSpec(frozenset([A])) for name in "abc"}
    assert assign_simple(members, frozen({A: [0]})) == {name: {A: {0}} for name in "abc"}


def test_common_topics_are_distributed_together() -> None:
    members = {name: MemberSpec(frozenset([A, B])) for name in "ab"}
    assert assign_simple(members, frozen({A: [0], B: [0]})) == {"a": {A: {0}}, "b": {B: {0}}}


def test_unassignable_partitions_are_not_assigned() -> None:
    member = MemberSpec(frozenset([A]), assignment=frozen({A: [0, 1]}))
    assert assign_simple({"a": member}, frozen({A: [1], B: [0]})) == {"a": {A: {1}}}
    assert assign_simple({"a": member}, {}) == {"a": {}}
    assert assign_simple({}, {}) == {}
