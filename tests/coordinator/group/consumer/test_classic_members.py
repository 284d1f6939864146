"""What the scenes (test_golden_migrations.py) do not show of classic members in consumer groups: what fails, restarts, old requests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

import pytest

from minibroker.coordinator.group.classic.consumer_protocol import read_assignment
from minibroker.coordinator.group.classic.requests import Join, JoinAnswer, Leave, Protocol, Sync, SyncAnswer
from minibroker.coordinator.group.consumer.group import ConsumerGroup
from minibroker.coordinator.group.consumer.requests import ConsumerHeartbeat, ConsumerHeartbeatAnswer
from minibroker.coordinator.group.kind import Membership
from minibroker.errors import IllegalGeneration, KafkaError, NotCoordinator, RebalanceInProgress, UnknownMemberId
from minibroker.records.any_format import split_batches
from minibroker.schemas import k37_create_partitions as k37
from minibroker.schemas.internal.consumer_protocol import ConsumerProtocolSubscription
from minibroker.wire.codec import encode
from tests.golden.migration_members import assigned, parts
from tests.support.broker_in_memory import BrokerInMemory
from tests.support.committed_offsets import TOPIC, groups_of

GROUP = "readers"
SESSION_MS = 10_000
REBALANCE_MS = 5_000
CONFIG = {"offsets.topic.num.partitions": "1", "group.consumer.assignment.interval.ms": "0", "group.min.session.timeout.ms": "1000"}


class World:
    """A broker, and a group of members by hand."""

    def __init__(self, **config: str) -> None:
        self.broker = BrokerInMemory(topics={"t": 4, "u": 2}, config=CONFIG | {key.replace("_", "."): each for key, each in config.items()})
        self.groups = groups_of(self.broker)

    def restart(self, *, clean: bool) -> None:
        self.broker = self.broker.restart(clean=clean)
        self.groups = groups_of(self.broker)

    @property
    def group(self) -> Any:
        return self.groups.live.find(self.groups.live.shard_of(GROUP), GROUP)

    @property
    def records(self) -> int:
        return self.broker.cluster.partition(TOPIC, 0).log.log_end_offset

    def partitions(self, assignment: Mapping[UUID, frozenset[int]] | None) -> dict[str, list[int]] | None:
        names = {topic.topic_id: name for name, topic in self.broker.cluster.topics.items()}
        return None if assignment is None else {names[topic_id]: sorted(each) for topic_id, each in assignment.items()}

    def beat(self, member_id: str, epoch: int, owned: Mapping[str, list[int]] | None = None, **said: Any) -> tuple[int, Any] | str:
        topics = self.broker.cluster.topics
        own = None if owned is None else {topics[topic].topic_id: frozenset(indexes) for topic, indexes in owned.items()}
        joining: dict[str, Any] = {"rebalance_timeout_ms": REBALANCE_MS, "topic_names": ("t",)} if epoch == 0 else {}
        results: list[ConsumerHeartbeatAnswer | KafkaError] = []
        self.groups.consumer.heartbeat(GROUP, ConsumerHeartbeat(member_id, epoch, owned=own, **joining, **said), results.append)
        answer = results[0]
        return answer.name if isinstance(answer, KafkaError) else (answer.member_epoch, self.partitions(answer.assignment))

    def begin_join(
        self, member_id: str = "", *, owned: Mapping[str, list[int]] | None = None, topics: tuple[str, ...] = ("t",), **said: Any
    ) -> list[JoinAnswer]:
        metadata = ConsumerProtocolSubscription(topics=list(topics), owned_partitions=parts(owned or {}))
        known: dict[str, Any] = {
            "client_id": "old",
            "client_host": "",
            "protocol_type": "consumer",
            "protocols": (Protocol("range", b"\0\1" + bytes(encode(metadata, 1, flexible=False))),),
            "session_timeout_ms": SESSION_MS,
            "rebalance_timeout_ms": REBALANCE_MS,
            "requires_known_member_id": False,
        }
        answers: list[JoinAnswer] = []
        self.groups.classic.join(GROUP, Join(**(known | {"member_id": member_id} | said)), answers.append)
        self.broker.clock.advance(0)
        return answers

    def join(self, member_id: str = "", **said: Any) -> JoinAnswer:
        (answer,) = self.begin_join(member_id, **said)
        return answer

    def sync(self, member_id: str, generation_id: int, assignments: Mapping[str, bytes] | None = None) -> dict[str, list[int]] | str:
        answers: list[SyncAnswer] = []
        self.groups.classic.sync(
            GROUP, Sync(member_id, generation_id, None, "consumer", "range", list((assignments or {}).items())), answers.append
        )
        (answer,) = answers
        if answer.error is not None:
            return answer.error.name
        return {each.topic: list(each.partitions) for each in read_assignment(answer.assignment).assigned_partitions}

    def classic(self) -> str:
        """A classic member that has all of `t`."""
        member_id = self.join().member_id
        assert self.sync(member_id, 1, {member_id: assigned({"t": range(4)})}) == {"t": [0, 1, 2, 3]}
        return member_id

    def upgraded(self) -> str:
        """The same with a new member beside it, settled: the classic one has 0 and 1 in epoch 2."""
        member_id = self.classic()
        assert self.beat("new", 0, {}) == (2, {})
        assert self.join(member_id).generation_id == 2
        assert self.sync(member_id, 2) == {"t": [0, 1]}
        assert self.beat("new", 2, {}) == (2, {"t": [2, 3]})
        return member_id

    def heartbeat(self, member_id: str, generation_id: int) -> str:
        try:
            self.groups.classic.heartbeat(GROUP, member_id, None, generation_id)
        except KafkaError as error:
            return error.name
        return "OK"

    def let_pass(self, milliseconds: int) -> None:
        self.broker.clock.advance(milliseconds)


def failing(world: World, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The log takes nothing until the context ends."""

    def fails(*_: Any, **__: Any) -> None:
        raise NotCoordinator

    context = monkeypatch.context()
    entered = context.__enter__()
    entered.setattr(type(world.groups.live.shard_of(GROUP)), "append", fails)
    return context


