"""Streams groups: the table of their machine, cell by cell."""

from __future__ import annotations

from uuid import UUID

import pytest

from minibroker.coordinator.group.kind import Membership
from minibroker.coordinator.group.streams.group import StreamsGroupLimits
from minibroker.errors import NonEmptyGroup, NotCoordinator, StaleMemberEpoch, UnknownMemberId, UnsupportedVersion
from minibroker.schemas import k88_streams_group_heartbeat as k88
from tests.coordinator.group.modern_world import SESSION_MS, KnownTopics
from tests.coordinator.group.streams.world import AT_ONCE, COUNTING, READING, REBALANCE_MS, Told, World, owned, subtopology, topic, topology

NO_NUMBER = "Failed to compute number of partitions for all repartition topics"
FENCED, UNKNOWN, INVALID, FULL, TOPOLOGY = 110, 25, 42, 81, 130


def two(world: World) -> None:
    """Members a and b with two tasks each, at epoch 3."""
    assert world.join("a") == Told(2, "0:0.1.2.3;")
    assert world.join("b") == Told(3, ";")
    assert world.beat("a", 2) == Told(2, "0:0.1;")
    assert world.beat("a", 2, {"0": [0, 1]}) == Told(3, None)
    assert world.beat("b", 3) == Told(3, "0:2.3;")
    assert world.state == "Stable"


def test_first_member_creates_internal_topics_and_gets_all_tasks() -> None:
    world = World()
    assert world.join("a", of=COUNTING) == Told(2, "0:0.1.2.3/1:0.1.2.3;")
    assert {name: found.partition_count for name in ("words", "counts") if (found := world.topics.find(name))} == {"words": 4, "counts": 4}
    assert world.state == "Stable"
    assert world.beat("a", 2) == Told(2, None)


def test_second_member_gets_revoked_tasks() -> None:
    world = World()
    two(world)
    assert world.leave("b") == Told(-1, None)
    assert world.state == "Assigning"
    assert world.beat("a", 3) == Told(4, "0:0.1.2.3;")


def test_empty_group_keeps_its_epochs() -> None:
    world = World()
    world.join("a")
    world.leave("a")
    assert (world.state, world.group.image.epoch) == ("Empty", 3)
    assert world.join("a") == Told(4, "0:0.1.2.3;")


def test_standbys_are_placed_on_other_instances() -> None:
    world = World(limits=AT_ONCE._replace(num_standby_replicas=1))
    assert world.join("a", "one", of=COUNTING) == Told(2, "0:0.1.2.3/1:0.1.2.3;")
    assert world.join("b", "two", of=COUNTING) == Told(3, ";1:0.1"), "to stand by for what another instance works at"
    assert world.beat("a", 2) == Told(2, "0:0.1/1:0.1;")
    assert world.beat("a", 2, {"0": [0, 1], "1": [0, 1]}) == Told(3, None), "what it gave up is its own until it is stored"
    assert world.beat("a", 3) == Told(3, "0:0.1/1:0.1;1:2.3")
    assert world.beat("b", 3) == Told(3, "0:2.3/1:2.3;1:0.1")
    assert world.state == "Stable"


def test_changed_setting_bumps_the_epoch() -> None:
    world = World()
    two(world)
    world.limits = AT_ONCE._replace(num_standby_replicas=1)
    world.beat("a", 3)
    assert world.group.image.epoch == 4
    assert world.group.image.assignment_configs == {"num.standby.replicas": "1"}


def test_missing_source_topics() -> None:
    world = World(topics=KnownTopics())
    assert world.join("a") == Told(2, ";", (1,))
    assert world.state == "NotReady"
    world.topics.create("t", 2)
    assert world.beat("a", 2) == Told(3, "0:0.1;")
    assert world.state == "Stable"
    world.topics.delete("t")
    assert world.beat("a", 3) == Told(3, ";", (1,))
    assert world.state == "NotReady"


def test_growing_topic_adds_tasks() -> None:
    world = World()
    world.join("a")
    world.topics.grow("t", 5)
    assert world.beat("a", 2) == Told(3, "0:0.1.2.3.4;")


def test_failed_internal_topic_is_reported_and_retried() -> None:
    world = World()
    world.refused_topics = {"words"}
    answer = world.ask("a", 0, rebalance_timeout_ms=1, topology=COUNTING, process_id="p", **owned({}))
    assert [(status.code, status.detail) for status in answer.statuses] == [
        (3, "Internal topics are missing: words; Creation failed: words (no such setting).")
    ]
    assert world.state == "NotReady"
    world.refused_topics = set()
    assert world.beat("a", answer.member_epoch) == Told(3, "0:0.1.2.3/1:0.1.2.3;")


