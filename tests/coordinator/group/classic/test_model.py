"""Random consumers join, leave, crash, come back, and change their minds, while time passes and jumps and the log fails.

Whatever happens: a generation never goes back; in each one a partition has one owner at most, and a member owns only what it subscribed
to; every request is answered once. When the trouble is over the group settles, with every partition owned by somebody.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from minibroker.coordinator.group.classic.rebalance import ClassicGroupLimits, ClassicGroupState
from minibroker.coordinator.group.classic.requests import JoinAnswer, Protocol, SyncAnswer
from minibroker.errors import MemberIdRequired, NotCoordinator, RebalanceInProgress
from tests.coordinator.group.classic.world import SESSION_MS, STABLE, World
from tests.support.soak import examples

TOPICS = "abc"
PARTITIONS = 3
HEARTBEAT_MS = 3_000
REBALANCE_MS = 20_000
CLIENTS = 5


class Consumer:
    """A client of the eager protocol. It acts when `act` is called, and on answers that have come by then."""

    def __init__(self, model: Model, name: str, instance: str | None, version: int) -> None:
        self.model, self.name, self.instance, self.version = model, name, instance, version
        self.topics = self.joined_with = frozenset("a")
        self.is_running = False
        self._reset()

    def _reset(self) -> None:
        self.member_id, self.generation, self.owned = "", -1, frozenset[str]()
        self._todo: Callable[[], None] | None = None
        self._incarnation = object()

    def start(self) -> None:
        if not self.is_running:
            self.is_running = True
            self._todo = self._join

    def crash(self) -> None:
        self.is_running = False
        self._reset()

    def stop(self) -> None:
        if self.is_running and self.member_id and self.instance is None:
            self.model.world.leave(self.member_id)
        self.crash()

    def subscribe(self, topics: frozenset[str]) -> None:
        """It joins again at its next heartbeat."""
        self.topics = topics

    def act(self) -> None:
        todo, self._todo = self._todo, None
        if todo is not None:
            todo()

    def heartbeat(self) -> None:
        if self.generation < 0:
            return
        found = self.model.world.heartbeat(self.member_id, self.generation, self.instance)
        if found == "REBALANCE_IN_PROGRESS" or (found == "OK" and self._todo is None and self.topics != self.joined_with):
            self._todo = self._join
        elif found != "OK":
            self._begin_anew()

    def _begin_anew(self) -> None:
        self._reset()
        self._todo = self._join

    def _join(self) -> None:
        self.generation, self.owned, self.joined_with = -1, frozenset(), self.topics
        protocols = (Protocol("range", "".join(sorted(self.topics)).encode()),)
        self.model.ask(lambda done: self.model.join(self, done, protocols), self._of_this_life(self._joined))

    def _of_this_life(self, act: Callable[[Any], None]) -> Callable[[Any], None]:
        incarnation = self._incarnation
        return lambda answer: act(answer) if incarnation is self._incarnation and self.is_running else None

    def _joined(self, answer: JoinAnswer) -> None:
        if answer.error is MemberIdRequired:
            self.member_id = answer.member_id
            self._todo = self._join
        elif answer.error in {RebalanceInProgress, NotCoordinator}:
            self._todo = self._join
        elif answer.error is not None:
            self._begin_anew()
        else:
            self.member_id, self.generation = answer.member_id, answer.generation_id
            self.model.saw(answer.generation_id)
            assignments = {}
            if answer.leader == answer.member_id and not answer.skip_assignment:
                assignments = self.model.assign({each.member_id: each.metadata.decode() for each in answer.members})
            self._todo = lambda: self._sync(assignments)

    def _sync(self, assignments: dict[str, bytes]) -> None:
        generation = self.generation
        self.model.ask(
            lambda done: self.model.sync(self, done, assignments), self._of_this_life(lambda answer: self._synced(answer, generation))
        )

    def _synced(self, answer: SyncAnswer, generation: int) -> None:
        if answer.error in {RebalanceInProgress, NotCoordinator}:
            self._todo = self._join
        elif answer.error is not None:
            self._begin_anew()
        else:
            self.owned = frozenset(answer.assignment.decode().split())
            self.model.owns(generation, self.member_id, self.owned, self.joined_with)


class Model:
    """The group, its consumers, and what was seen of it."""

    def __init__(self, *, delay_ms: int) -> None:
        self.world = World(limits=ClassicGroupLimits(initial_rebalance_delay_ms=delay_ms))
        self.consumers = [Consumer(self, f"c{index}", f"i{index}" if index % 2 else None, 9 - 3 * (index % 3)) for index in range(CLIENTS)]
        self.generation = 0
        self.owners: dict[tuple[int, str], str] = {}
        self.asked = self.answered = 0

    def ask(self, request: Callable[[Callable[[Any], None]], None], answer: Callable[[Any], None]) -> None:
        answers: list[Any] = []
        self.asked += 1

        def done(given: Any) -> None:
            assert not answers, "answered twice"
            answers.append(given)
            self.answered += 1
            answer(given)

        request(done)

    def join(self, consumer: Consumer, done: Callable[[JoinAnswer], None], protocols: tuple[Protocol, ...]) -> None:
        changes = {"group_instance_id": consumer.instance, "protocols": protocols, "rebalance_timeout_ms": REBALANCE_MS}
        self.world.join_with(done, consumer.name, consumer.member_id, version=consumer.version, **changes)

    def sync(self, consumer: Consumer, done: Callable[[SyncAnswer], None], assignments: dict[str, bytes]) -> None:
        self.world.sync_with(done, consumer.member_id, assignments, generation_id=consumer.generation, group_instance_id=consumer.instance)

    def assign(self, subscriptions: dict[str, str]) -> dict[str, bytes]:
        """What the leader makes of it: partitions of each topic in turn to who subscribed to it."""
        owned: dict[str, list[str]] = {member_id: [] for member_id in subscriptions}
        for topic in TOPICS:
            members = [member_id for member_id, topics in subscriptions.items() if topic in topics]
            for index in range(PARTITIONS if members else 0):
                owned[members[index % len(members)]].append(f"{topic}{index}")
        return {member_id: " ".join(partitions).encode() for member_id, partitions in owned.items()}

    def saw(self, generation: int) -> None:
        assert generation >= self.generation, "a generation went back"
        self.generation = generation

    def owns(self, generation: int, member_id: str, owned: frozenset[str], topics: frozenset[str]) -> None:
        for partition in owned:
            assert partition[0] in topics, "owned and not subscribed to"
            assert self.owners.setdefault((generation, partition), member_id.rpartition("-")[0]) == member_id.rpartition("-")[0], (
                "two owners"
            )

    def check(self) -> None:
        group = self.world.group
        self.saw(group.generation_id)
        members = {member.member_id: member for member in group.members}
        assert (group.members.leader_id in members) == bool(members)
        for member in members.values():
            assert member.joined is None or group.state is ClassicGroupState.PREPARING_REBALANCE
            assert member.synced is None or group.state is ClassicGroupState.COMPLETING_REBALANCE
        waiting = sum((member.joined is not None) + (member.synced is not None) for member in members.values())
        assert self.asked == self.answered + waiting, "a request that nobody will answer"
        owners = [partition for each in self.consumers if each.generation == group.generation_id for partition in each.owned]
        assert len(owners) == len(set(owners)), "two owners"

    def run(self, delta_ms: int, *, beats: bool = True) -> None:
        """Let time pass, with all consumers acting and sending heartbeats meanwhile."""
        for _ in range(max(delta_ms // HEARTBEAT_MS, 1)):
            for consumer in self.consumers:
                if beats and consumer.is_running:
                    consumer.heartbeat()
            for _ in range(4):
                for consumer in self.consumers:
                    consumer.act()
                    self.check()
            self.world.let_pass(min(delta_ms, HEARTBEAT_MS))
            self.check()


clients = st.integers(0, CLIENTS - 1)
calm = st.tuples(st.just("run"), st.sampled_from([0, HEARTBEAT_MS, SESSION_MS, REBALANCE_MS]))
steps = st.one_of(
    st.tuples(st.just("start"), clients),
    st.tuples(st.just("start"), clients),
    st.tuples(st.just("stop"), clients),
    st.tuples(st.just("crash"), clients),
    st.tuples(st.just("act"), clients),
    st.tuples(st.just("heartbeat"), clients),
    st.tuples(st.just("subscribe"), clients, st.frozensets(st.sampled_from(TOPICS), min_size=1)),
    calm,
    calm,
    st.tuples(st.just("silence"), st.sampled_from([100, HEARTBEAT_MS, SESSION_MS + 1])),
    st.one_of(
        st.tuples(st.just("jump"), st.sampled_from([-86_400_000, 86_400_000])),
        st.tuples(st.just("fail"), st.booleans()),
    ),
)


@examples(60)
@given(st.sampled_from([0, 3_000]), st.lists(steps, min_size=50, max_size=120))
def test_random_consumers(delay_ms: int, script: list[tuple[Any, ...]]) -> None:
    model = Model(delay_ms=delay_ms)
    for action, *arguments in script:
        if action in {"start", "stop", "crash", "act", "heartbeat"}:
            consumer = model.consumers[arguments[0]]
            if action != "heartbeat" or consumer.is_running:
                getattr(consumer, action)()
        elif action == "subscribe":
            model.consumers[arguments[0]].subscribe(arguments[1])
        elif action in {"run", "silence"}:
            model.run(arguments[0], beats=action == "run")
        elif action == "jump":
            model.world.clock.jump(arguments[0])
        else:
            model.world.fails = arguments[0]
        model.check()

    model.world.fails = False
    model.consumers[0].start()
    model.run(6 * REBALANCE_MS)
    running = [consumer for consumer in model.consumers if consumer.is_running]
    assert model.world.state is STABLE
    assert {consumer.member_id for consumer in running} == {member.member_id for member in model.world.group.members}
    assert {consumer.generation for consumer in running} == {model.world.generation}
    expected = {f"{topic}{index}" for consumer in running for topic in consumer.topics for index in range(PARTITIONS)}
    assert sorted(partition for consumer in running for partition in consumer.owned) == sorted(expected)
    assert model.asked == model.answered