def test_failed_upgrade_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    old = world.classic()
    waiting = world.begin_join()
    before = world.records
    context = failing(world, monkeypatch)
    assert world.beat("new", 0, {}) == "NOT_COORDINATOR"
    context.__exit__(None, None, None)
    assert (world.records, waiting, world.group.state.value) == (before, [], "PreparingRebalance")
    assert world.heartbeat(old, 1) == "REBALANCE_IN_PROGRESS"
    assert world.join(old).generation_id == 2
    assert waiting[0].error is None
    assert world.beat("new", 0, {}) == (3, {})


def test_upgrade_is_written_as_one_batch() -> None:
    world = World()
    world.classic()
    log = world.broker.cluster.partition(TOPIC, 0).log
    before = log.log_end_offset
    world.beat("new", 0, {})
    (batch,) = split_batches(log.read(before, 1 << 20, isolation=None))
    assert batch.record_count == 12  # the end of the classic group, what it becomes, what the new member changes
    assert isinstance(world.group, ConsumerGroup)


def test_refused_upgrade_changes_nothing() -> None:
    world = World(group_consumer_max_size="1")
    old = world.classic()
    assert world.beat("new", 0, {}) == "GROUP_MAX_SIZE_REACHED"
    assert world.heartbeat(old, 1) == "OK"
    assert world.group.state.value == "Stable"


def test_failed_downgrade_is_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    old = world.upgraded()
    context = failing(world, monkeypatch)
    for _ in range(5):
        world.let_pass(9_000)
        assert world.heartbeat(old, 2) == "OK"
    assert set(world.group.image.members) == {old, "new"}  # its session is over, which nobody could store
    context.__exit__(None, None, None)
    while world.heartbeat(old, 2) == "OK":
        world.let_pass(9_000)
    assert (world.group.state.value, world.group.generation_id) == ("PreparingRebalance", 2)


@pytest.mark.parametrize("clean", [True, False])
def test_classic_members_survive_a_restart(clean: bool) -> None:
    world = World()
    old = world.upgraded()
    world.restart(clean=clean)
    assert world.heartbeat(old, 2) == "OK"
    assert world.sync(old, 2) == {"t": [0, 1]}
    assert world.beat("new", 2, {"t": [2, 3]}) == (2, None)
    for _ in range(2):
        world.let_pass(SESSION_MS - 1)
        assert world.heartbeat(old, 2) == "OK"
    assert world.beat("new", -1) == (-1, None)
    world.restart(clean=clean)
    assert world.heartbeat(old, 2) == "REBALANCE_IN_PROGRESS"  # else nobody would have what the new member had
    assert world.join(old).generation_id == 3
    assert world.sync(old, 3, {old: assigned({"t": range(4)})}) == {"t": [0, 1, 2, 3]}
    world.restart(clean=clean)
    assert world.heartbeat(old, 3) == "OK"


