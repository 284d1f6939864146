"""Random members join, leave, crash and are slow, answers are lost, while topics come, grow and go, and the log fails.

Whatever happens: no task is worked at by two members, and no instance has a task twice, neither in what members were told nor in what the
group keeps; epochs never go back; what the group is, is what its log says. When the trouble is over the group settles, with every task
worked at by somebody, and then nothing is written any more.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from minibroker.coordinator.group.streams.group import StreamsGroupLimits
from minibroker.coordinator.group.streams.requests import StreamsHeartbeat
from minibroker.coordinator.group.streams.tasks import NO_TASKS, Tasks
from minibroker.coordinator.group.streams.topology import topology_of
from minibroker.errors import FencedMemberEpoch, InvalidRequest, NotCoordinator, UnknownMemberId
from tests.coordinator.group.modern_world import KnownTopics, facts
from tests.coordinator.group.streams.world import World, subtopology, topic, topology
from tests.support.soak import examples

SESSION_MS = 10_000
REBALANCE_MS = 4_000
HEARTBEAT_MS = 1_000
CLIENTS = 5
SOURCES = {"t": 3, "u": 2}
TOPOLOGY = topology_of(topology(subtopology("0", ["t"]), subtopology("1", ["u"], state_changelog_topics=[topic("counts")])))

Task = tuple[str, int]


class Client:
    """A member, two of which are one instance. What it was told to give up it gives up at its next heartbeat, or later when it is slow."""

    def __init__(self, model: Model, index: int) -> None:
        self.model, self.index, self.process_id = model, index, f"process {index // 2}"
        self.life = 0
        self.is_running = self.is_slow = self.answers_are_lost = False
        self._forget()

    def _forget(self) -> None:
        self.epoch = 0
        self.owned = self.told = NO_TASKS

    @property
    def member_id(self) -> str:
        return f"m{self.index}-{self.life}"

    def start(self) -> None:
        if not self.is_running:
            self.is_running, self.is_slow, self.life = True, False, self.life + 1
            self._forget()

    def crash(self) -> None:
        self.is_running = False
        self._forget()

    def stop(self) -> None:
        if self.is_running and self.epoch > 0:
            self._ask(-1)
        self.crash()

    def beat(self) -> None:
        """What it must give up is gone when it says so; what it gets is its own when it is told so."""
        if not self.is_running:
            return
        if not self.is_slow:
            self.owned = Tasks(*(_sets(_pairs(a) & _pairs(b)) for a, b in zip(self.owned, self.told, strict=True)))
        before = self.epoch
        joining = {"topology": TOPOLOGY, "process_id": self.process_id} if before == 0 else {}
        answer = self._ask(before, rebalance_timeout_ms=REBALANCE_MS, owned=self.owned, **joining)
        if answer is None:
            return
        if self.answers_are_lost and before > 0:
            self._forget()  # and joins again
            return
        assert answer.member_epoch >= before or before == 0
        self.epoch = answer.member_epoch
        if answer.tasks is not None:
            self.told = answer.tasks
            self.owned = Tasks(*(_sets(_pairs(a) | _pairs(b)) for a, b in zip(self.owned, self.told, strict=True)))

    def _ask(self, epoch: int, **said: Any) -> Any:
        try:
            return self.model.world.group.heartbeat(StreamsHeartbeat(self.member_id, epoch, client_id="client", **said))
        except (UnknownMemberId, FencedMemberEpoch):
            self.life += 1
            self._forget()
        except InvalidRequest:  # it was slow to give up a task that is none any more
            self.life += 1
            self._forget()
        except NotCoordinator:
            pass
        return None


def _pairs(tasks: Any) -> set[Task]:
    return {(each, at) for each, partitions in tasks.items() for at in partitions}


def _sets(tasks: set[Task]) -> dict[str, frozenset[int]]:
    return {each: frozenset(at for name, at in tasks if name == each) for each in {name for name, _ in tasks}}


class Model:
    """The group, its clients, and what was seen of it."""

    def __init__(self, interval_ms: int, delay_ms: int, standbys: int) -> None:
        limits = StreamsGroupLimits(
            session_timeout_ms=SESSION_MS,
            assignment_interval_ms=interval_ms,
            initial_rebalance_delay_ms=delay_ms,
            num_standby_replicas=standbys,
        )
        self.world = World(limits=limits, topics=KnownTopics(**SOURCES))
        self.clients = [Client(self, index) for index in range(CLIENTS)]
        self.epoch = self.assignment_epoch = 0

    def let_pass(self, delta_ms: int) -> None:
        """Clients that run are heard of in time; one that is slow for its whole rebalance time-out gives up by itself."""
        for _ in range(0, delta_ms, HEARTBEAT_MS):
            for client in self.clients:
                client.beat()
                self.check()
            members = self.world.group.image.members
            before = set(members)
            self.world.let_pass(HEARTBEAT_MS)
            for client in self.clients:
                if client.member_id in before - self.world.group.image.members.keys():
                    client.owned = NO_TASKS  # its own timer ran as long as the broker's
            self.check()

    def check(self) -> None:
        image = self.world.group.image
        self._check_owners([(client.process_id, client.owned) for client in self.clients])
        kept = [
            (member.process_id, each.tasks) for member in image.members.values() for each in (member.assigned, member.pending_revocation)
        ]
        self._check_owners(kept)
        assert image.epoch >= self.epoch
        assert image.assignment_epoch >= self.assignment_epoch
        assert image.epoch >= image.assignment_epoch
        assert all(member.member_epoch <= image.assignment_epoch for member in image.members.values())
        self.epoch, self.assignment_epoch = image.epoch, image.assignment_epoch

    def _check_owners(self, owners: list[tuple[str, Tasks]]) -> None:
        active = Counter(task for _, tasks in owners for task in _pairs(tasks.active))
        assert all(count == 1 for count in active.values()), "worked at twice"
        places = Counter((process_id, task) for process_id, tasks in owners for role in tasks for task in _pairs(role))
        assert all(count == 1 for count in places.values()), "twice in an instance"

    def check_log(self) -> None:
        replayed, image = self.world.replayed(), self.world.group.image
        for name in facts(image).keys() - {"topology"}:
            assert getattr(replayed, name) == getattr(image, name), name

    def settle(self) -> None:
        self.world.fails = False
        for client in self.clients:
            client.is_slow = client.answers_are_lost = False
        for name, count in SOURCES.items():
            if self.world.topics.find(name) is None:
                self.world.topics.create(name, count)
        self.let_pass(2 * SESSION_MS + 20 * HEARTBEAT_MS)
        count = len(self.world.stored)
        self.let_pass(3 * HEARTBEAT_MS)
        assert len(self.world.stored) == count
        running = [client for client in self.clients if client.is_running]
        wanted = {(each, at) for each, name in (("0", "t"), ("1", "u")) for at in range(self._count(name))}
        assert {task for client in running for task in _pairs(client.owned.active)} == (wanted if running else set())
        places = min(self.world.limits.num_standby_replicas, len({client.process_id for client in running}) - 1)
        standbys = Counter(task for client in running for task in _pairs(client.owned.standby))
        assert all(standbys[task] == (places if task[0] == "1" else 0) for task in wanted if running)
        assert self.world.state == ("Stable" if running else "Empty")
        self.check_log()

    def _count(self, name: str) -> int:
        found = self.world.topics.find(name)
        return 0 if found is None else found.partition_count


which = st.integers(0, CLIENTS - 1)
STEPS = st.one_of(
    st.tuples(st.sampled_from(["start", "start", "stop", "crash", "slow", "lose"]), which),
    st.tuples(st.just("beat"), which),
    st.tuples(st.just("pass"), st.integers(1, 6)),
    st.tuples(st.sampled_from(["fail", "restart", "grow"])),
    st.tuples(st.just("standbys"), st.integers(0, 2)),
    st.tuples(st.just("topic"), st.sampled_from(["t", "u", "counts"])),
)


def take(model: Model, step: tuple[Any, ...]) -> None:
    kind, *rest = step
    world = model.world
    if kind in {"start", "stop", "crash", "beat"}:
        getattr(model.clients[rest[0]], kind)()
    elif kind == "slow":
        model.clients[rest[0]].is_slow = not model.clients[rest[0]].is_slow
    elif kind == "lose":
        model.clients[rest[0]].answers_are_lost = not model.clients[rest[0]].answers_are_lost
    elif kind == "pass":
        model.let_pass(rest[0] * HEARTBEAT_MS)
    elif kind == "fail":
        world.fails = not world.fails
    elif kind == "restart":
        model.check_log()
        world.restart()
    elif kind == "standbys":
        world.limits = world.limits._replace(num_standby_replicas=rest[0])
    elif kind == "grow":
        found = world.topics.find("t")
        if found is not None:
            world.topics.grow("t", found.partition_count + 1)
    elif world.topics.find(rest[0]) is not None:
        world.topics.delete(rest[0])
    elif rest[0] in SOURCES:
        world.topics.create(rest[0], SOURCES[rest[0]])
    model.check()


@examples(80)
@given(st.sampled_from([0, 1_000, 5_000]), st.sampled_from([0, 1_500]), st.integers(0, 2), st.lists(STEPS, min_size=8, max_size=40))
def test_whatever_happens(interval_ms: int, delay_ms: int, standbys: int, steps: list[tuple[Any, ...]]) -> None:
    model = Model(interval_ms, delay_ms, standbys)
    model.clients[0].start()
    model.clients[1].start()
    for step in steps:
        take(model, step)
    model.check_log()
    model.settle()
