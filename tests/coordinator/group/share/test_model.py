"""Random members join, leave, crash and change their minds, while topics come, grow and go, the log fails, and the share coordinator loads,
refuses partitions or dies with the broker; offsets are set and forgotten while nobody is there.

Whatever happens: members are told only what they subscribed to and what has a state; epochs never go back; what the group is, is what its
log says. When the trouble is over every partition that somebody wants is given to one who wants it, every member has one if there are
enough, and nothing is written any more.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from minibroker.coordinator.group.share.group import ShareGroupLimits
from minibroker.coordinator.group.share.offsets import StartOffset
from minibroker.coordinator.group.share.requests import ShareHeartbeat
from minibroker.errors import FencedMemberEpoch, GroupMaxSizeReached, KafkaError, NonEmptyGroup, UnknownMemberId
from tests.coordinator.group.modern_world import KnownTopics, facts
from tests.coordinator.group.share.world import World
from tests.support.soak import examples

NAMES = ("a", "b", "c")
SESSION_MS = 10_000
HEARTBEAT_MS = 1_000
CLIENTS = 5

Partition = tuple[UUID, int]


class Client:
    """A share consumer."""

    def __init__(self, model: Model, index: int) -> None:
        self.model, self.index = model, index
        self.topics: tuple[str, ...] = ("a",)
        self.life = 0
        self.is_running = self.answers_are_lost = False
        self._forget()

    def _forget(self) -> None:
        self.epoch = 0
        self.told: set[Partition] = set()

    @property
    def member_id(self) -> str:
        return f"c{self.index}-{self.life}"

    def start(self) -> None:
        if not self.is_running:
            self.is_running, self.life = True, self.life + 1
            self._forget()

    def crash(self) -> None:
        self.is_running = False
        self._forget()

    def stop(self) -> None:
        if self.is_running and self.epoch > 0:
            self._ask(-1)
        self.crash()

    def beat(self) -> None:
        if not self.is_running:
            return
        before = self.epoch
        answer = self._ask(self.epoch, topic_names=self.topics)
        if answer is None or (self.answers_are_lost and before > 0):
            return
        assert answer.member_epoch >= before
        assert answer.assignment is not None
        self.epoch = answer.member_epoch
        self.told = {(topic, each) for topic, partitions in answer.assignment.items() for each in partitions}
        names = {topic: self.model.world.topics.name_of(topic) for topic, _ in self.told}
        assert set(names.values()) <= {*self.topics, "deleted"}
        assert all(each in self.model.world.states.known for each in self.told if names[each[0]] != "deleted")

    def _ask(self, epoch: int, **said: Any) -> Any:
        try:
            return self.model.world.group.heartbeat(ShareHeartbeat(self.member_id, epoch, "client", "", **said))
        except (UnknownMemberId, FencedMemberEpoch):
            self.life += 1
            self._forget()
        except KafkaError:
            pass
        return None


class Model:
    """The group, its clients, and what was seen of it."""

    def __init__(self, interval_ms: int) -> None:
        limits = ShareGroupLimits(max_size=CLIENTS - 1, session_timeout_ms=SESSION_MS, assignment_interval_ms=interval_ms)
        self.world = World(limits=limits, topics=KnownTopics(a=3, b=1))
        self.clients = [Client(self, index) for index in range(CLIENTS)]
        self.epoch = self.assignment_epoch = 0

    def let_pass(self, delta_ms: int) -> None:
        for _ in range(0, delta_ms, HEARTBEAT_MS):
            for client in self.clients:
                client.beat()
                self.check()
            self.world.let_pass(HEARTBEAT_MS)
            self.check()

    def check(self) -> None:
        image = self.world.image
        assert image.epoch >= self.epoch
        assert image.assignment_epoch >= self.assignment_epoch
        assert image.epoch >= image.assignment_epoch
        assert all(member.member_epoch <= image.assignment_epoch for member in image.members.values())
        assert len(image.members) <= CLIENTS - 1
        self.epoch, self.assignment_epoch = image.epoch, image.assignment_epoch

    def check_log(self) -> None:
        replayed, image = self.world.replayed(), self.world.image
        assert facts(replayed) == facts(image)

    def settle(self) -> None:
        world = self.world
        world.fails = world.states.is_loading = False
        world.states.refused.clear()
        world.group.offsets.forget_deleted_topics()  # as the coordinator has it do when topics are deleted, whatever the log says then
        self.clients[-1].crash()  # there is no room for all of them
        for client in self.clients:
            client.answers_are_lost = False
        self.let_pass(2 * SESSION_MS + 10 * HEARTBEAT_MS)
        count = len(world.stored)
        self.let_pass(3 * HEARTBEAT_MS)
        assert len(world.stored) == count
        running = [client for client in self.clients if client.is_running]
        wanted = {
            (topic.topic_id, each)
            for client in running
            for name in client.topics
            if (topic := world.topics.find(name)) is not None
            for each in range(topic.partition_count)
        }
        assert {partition for client in running for partition in client.told} == wanted
        if len({client.topics for client in running}) == 1 and wanted:
            assert all(client.told for client in running)
        assert world.state == ("Stable" if running else "Empty")
        known = world.image.state_partitions
        assert known.initializing == {}
        assert {(topic, each) for topic, partitions in known.assignable.items() for each in partitions} <= world.states.known.keys()
        self.check_log()


which = st.integers(0, CLIENTS - 1)
STEPS = st.one_of(
    st.tuples(st.sampled_from(["start", "start", "stop", "crash", "lose"]), which),
    st.tuples(st.just("subscribe"), which, st.lists(st.sampled_from(NAMES), min_size=1, max_size=2, unique=True)),
    st.tuples(st.just("beat"), which),
    st.tuples(st.just("pass"), st.integers(1, 12)),
    st.tuples(st.sampled_from(["fail", "restart", "load", "refuse", "empty"])),
    st.tuples(st.sampled_from(["topic", "delete", "alter", "forget"]), st.sampled_from(NAMES)),
)


def of_a_client(model: Model, kind: str, index: int, *rest: Any) -> None:
    client = model.clients[index]
    if kind == "lose":
        client.answers_are_lost = not client.answers_are_lost
    elif kind == "subscribe":
        client.topics = tuple(rest[0])
    else:
        getattr(client, kind)()


def of_the_broker(world: World, kind: str) -> None:
    if kind == "fail":
        world.fails = not world.fails
    elif kind == "restart":
        world.restart()
    elif kind == "load":
        world.states.is_loading = not world.states.is_loading
    elif kind == "refuse":
        known = [topic for name in NAMES if (topic := world.topics.find(name)) is not None]
        world.states.refused = set() if world.states.refused else {(topic.topic_id, 0) for topic in known}


def of_a_topic(world: World, kind: str, name: str) -> None:
    topic = world.topics.find(name)
    if kind == "topic" and topic is None:
        world.topics.create(name, 2)
    elif kind == "topic" and topic is not None:
        world.topics.grow(name, topic.partition_count + 1)
    elif kind == "delete" and topic is not None:
        world.topics.delete(name)
        world.states.known = {key: state for key, state in world.states.known.items() if key[0] != topic.topic_id}
    elif kind in {"alter", "forget"}:
        try:
            world.group.check_empty()
            if kind == "alter":
                world.group.offsets.alter([StartOffset(name, 0, 5), StartOffset(name, 1, 6)])
            else:
                world.group.offsets.delete([name])
        except (NonEmptyGroup, KafkaError):
            pass


@examples(150)
@given(st.sampled_from([0, 1_000, 5_000]), st.lists(STEPS, min_size=8, max_size=40))
def test_whatever_happens(interval_ms: int, steps: list[tuple[Any, ...]]) -> None:
    model = Model(interval_ms)
    model.clients[0].start()
    model.clients[1].start()
    for kind, *rest in steps:
        if kind in {"start", "stop", "crash", "beat", "lose", "subscribe"}:
            of_a_client(model, kind, *rest)
        elif kind == "pass":
            model.let_pass(rest[0] * HEARTBEAT_MS)
        elif kind == "empty":
            for client in model.clients:
                client.stop()
        elif rest:
            of_a_topic(model.world, kind, *rest)
        else:
            of_the_broker(model.world, kind)
        model.check()
    model.check_log()
    model.settle()


def test_a_full_group_takes_nobody_else() -> None:
    model = Model(0)
    for client in model.clients:
        client.start()
        client.beat()
    assert len(model.world.image.members) == CLIENTS - 1
    assert isinstance(_refusal(model), GroupMaxSizeReached)


def _refusal(model: Model) -> KafkaError | None:
    try:
        model.world.group.heartbeat(ShareHeartbeat("new", 0, "client", "", topic_names=("a",)))
    except KafkaError as error:
        return error
    return None