def test_deleted_internal_topic_is_recreated() -> None:
    world = World()
    world.join("a", of=COUNTING)
    world.topics.delete("counts")
    assert world.beat("a", 2) == Told(3, None)
    assert world.topics.find("counts") is not None
    assert world.state == "Stable"


def test_incorrectly_partitioned() -> None:
    world = World(topics=KnownTopics(t=4, counts=3))
    answer = world.ask("a", 0, rebalance_timeout_ms=1, topology=COUNTING, process_id="p", **owned({}))
    detail = "Existing topic counts has different number of partitions: expected 4, found 3"
    assert [(status.code, status.detail) for status in answer.statuses] == [(2, detail)]


def test_epochs() -> None:
    world = World()
    two(world)
    assert world.refused("a", 4)[0] == FENCED
    assert world.refused("a", 1)[0] == FENCED
    assert world.refused("a", 2)[0] == FENCED, "it does not say what it owns"
    assert world.refused("a", 2, **owned({"0": [0, 1, 2]}))[0] == FENCED
    assert world.beat("a", 2, {"0": [0]}) == Told(3, None)
    assert world.join("a") == Told(3, "0:0.1;")
    assert world.refused("c", 3) == (UNKNOWN, "Member c is not a member of group app.")
    assert world.refused("c", -1)[0] == UNKNOWN
    assert world.group.image.epoch == 3


def test_member_that_lost_a_response_must_rejoin() -> None:
    world = World()
    two(world)
    world.leave("b")
    assert world.beat("a", 3) == Told(4, "0:0.1.2.3;"), "which it never hears"
    assert world.beat("a", 3, {"0": [0, 1]}) == Told(4, None)
    assert world.beat("a", 4, {"0": [0, 1]}) == Told(4, None)
    assert world.join("a") == Told(4, "0:0.1.2.3;")
    assert world.beat("a", 4, {"0": [0, 1, 2, 3]}) == Told(4, None)


def test_owned_tasks_must_exist() -> None:
    world = World()
    world.join("a")
    assert world.refused("a", 2, **owned({"7": [0]})) == (INVALID, "Subtopology 7 does not exist in the topology.")
    text = "Task 4 for subtopology 0 is invalid. Number of tasks for this subtopology: 4"
    assert world.refused("a", 2, **owned({"0": [4]})) == (INVALID, text)


def test_changed_topology_is_refused() -> None:
    world = World()
    world.join("a", of=topology(subtopology("0", ["t"]), epoch=1))
    assert world.join("b", of=READING) == Told(3, ";", (0,))
    fields = {"rebalance_timeout_ms": 1, "process_id": "p", **owned({})}
    for other in (topology(subtopology("0", ["t"]), epoch=2), topology(subtopology("0", ["u"]), epoch=1)):
        assert world.refused("c", 0, topology=other, **fields) == (INVALID, "Topology updates are not supported yet.")
    assert world.group.image.members.keys() == {"a", "b"}


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"rebalance_timeout_ms": -1}, "RebalanceTimeoutMs must be provided in first request."),
        ({"active_tasks": None}, "ActiveTasks must be empty when (re-)joining."),
        ({"topology": None}, "Topology must be non-null when (re-)joining."),
        ({"instance_id": "one"}, "Static membership is not yet supported."),
        ({"member_id": ""}, "MemberId can't be empty."),
        ({"group_id": ""}, "GroupId can't be empty."),
        ({"rack_id": ""}, "RackId can't be empty."),
        ({"task_offsets": []}, "TaskOffsets are not supported yet."),
        ({"warmup_tasks": [k88.TaskIds(subtopology_id="0", partitions=[0])]}, "WarmupTasks are not supported yet."),
        (
            {"topology": topology(subtopology("0", source_topic_regex=["t.*"]))},
            "Regular expressions for source topics are not supported yet.",
        ),
        ({"member_epoch": -2}, "InstanceId can't be null."),
        ({"member_epoch": -3}, "MemberEpoch is -3, but must be greater than or equal to -2."),
        ({"member_epoch": 1, "standby_tasks": None}, "If one task-type is non-null, all must be non-null."),
        ({"member_epoch": 1}, "Topology can only be provided when (re-)joining."),
    ],
)
def test_refused_requests(said: dict[str, object], message: str) -> None:
    known = {"member_id": "a", "member_epoch": 0, "rebalance_timeout_ms": 1, "topology": READING, **owned({})}
    request = known | said
    member_id, epoch = request.pop("member_id"), request.pop("member_epoch")
    assert isinstance(member_id, str)
    assert isinstance(epoch, int)
    assert World().refused(member_id, epoch, **request) == (INVALID, message)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            subtopology("0", ["__consumer_offsets"]),
            "Use of Kafka internal topics __consumer_offsets in a Kafka Streams topology is prohibited.",
        ),
        (subtopology("0", ["t"], repartition_sink_topics=["a/b", ""]), "Topic names a/b, are not valid topic names."),
        (
            subtopology("0", ["t"], state_changelog_topics=[topic("counts", 3)]),
            "Changelog topic counts must have an undefined partition count, but it is set to 3.",
        ),
        (
            subtopology("0", ["t"], repartition_sink_topics=["never read"[:5]], repartition_source_topics=[topic("unwritten")]),
            f"{NO_NUMBER}, because a repartition source topic is never used as a sink topic.",
        ),
        (
            subtopology("0", repartition_sink_topics=["loop"], repartition_source_topics=[topic("loop")]),
            f"{NO_NUMBER}. There may be loops in the topology that cannot be resolved.",
        ),
    ],
)
def test_invalid_topologies_are_refused(wrong: k88.Subtopology, message: str) -> None:
    world = World()
    assert world.refused("a", 0, rebalance_timeout_ms=1, topology=topology(wrong), process_id="p", **owned({})) == (TOPOLOGY, message)
    assert world.stored == []


