"""Random consumers of both protocols in one group, which goes up and down between the kinds while they join, leave, crash and come back,
and the clock jumps.

Whatever happens: no partition is with two consumers, in what they believe; a consumer is told only what it subscribed to; the generation of
the group, or its epoch, never goes back while somebody is in it. When the trouble is over every partition that somebody wants is with one
who wants it, whatever kind of group that is. The broker is a whole one, so that what a restart reads from the log is judged, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from minibroker.coordinator.group.classic.consumer_protocol import read_assignment, read_subscription
from minibroker.coordinator.group.classic.group import ClassicGroup
from minibroker.coordinator.group.classic.requests import Join, JoinAnswer, Leave, Protocol, Sync, SyncAnswer
from minibroker.coordinator.group.consumer.group import ConsumerGroup
from minibroker.coordinator.group.consumer.requests import ConsumerHeartbeat, ConsumerHeartbeatAnswer
from minibroker.errors import (
    FencedInstanceId,
    FencedMemberEpoch,
    GroupIdNotFound,
    IllegalGeneration,
    KafkaError,
    MemberIdRequired,
    NotCoordinator,
    RebalanceInProgress,
    UnknownMemberId,
    UnreleasedInstanceId,
)
from minibroker.schemas.internal.consumer_protocol import ConsumerProtocolSubscription
from minibroker.wire.codec import encode
from tests.golden.migration_members import assigned, parts
from tests.support.broker_in_memory import BrokerInMemory
from tests.support.committed_offsets import groups_of
from tests.support.soak import examples

GROUP = "readers"
COUNTS = {"a": 3, "b": 2}
SESSION_MS = 10_000
REBALANCE_MS = 6_000
HEARTBEAT_MS = 1_000
CLIENTS = 4

Partition = tuple[str, int]


class Consumer:
    """A client, of either protocol in one life or the other."""

    def __init__(self, model: Model, index: int) -> None:
        self.model, self.index = model, index
        self.instance = f"i{index}" if index % 2 else None
        self.topics: tuple[str, ...] = ("a",)
        self.is_running = self.is_new = self.is_paused = False
        self.life = 0
        self._forget()

    def _forget(self) -> None:
        self.life += 1
        self.member_id = f"c{self.index}-{self.life}" if self.is_new else ""
        self.epoch = 0 if self.is_new else -1
        self.owned: set[Partition] = set()
        self.told: set[Partition] = set()
        self.does_wait = self.must_join = False

    @property
    def believes(self) -> set[Partition]:
        return self.owned

    def start(self, *, is_new: bool) -> None:
        if not self.is_running:
            self.is_running, self.is_paused, self.is_new = True, False, is_new
            self._forget()
            self.must_join = not is_new

    def crash(self) -> None:
        self.is_running = False
        self._forget()

    def stop(self) -> None:
        if self.is_running and self.is_new and self.epoch > 0:
            self.model.heartbeat(ConsumerHeartbeat(self.member_id, -1 if self.instance is None else -2, instance_id=self.instance))
        elif self.is_running and not self.is_new and self.member_id and self.instance is None:
            self.model.groups.classic.leave(GROUP, [Leave(self.member_id)], lambda _: None)
        self.crash()

    def beat(self) -> None:
        if not self.is_running or self.is_paused:
            return
        if self.is_new:
            self._beat_new()
        elif self.must_join:
            self._join()
        elif not self.does_wait and self.epoch >= 0:
            self._beat_classic()

    # The new protocol

    def _beat_new(self) -> None:
        self.owned &= self.told
        requested = ConsumerHeartbeat(
            self.member_id,
            self.epoch,
            instance_id=self.instance,
            rebalance_timeout_ms=REBALANCE_MS,
            topic_names=self.topics,
            owned=self.model.by_id(self.owned),
        )
        answer = self.model.heartbeat(requested)
        if isinstance(answer, UnknownMemberId | FencedMemberEpoch | FencedInstanceId | GroupIdNotFound):
            self._forget()
        elif isinstance(answer, ConsumerHeartbeatAnswer):
            assert answer.member_epoch >= self.epoch
            self.epoch = answer.member_epoch
            if answer.assignment is not None:
                self.told = self.model.by_name(answer.assignment)
                self.owned |= self.told
            assert {topic for topic, _ in self.told} <= set(self.topics)
        else:
            assert isinstance(answer, UnreleasedInstanceId), answer

    # The classic one

    def _beat_classic(self) -> None:
        try:
            self.model.groups.classic.heartbeat(GROUP, self.member_id, self.instance, self.epoch)
        except KafkaError as error:
            self._refused(type(error))

    def _refused(self, error: type[KafkaError]) -> None:
        self.must_join = True
        if error in {RebalanceInProgress, NotCoordinator}:
            return
        assert error in {UnknownMemberId, IllegalGeneration, FencedInstanceId}, error
        member_id = self.member_id
        self._forget()
        self.must_join = True
        self.member_id = member_id if error is IllegalGeneration else ""

    def _join(self) -> None:
        if not self.model.is_cooperative:
            self.owned = set()
        result = ConsumerProtocolSubscription(
            topics=list(self.topics), owned_partitions=parts(by_topic(self.owned)), generation_id=self.epoch
        )
        join = Join(
            client_id=f"c{self.index}",
            client_host="",
            protocol_type="consumer",
            protocols=(Protocol("assignor", self.model.encoded(result)),),
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=self.member_id,
            group_instance_id=self.instance,
        )
        self.must_join, self.does_wait = False, True
        self.model.groups.classic.join(GROUP, join, self._of_this_life(self._joined))
        self.model.broker.clock.advance(0)

    def _of_this_life(self, act: Callable[[Any], None]) -> Callable[[Any], None]:
        life = self.life
        return lambda answer: act(answer) if life == self.life and self.is_running else None

    def _joined(self, answer: JoinAnswer) -> None:
        self.does_wait = False
        if answer.error is MemberIdRequired:
            self.member_id, self.must_join = answer.member_id, True
        elif answer.error is not None:
            self._refused(answer.error)
        else:
            self.member_id, self.epoch = answer.member_id, answer.generation_id
            given = self.model.assign(answer) if answer.leader == answer.member_id and not answer.skip_assignment else {}
            sync = Sync(self.member_id, self.epoch, self.instance, "consumer", "assignor", list(given.items()))
            self.does_wait = True
            self.model.groups.classic.sync(GROUP, sync, self._of_this_life(self._synced))

    def _synced(self, answer: SyncAnswer) -> None:
        self.does_wait = False
        if answer.error is not None:
            self._refused(answer.error)
            return
        result = read_assignment(answer.assignment).assigned_partitions if answer.assignment else []
        given = {(each.topic, index) for each in result for index in each.partitions}
        assert {topic for topic, _ in given} <= set(self.topics)
        self.must_join = self.model.is_cooperative and not self.owned <= given
        self.owned = given


def by_topic(partitions: set[Partition]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for topic, index in sorted(partitions):
        found.setdefault(topic, []).append(index)
    return found


class Model:
    """The group, its consumers, and what was seen of it."""

    def __init__(self, *, is_cooperative: bool) -> None:
        self.is_cooperative = is_cooperative
        config = {
            "offsets.topic.num.partitions": "1",
            "group.consumer.assignment.interval.ms": "0",
            "group.consumer.session.timeout.ms": str(SESSION_MS),
            "group.consumer.min.session.timeout.ms": "1000",
            "group.min.session.timeout.ms": "1000",
        }
        self.broker = BrokerInMemory(topics=COUNTS, config=config)
        self.groups = groups_of(self.broker)
        self.consumers = [Consumer(self, index) for index in range(CLIENTS)]
        self.number = 0
        self.kinds: set[type] = set()

    def encoded(self, said: ConsumerProtocolSubscription) -> bytes:
        return b"\0\3" + bytes(encode(said, 3, flexible=False))

    def heartbeat(self, asked: ConsumerHeartbeat) -> ConsumerHeartbeatAnswer | KafkaError:
        answers: list[ConsumerHeartbeatAnswer | KafkaError] = []
        self.groups.consumer.heartbeat(GROUP, asked, answers.append)
        return answers[0]

    def by_id(self, partitions: set[Partition]) -> dict[UUID, frozenset[int]]:
        topics = self.broker.cluster.topics
        return {topics[topic].topic_id: frozenset(indexes) for topic, indexes in by_topic(partitions).items()}

    def by_name(self, assignment: Mapping[UUID, frozenset[int]]) -> set[Partition]:
        names = {topic.topic_id: name for name, topic in self.broker.cluster.topics.items()}
        return {(names[topic_id], index) for topic_id, indexes in assignment.items() for index in indexes}

    def assign(self, answer: JoinAnswer) -> dict[str, bytes]:
        """What a leader says: everything to those who want it, in turn; cooperative ones wait for what others still have."""
        subscriptions = {each.member_id: read_subscription(each.metadata) for each in answer.members}
        owners = {
            (own.topic, index): member_id
            for member_id, each in subscriptions.items()
            for own in each.owned_partitions
            for index in own.partitions
        }
        given: dict[str, set[Partition]] = {member_id: set() for member_id in subscriptions}
        for number, partition in enumerate((topic, index) for topic, count in COUNTS.items() for index in range(count)):
            wanting = sorted(member_id for member_id, each in subscriptions.items() if partition[0] in each.topics)
            if wanting:
                member_id = wanting[number % len(wanting)]
                if owners.get(partition, member_id) == member_id:
                    given[member_id].add(partition)
        return {member_id: assigned(by_topic(partitions)) for member_id, partitions in given.items()}

    def let_pass(self, heartbeats: int) -> None:
        for _ in range(heartbeats):
            for consumer in self.consumers:
                consumer.beat()
                self.check()
            before = self.member_ids()
            self.broker.clock.advance(HEARTBEAT_MS)
            for member_id in before - self.member_ids():
                for consumer in self.consumers:
                    if consumer.member_id == member_id:
                        consumer.owned.clear()  # its own timer ran as long as the broker's
                        consumer.told.clear()
            self.check()

    @property
    def group(self) -> Any:
        return self.groups.live.find(self.groups.live.shard_of(GROUP), GROUP)

    def member_ids(self) -> set[str]:
        group = self.group
        if group is None:
            return set()
        return set(group.image.members) if isinstance(group, ConsumerGroup) else {member.member_id for member in group.members}

    def check(self) -> None:
        believed = [partition for consumer in self.consumers for partition in consumer.believes]
        assert len(believed) == len(set(believed)), "owned twice"
        group = self.group
        number = 0
        if isinstance(group, ClassicGroup) and len(group.members):
            number = group.generation_id
        elif isinstance(group, ConsumerGroup) and not group.is_empty:
            number = group.image.epoch
        assert number >= self.number or not number
        self.number = number
        self.kinds.add(type(group))

    def restart(self) -> None:
        self.broker = self.broker.restart()
        self.groups = groups_of(self.broker)
        for consumer in self.consumers:
            if consumer.does_wait:
                consumer.does_wait, consumer.must_join = False, True
        self.check()

    def settle(self) -> None:
        for consumer in self.consumers:
            consumer.is_paused = False
        self.let_pass(2 * SESSION_MS // HEARTBEAT_MS + 30)
        running = [consumer for consumer in self.consumers if consumer.is_running]
        expected = {(topic, index) for consumer in running for topic in consumer.topics for index in range(COUNTS[topic])}
        assert {partition for consumer in running for partition in consumer.owned} == expected
        state = self.group.state.value if self.group is not None else "Empty"
        assert state == ("Stable" if running else "Empty")


which = st.integers(0, CLIENTS - 1)
STEPS = st.one_of(
    st.tuples(st.sampled_from(["new", "classic", "new", "classic", "stop", "crash", "pause", "go on"]), which),
    st.tuples(st.just("subscribe"), which, st.sampled_from([("a",), ("b",), ("a", "b")])),
    st.tuples(st.just("pass"), st.integers(1, 8)),
    st.tuples(st.just("pass"), st.integers(8, 20)),
    st.tuples(st.just("jump"), st.sampled_from([-86_400_000, 86_400_000])),
    st.tuples(st.sampled_from(["restart", *(["nothing"] * 4)])),
)


def take(model: Model, step: tuple[Any, ...]) -> None:
    kind, *rest = step
    if kind in {"new", "classic"}:
        model.consumers[rest[0]].start(is_new=kind == "new")
    elif kind in {"stop", "crash"}:
        getattr(model.consumers[rest[0]], kind)()
    elif kind in {"pause", "go on"}:
        model.consumers[rest[0]].is_paused = kind == "pause"
    elif kind == "subscribe":
        consumer = model.consumers[rest[0]]
        consumer.topics = rest[1]
        consumer.must_join = consumer.is_running and not consumer.is_new and not consumer.does_wait
    elif kind == "pass":
        model.let_pass(rest[0])
    elif kind == "jump":
        model.broker.clock.jump(rest[0])
    elif kind == "restart":
        model.restart()
    model.check()


@examples(25)
@given(st.booleans(), st.lists(STEPS, min_size=8, max_size=40))
def test_random_steps_of_mixed_members(is_cooperative: bool, steps: list[tuple[Any, ...]]) -> None:
    model = Model(is_cooperative=is_cooperative)
    model.consumers[0].start(is_new=False)
    model.consumers[1].start(is_new=False)
    model.let_pass(3)
    model.consumers[2].start(is_new=True)
    model.let_pass(1)
    assert model.kinds >= {ClassicGroup, ConsumerGroup}
    for step in steps:
        take(model, step)
    model.settle()