def test_remaining_classic_members_get_unassigned_partitions() -> None:
    """They may not be downgraded, and no new member is there whose heartbeats would make a new target."""
    world = World(group_consumer_migration_policy="upgrade")
    old = world.upgraded()
    assert world.beat("new", -1) == (-1, None)
    assert world.heartbeat(old, 2) == "REBALANCE_IN_PROGRESS"
    assert world.join(old).generation_id == 3
    assert world.sync(old, 3) == {"t": [0, 1, 2, 3]}
    assert world.heartbeat(old, 3) == "OK"
    world.broker.cluster.create_topic("v", partition_count=1)
    assert world.heartbeat(old, 3) == "OK"
    world.broker.ask(k37.Request(topics=[k37.Topic(name="t", count=6, assignments=None)], timeout_ms=1000, validate_only=False))
    assert world.heartbeat(old, 3) == "REBALANCE_IN_PROGRESS"
    assert world.join(old).generation_id == 4
    assert world.sync(old, 4) == {"t": [0, 1, 2, 3, 4, 5]}


def test_heartbeats_do_not_extend_the_rebalance_timeout() -> None:
    world = World()
    old = world.classic()
    world.beat("new", 0, {})
    for _ in range(5):
        assert world.heartbeat(old, 1) == "REBALANCE_IN_PROGRESS"
        world.let_pass(REBALANCE_MS // 5)
    assert world.heartbeat(old, 1) == "UNKNOWN_MEMBER_ID"


def test_rejoined_member_is_not_removed() -> None:
    world = World()
    old = world.upgraded()
    assert world.beat("third", 0, {}) == (3, {})
    assert world.heartbeat(old, 2) == "REBALANCE_IN_PROGRESS"
    assert world.join(old).generation_id == 3
    assert world.sync(old, 3) != {}
    for _ in range(4):
        world.let_pass(REBALANCE_MS // 2)
        assert world.heartbeat(old, 3) == "OK"


def test_unsubscribed_partitions_are_revoked_before_the_next_target() -> None:
    world = World(group_consumer_assignment_interval_ms="15000")
    old = world.classic()
    world.beat("new", 0, {})
    assert world.join(old).generation_id == 2
    assert world.sync(old, 2) == {"t": [0, 1]}
    assert world.join(old, topics=("u",), owned={"t": [0, 1]}).generation_id == 2
    assert world.sync(old, 2) == {}
    assert world.heartbeat(old, 2) == "REBALANCE_IN_PROGRESS"
    assert world.join(old, topics=("u",)).generation_id == 2
    assert world.heartbeat(old, 2) == "OK"


def test_downgrade_with_unreleased_partitions_rebalances() -> None:
    world = World()
    assert world.beat("new", 0, {}, instance_id="one") == (2, {"t": [0, 1, 2, 3]})
    old = world.join().member_id
    assert world.beat("new", 2, {"t": [0, 1, 2, 3]}, instance_id="one") == (2, {"t": [0, 1]})
    assert world.join(group_instance_id="one").error is None
    assert (world.group.state.value, old in world.group.members) == ("PreparingRebalance", True)


def test_classic_member_has_no_regex() -> None:
    world = World()
    assert world.beat("new", 0, {}, instance_id="one", topic_regex="[tu]") == (2, {"t": [0, 1, 2, 3], "u": [0, 1]})
    world.beat("other", 0, {})
    member_id = world.join(group_instance_id="one").member_id
    assert (world.group.image.members[member_id].subscription, world.group.image.regexes) == ((("t",), ""), {})


def test_member_switching_to_the_consumer_protocol_need_not_rejoin() -> None:
    world = World()
    old = world.classic()
    world.beat("new", 0, {})
    assert world.heartbeat(old, 1) == "REBALANCE_IN_PROGRESS"
    assert world.beat(old, 0, {}) == (2, {"t": [0, 1]})
    for _ in range(3):
        world.let_pass(REBALANCE_MS)
        assert world.beat(old, 2, {"t": [0, 1]}) == (2, None)
        world.beat("new", 2, {"t": [2, 3]})


def test_assignment_interval_applies_to_classic_members() -> None:
    world = World(group_consumer_assignment_interval_ms="5000")
    assert world.beat("new", 0, {}) == (2, {"t": [0, 1, 2, 3]})
    old = world.join()
    assert (old.generation_id, world.sync(old.member_id, 2)) == (2, {})
    assert world.group.state.value == "Assigning"
    assert world.heartbeat(old.member_id, 2) == "OK"
    world.let_pass(5_000)
    assert world.heartbeat(old.member_id, 2) == "OK"  # a new member makes the target
    assert world.beat("new", 2, {"t": [0, 1, 2, 3]}) == (2, {"t": [0, 1]})
    assert world.heartbeat(old.member_id, 2) == "REBALANCE_IN_PROGRESS"


def test_classic_member_has_its_own_session_timeout() -> None:
    world = World()
    old = world.upgraded()
    world.let_pass(SESSION_MS - 1)
    assert world.heartbeat(old, 2) == "OK"
    world.let_pass(SESSION_MS)
    assert world.heartbeat(old, 2) == "UNKNOWN_MEMBER_ID"
    assert world.beat("new", 2, {"t": [2, 3]}) == (3, {"t": [0, 1, 2, 3]})


def test_silent_classic_member_is_removed_after_an_upgrade() -> None:
    world = World()
    old = world.classic()
    world.beat("new", 0, {})
    world.let_pass(SESSION_MS)
    assert world.heartbeat(old, 1) == "UNKNOWN_MEMBER_ID"


def test_classic_member_commits_owned_partitions_with_an_older_generation() -> None:
    world = World()
    old = world.upgraded()
    third = world.join().member_id
    assert world.heartbeat(old, 2) == "REBALANCE_IN_PROGRESS"
    assert world.join(old, owned={"t": [0, 1]}).generation_id == 3
    check = world.group.check_offset_commit(Membership(2, old))
    topic_id = world.broker.cluster.topics["t"].topic_id
    errors = [check(topic_id, index) for index in range(4)]
    assert [type(error) for error in errors] == [type(None), type(None), IllegalGeneration, IllegalGeneration]
    with pytest.raises(IllegalGeneration):
        world.group.check_offset_commit(Membership(4, old))
    with pytest.raises(IllegalGeneration):
        world.group.check_offset_fetch(old, 2)
    assert {old, third, "new"} == set(world.group.image.members)


def test_failed_leave_is_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    old = world.upgraded()
    context = failing(world, monkeypatch)
    with pytest.raises(NotCoordinator):
        world.groups.classic.leave(GROUP, [Leave(old)], lambda _: None)
    context.__exit__(None, None, None)
    left: list[Any] = []
    world.groups.classic.leave(GROUP, [Leave(old), Leave(old), Leave("stranger")], left.extend)
    assert left == [None, None, UnknownMemberId]
    assert set(world.group.image.members) == {"new"}


def test_deleted_topic_is_not_assigned() -> None:
    world = World()
    old = world.upgraded()
    world.broker.cluster.delete_topic("t")
    assert world.sync(old, 2) == {}
    assert world.beat("new", 2, {}) == (3, {})
    assert world.heartbeat(old, 2) == "REBALANCE_IN_PROGRESS"
    assert world.join(old).error is None
    assert world.sync(old, world.group.image.members[old].member_epoch) == {}


def test_abandoned_rebalance_does_not_release_partitions() -> None:
    """Cooperative members read on while they wait for the leader; the upgrade finds them with what they had."""
    world = World()
    old = world.classic()
    waiting = world.begin_join()
    assert world.join(old, owned={"t": [0, 1, 2, 3]}).generation_id == 2
    synced: list[SyncAnswer] = []
    world.groups.classic.sync(GROUP, Sync(waiting[0].member_id, 2), synced.append)
    third = world.begin_join()
    assert synced[0].error is RebalanceInProgress
    assert world.beat("new", 0, {}) == (3, {})
    assert third[0].error is RebalanceInProgress


def test_a_hundred_members_join_and_leave() -> None:
    """Half of them speak the classic protocol; ten go and ten come, again and again; the group is downgraded in the end, and up again."""
    world = World()
    old = [world.join().member_id]
    assert world.sync(old[0], 1, {old[0]: assigned({"t": range(4)})}) != {}
    new = [f"new{index}" for index in range(50)]
    for member_id in new:
        world.beat(member_id, 0, {})
    old += [world.join().member_id for _ in range(49)]
    epoch = world.group.image.epoch
    assert len(world.group.image.members) == 100
    for turn in range(5):
        left: list[Any] = []
        world.groups.classic.leave(GROUP, [Leave(each) for each in (*old[:5], *new[:5])], left.extend)
        assert left == [None] * 10
        old, new = old[5:], new[5:]
        for index in range(5):
            old.append(world.join().member_id)
            new.append(f"new{turn}-{index}")
            world.beat(new[-1], 0, {})
        assert len(world.group.image.members) == 100
        assert world.group.image.epoch == epoch + 11  # ten joins, and all who leave at once
        epoch = world.group.image.epoch
    left = []
    world.groups.classic.leave(GROUP, [Leave(each) for each in new], left.extend)
    assert (world.group.state.value, len(world.group.members), world.group.generation_id) == ("PreparingRebalance", 50, epoch)
    assert world.beat("back", 0, {}) == (epoch + 1, {})
    assert len(world.group.image.members) == 51
