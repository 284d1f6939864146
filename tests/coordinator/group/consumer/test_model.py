"""Random members join, leave, crash, come back, change their minds and are slow, while topics come, grow and go, the log
fails and the clock jumps.

Whatever happens: no partition is with two members, neither in what they were told nor in what the group keeps; a member is told only what
it subscribed to; epochs never go back; what the group is, is what its log says. When the trouble is over the group settles, with every
partition that somebody wants with one who wants it, and then nothing is written any more.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from minibroker.coordinator.group.consumer.requests import ConsumerGroupLimits, ConsumerHeartbeat
from minibroker.coordinator.group.modern import Assignment
from minibroker.errors import FencedInstanceId, FencedMemberEpoch, NotCoordinator, UnknownMemberId, UnreleasedInstanceId
from tests.coordinator.group.consumer.world import World
from tests.coordinator.group.modern_world import KnownTopics, facts
from tests.support.soak import examples

NAMES = ("a1", "a2", "b")
REGEXES = ("", "", "a.*", "b|a1")
SESSION_MS = 10_000
REBALANCE_MS = 4_000
HEARTBEAT_MS = 1_000
CLIENTS = 5

Partition = tuple[UUID, int]


class Consumer:
    """A client. What it was told to give up it gives up at its next heartbeat, or later when it is slow."""

    def __init__(self, model: Model, index: int) -> None:
        self.model, self.index = model, index
        self.instance = f"i{index}" if index % 2 else None
        self.topics: tuple[str, ...] = ("a1",)
        self.regex = ""
        self.assignor: str | None = None
        self.life = 0
        self.is_running = self.is_slow = self.answers_are_lost = False
        self._forget()

    def _forget(self) -> None:
        self.epoch = 0
        self.owned: set[Partition] = set()
        self.told: set[Partition] = set()

    @property
    def member_id(self) -> str:
        return f"c{self.index}-{self.life}"

    def start(self) -> None:
        if not self.is_running:
            self.is_running, self.is_slow, self.life = True, False, self.life + 1
            self._forget()

    def crash(self) -> None:
        self.is_running = False
        self._forget()

    def stop(self) -> None:
        if self.is_running and self.epoch > 0:
            self._ask(-1 if self.instance is None else -2, instance_id=self.instance)
        self.crash()

    def beat(self) -> None:
        """What it must give up is gone when it says so; what it gets is its own when it is told so."""
        if not self.is_running:
            return
        if not self.is_slow:
            self.owned &= self.told
        before = self.epoch
        said = {"topic_names": self.topics, "topic_regex": self.regex, "instance_id": self.instance, "server_assignor": self.assignor}
        answer = self._ask(self.epoch, rebalance_timeout_ms=REBALANCE_MS, owned=grouped(self.owned), **said)
        if answer is None or (self.answers_are_lost and before > 0):
            return
        assert answer.member_epoch >= before or before == 0
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            self.told = {(topic, each) for topic, partitions in answer.assignment.items() for each in partitions}
            self.owned |= self.told
        assert {self.model.world.topics.name_of(topic) for topic, _ in self.told} <= self.model.wanted(self)

    def _ask(self, epoch: int, **said: Any) -> Any:
        try:
            return self.model.world.group.heartbeat(ConsumerHeartbeat(self.member_id, epoch, "client", "", **said))
        except (UnknownMemberId, FencedMemberEpoch, FencedInstanceId):
            self.life += 1
            self._forget()
        except (NotCoordinator, UnreleasedInstanceId):
            pass
        return None


def grouped(partitions: set[Partition]) -> Assignment:
    found: dict[UUID, frozenset[int]] = {}
    for topic, each in partitions:
        found[topic] = found.get(topic, frozenset()) | {each}
    return found


class Model:
    """The group, its consumers, and what was seen of it."""

    def __init__(self, interval_ms: int) -> None:
        limits = ConsumerGroupLimits(session_timeout_ms=SESSION_MS, assignment_interval_ms=interval_ms)
        self.world = World(limits=limits, topics=KnownTopics(a1=3, a2=2))
        self.consumers = [Consumer(self, index) for index in range(CLIENTS)]
        self.epoch = self.assignment_epoch = 0

    def wanted(self, consumer: Consumer) -> set[str]:
        resolved = self.world.group.image.regexes.get(consumer.regex)
        return {*consumer.topics, *(resolved.topics if resolved is not None else ())}

    def let_pass(self, delta_ms: int) -> None:
        """Consumers that run are heard of in time; one that is slow for its whole rebalance time-out gives up by itself."""
        for _ in range(0, delta_ms, HEARTBEAT_MS):
            for consumer in self.consumers:
                consumer.beat()
                self.check()
            members = self.world.group.image.members
            self.world.let_pass(HEARTBEAT_MS)
            for consumer in self.consumers:
                if consumer.member_id in members and consumer.member_id not in self.world.group.image.members:
                    consumer.owned.clear()  # its own timer ran as long as the broker's
            self.check()

    def check(self) -> None:
        image = self.world.group.image
        owned = [partition for consumer in self.consumers for partition in consumer.owned]
        assert len(owned) == len(set(owned)), "owned twice"
        kept = [
            ((topic, each), member.member_id)
            for member in image.members.values()
            for partitions in (member.assigned, member.pending_revocation)
            for topic, epochs in partitions.items()
            for each in epochs
        ]
        assert len(kept) == len(image.owners)
        assert dict(kept) == image.owners
        assert image.epoch >= self.epoch
        assert image.assignment_epoch >= self.assignment_epoch
        assert image.epoch >= image.assignment_epoch
        assert all(member.member_epoch <= image.assignment_epoch for member in image.members.values())
        self.epoch, self.assignment_epoch = image.epoch, image.assignment_epoch

    def check_log(self) -> None:
        replayed, image = self.world.replayed(), self.world.group.image
        assert facts(replayed) == facts(image)

    def settle(self) -> None:
        self.world.fails = False
        for consumer in self.consumers:
            consumer.is_slow = consumer.answers_are_lost = False
        self.let_pass(2 * SESSION_MS + 20 * HEARTBEAT_MS)
        count = len(self.world.stored)
        self.let_pass(3 * HEARTBEAT_MS)
        assert len(self.world.stored) == count
        running = [consumer for consumer in self.consumers if consumer.is_running]
        wanted = {
            (topic.topic_id, each)
            for consumer in running
            for name in self.wanted(consumer)
            if (topic := self.world.topics.find(name)) is not None
            for each in range(topic.partition_count)
        }
        assert {partition for consumer in running for partition in consumer.owned} == wanted
        assert self.world.state == ("Stable" if running else "Empty")
        self.check_log()


which = st.integers(0, CLIENTS - 1)
STEPS = st.one_of(
    st.tuples(st.sampled_from(["start", "start", "stop", "crash", "slow", "lose"]), which),
    st.tuples(
        st.just("subscribe"),
        which,
        st.lists(st.sampled_from(NAMES), max_size=2, unique=True),
        st.sampled_from(REGEXES),
        st.sampled_from([None, "uniform", "range"]),
    ),
    st.tuples(st.just("beat"), which),
    st.tuples(st.just("pass"), st.integers(1, 6)),
    st.tuples(st.just("jump"), st.sampled_from([-86_400_000, 86_400_000])),
    st.tuples(st.sampled_from(["fail", "restart"])),
    st.tuples(st.just("topic"), st.sampled_from(NAMES)),
    st.tuples(st.just("delete"), st.sampled_from(NAMES)),
)


def take(model: Model, step: tuple[Any, ...]) -> None:
    kind, *rest = step
    world = model.world
    if kind in {"start", "stop", "crash", "beat"}:
        getattr(model.consumers[rest[0]], kind)()
    elif kind == "slow":
        model.consumers[rest[0]].is_slow = not model.consumers[rest[0]].is_slow
    elif kind == "lose":
        model.consumers[rest[0]].answers_are_lost = not model.consumers[rest[0]].answers_are_lost
    elif kind == "subscribe":
        consumer = model.consumers[rest[0]]
        consumer.topics, consumer.regex, consumer.assignor = tuple(rest[1]), rest[2], rest[3] or consumer.assignor
    elif kind == "pass":
        model.let_pass(rest[0] * HEARTBEAT_MS)
    elif kind == "jump":
        world.clock.jump(rest[0])
    elif kind == "fail":
        world.fails = not world.fails
    elif kind == "restart":
        model.check_log()
        world.restart()
    elif kind == "topic":
        topic = world.topics.find(rest[0])
        if topic is None:
            world.topics.create(rest[0], 2)
        else:
            world.topics.grow(rest[0], topic.partition_count + 1)
    elif world.topics.find(rest[0]) is not None:
        world.topics.delete(rest[0])
    model.check()


@examples(200)
@given(st.sampled_from([0, 1_000, 5_000]), st.lists(STEPS, min_size=8, max_size=40))
def test_whatever_happens(interval_ms: int, steps: list[tuple[Any, ...]]) -> None:
    model = Model(interval_ms)
    model.consumers[0].start()
    model.consumers[1].start()
    for step in steps:
        take(model, step)
    model.check_log()
    model.settle()