def test_invalid_copartition_groups_are_refused() -> None:
    lie = k88.CopartitionGroup(source_topics=[1], source_topic_regex=[], repartition_source_topics=[])
    wrong = topology(subtopology("0", ["t"], copartition_groups=[lie]))
    assert World().refused("a", 0, rebalance_timeout_ms=1, topology=wrong, process_id="p", **owned({}))[0] == TOPOLOGY


def test_full_group_rejects_new_members() -> None:
    world = World(limits=AT_ONCE._replace(max_size=1))
    world.join("a")
    fields = {"rebalance_timeout_ms": 1, "topology": READING, "process_id": "p", **owned({})}
    assert world.refused("b", 0, **fields) == (FULL, "The streams group has reached its maximum capacity of 1 members.")
    assert world.join("a") == Told(2, "0:0.1.2.3;")


def test_initial_delay() -> None:
    world = World(limits=AT_ONCE._replace(initial_rebalance_delay_ms=3_000))
    assert world.join("a") == Told(1, ";", (5,))
    assert world.join("b") == Told(1, ";", (5,))
    assert world.state == "Assigning"
    world.let_pass(2_999)
    assert world.beat("a", 1) == Told(1, None, (5,))
    world.let_pass(1)
    assert world.beat("a", 1) == Told(3, "0:0.2;")
    assert world.beat("b", 1) == Told(3, "0:1.3;")


def test_assignment_interval() -> None:
    world = World(limits=AT_ONCE._replace(assignment_interval_ms=1_000))
    assert world.join("a") == Told(2, "0:0.1.2.3;")
    assert world.join("b") == Told(2, ";", (5,))
    world.let_pass(1_000)
    assert world.beat("b", 2) == Told(3, None)
    assert world.beat("a", 2) == Told(2, "0:0.1;")


def test_session_and_revocation_timeouts() -> None:
    world = World()
    two(world)
    world.let_pass(SESSION_MS - 1)
    world.beat("a", 3)
    world.let_pass(1)
    assert world.group.image.members.keys() == {"a"}
    assert world.beat("a", 3) == Told(4, "0:0.1.2.3;")
    world.join("b")
    world.beat("a", 4)
    world.let_pass(REBALANCE_MS // 2)
    assert world.beat("a", 4) == Told(4, None), "it does not say that it gave anything up"
    assert world.beat("b", 5) == Told(5, None)
    world.let_pass(REBALANCE_MS // 2)
    assert world.group.image.members.keys() == {"b"}
    assert world.beat("b", 5) == Told(6, "0:0.1.2.3;")


def test_timeouts_restart_after_a_broker_restart() -> None:
    world = World()
    two(world)
    world.restart()
    assert world.state == "Stable"
    assert world.beat("a", 3) == Told(3, None)
    world.let_pass(SESSION_MS)
    assert world.state == "Empty"
    world.restart()
    assert world.state == "Empty"


def test_shutdown_is_sent_to_all_members() -> None:
    world = World()
    two(world)
    assert world.beat("b", 3, shutdown_application=True) == Told(3, None, (4,))
    answer = world.ask("a", 3)
    text = "Streams group member b encountered a fatal error and requested a shutdown for the entire application."
    assert [status.detail for status in answer.statuses] == [text]
    world.leave("b")
    assert 4 in world.beat("a", 3).codes
    world.leave("a")
    assert world.join("a").codes == ()


def test_endpoints_are_sent_when_they_change() -> None:
    world = World()
    here = k88.Endpoint(host="h", port=1)
    fields = {"rebalance_timeout_ms": 1, "topology": READING, "process_id": "p", "user_endpoint": here, **owned({})}
    first = world.ask("a", 0, **fields)
    assert (first.endpoint_epoch, first.located) == (0, ((("h", 1), (("t", (0, 1, 2, 3)),), ()),))
    again = world.ask("a", 2, endpoint_information_epoch=0)
    assert (again.endpoint_epoch, again.located) == (0, None)
    world.join("b")
    less = world.ask("a", 2, endpoint_information_epoch=0)
    assert (less.endpoint_epoch, less.located) == (1, ((("h", 1), (("t", (0, 1)),), ()),))
    assert world.ask("b", 3, endpoint_information_epoch=0).located == less.located, "who has none is told, too"
    assert world.ask("a", 2, endpoint_information_epoch=1).located is None


def test_failed_write_changes_nothing() -> None:
    world = World()
    two(world)
    before = world.replayed().members
    world.fails = True
    with pytest.raises(NotCoordinator):
        world.leave("b")
    with pytest.raises(NotCoordinator):
        world.join("c")
    world.let_pass(SESSION_MS)
    world.fails = False
    assert world.group.image.members == before
    world.let_pass(SESSION_MS)
    assert world.state == "Empty"


def test_offset_commit_is_checked_by_member_and_epoch() -> None:
    world = World()
    two(world)
    t = UUID(int=1)
    check = world.group.check_offset_commit
    assert check(Membership(3, "b"))(t, 0) is None
    with pytest.raises(StaleMemberEpoch):
        check(Membership(4, "b"))
    with pytest.raises(UnknownMemberId):
        check(Membership(3, "c"))
    with pytest.raises(UnknownMemberId):
        check(Membership())
    with pytest.raises(UnsupportedVersion):
        check(Membership(3, "b"), has_member_epoch=False)
    assert check(Membership(), is_transactional=True)(t, 0) is None
    older = check(Membership(2, "a"))
    assert older(t, 1) is None, "its own since epoch 2"
    assert isinstance(older(t, 2), StaleMemberEpoch)
    assert isinstance(older(UUID(int=9), 0), StaleMemberEpoch)
    assert isinstance(check(Membership(2, "b"))(t, 2), StaleMemberEpoch)
    world.leave("a")
    world.leave("b")
    assert check(Membership())(t, 0) is None


def test_offset_fetch_and_group_deletion_are_checked() -> None:
    world = World()
    two(world)
    group = world.group
    group.check_offset_fetch(None, -1)
    group.check_offset_fetch("a", 3)
    with pytest.raises(StaleMemberEpoch):
        group.check_offset_fetch("a", 2)
    with pytest.raises(UnknownMemberId):
        group.check_offset_fetch("c", 3)
    with pytest.raises(NonEmptyGroup):
        group.check_delete()
    assert group.is_subscribed("t")
    assert not group.is_subscribed("u")
    world.leave("a")
    world.leave("b")
    group.check_delete()
    assert not group.is_subscribed("t")
    names = [type(record.key).__name__ for record in group.tombstones()]
    assert names == ["StreamsGroupTargetAssignmentMetadataKey", "StreamsGroupMetadataKey", "StreamsGroupTopologyKey"]


def test_limits_are_read_when_used() -> None:
    world = World()
    world.join("a")
    world.limits = StreamsGroupLimits(session_timeout_ms=10, heartbeat_interval_ms=3, assignment_interval_ms=0)
    assert world.ask("a", 2).heartbeat_interval_ms == 3
    world.let_pass(10)
    assert world.state == "Empty"
