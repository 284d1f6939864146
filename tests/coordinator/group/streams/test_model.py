"""Random members join, leave, crash and are slow, answers are lost, while topics are created, grow and are deleted, and the log fails.

At all times no task is active at two members and no process has a task twice, neither in the clients' assignments nor in what the group
stores. Epochs never go back, and the group is what its log holds. After the trouble the group settles: every task is active, and nothing
is written any more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from minibroker.coordinator.group.streams.group import StreamsGroupLimits
from minibroker.coordinator.group.streams.members import Tasks
from minibroker.coordinator.group.streams.requests import StreamsHeartbeat
from minibroker.coordinator.group.streams.topology import topology_of
from minibroker.errors import InvalidRequest
from tests.coordinator.group.modern_model import REBALANCE_MS, SESSION_MS, GroupModel, ModelClient, client_steps, intervals_ms
from tests.coordinator.group.modern_world import KnownTopics
from tests.coordinator.group.streams.world import World, subtopology, topic, topology
from tests.support.soak import examples

SOURCES = {"t": 3, "u": 2}
TOPOLOGY = topology_of(topology(subtopology("0", ["t"]), subtopology("1", ["u"], state_changelog_topics=[topic("counts")])))

Task = tuple[str, str, int]  #: role, subtopology, partition


class StreamsClient(ModelClient):
    """A member; two of them are one process."""

    REJOINS_AFTER = (*ModelClient.REJOINS_AFTER, InvalidRequest)  # it owned a task that no longer exists

    def __init__(self, model: StreamsModel, index: int) -> None:
        self.process_id = f"process {index // 2}"
        super().__init__(model, index)

    def request(self, epoch: int) -> StreamsHeartbeat:
        fields: dict[str, Any] = {} if epoch < 0 else {"rebalance_timeout_ms": REBALANCE_MS, "owned": by_role(self.owned)}
        if epoch == 0:
            fields |= {"topology": TOPOLOGY, "process_id": self.process_id}
        return StreamsHeartbeat(self.member_id, epoch, client_id="client", **fields)

    def assignment_in(self, answer: Any) -> set[Any] | None:
        return None if answer.tasks is None else tasks_in(answer.tasks)

    def on_lost_answer(self) -> None:
        self.forget()  # and joins again


def tasks_in(tasks: Tasks) -> set[Task]:
    return {(role, each, at) for role, part in tasks._asdict().items() for each, partitions in part.items() for at in partitions}


def by_role(tasks: set[Task]) -> Tasks:
    def of(role: str) -> dict[str, frozenset[int]]:
        names = {each for own, each, _ in tasks if own == role}
        return {name: frozenset(at for own, each, at in tasks if (own, each) == (role, name)) for name in names}

    return Tasks(*(of(role) for role in Tasks._fields))


def count_tasks(owners: Iterable[set[Task]], role: str) -> Counter[tuple[str, int]]:
    return Counter((each, at) for tasks in owners for own, each, at in tasks if own == role)


class StreamsModel(GroupModel[World, StreamsClient]):
    """A streams group with two subtopologies, one of which has state."""

    NOT_IN_THE_LOG = frozenset({"topology"})

    def __init__(self, interval_ms: int, delay_ms: int, standbys: int) -> None:
        limits = StreamsGroupLimits(
            session_timeout_ms=SESSION_MS,
            assignment_interval_ms=interval_ms,
            initial_rebalance_delay_ms=delay_ms,
            num_standby_replicas=standbys,
        )
        super().__init__(World(limits=limits, topics=KnownTopics(**SOURCES)), StreamsClient)

    def grow(self) -> None:
        if self.world.topics.find("t") is not None:
            super().topic("t")

    def topic(self, name: str) -> None:
        """Delete the topic, or create it if it is a source."""
        if self.world.topics.find(name) is not None:
            self.world.topics.delete(name)
        elif name in SOURCES:
            self.world.topics.create(name, SOURCES[name])

    def standbys(self, count: int) -> None:
        self.world.limits = self.world.limits._replace(num_standby_replicas=count)

    def check_owners(self) -> None:
        check_unique([(client.process_id, client.owned) for client in self.clients])
        members = self.world.group.image.members.values()
        check_unique([(each.process_id, tasks_in(kept.tasks)) for each in members for kept in (each.assigned, each.pending_revocation)])

    def calm(self) -> None:
        super().calm()
        for name, count in SOURCES.items():
            if self.world.topics.find(name) is None:
                self.world.topics.create(name, count)

    def check_settled(self) -> None:
        counts = {each: topic.partition_count for each, name in (("0", "t"), ("1", "u")) if (topic := self.world.topics.find(name))}
        tasks = {(each, at) for each, count in counts.items() for at in range(count)} if self.running else set()
        owners = [client.owned for client in self.running]
        assert count_tasks(owners, "active").keys() == tasks
        other_processes = len({client.process_id for client in self.running}) - 1
        places = min(self.world.limits.num_standby_replicas, other_processes)
        standbys = count_tasks(owners, "standby")
        assert all(standbys[task] == (places if task[0] == "1" else 0) for task in tasks)


def check_unique(owners: list[tuple[str, set[Task]]]) -> None:
    assert all(count == 1 for count in count_tasks((tasks for _, tasks in owners), "active").values()), "active twice"
    places = Counter((process_id, each, at) for process_id, tasks in owners for _, each, at in tasks)
    assert all(count == 1 for count in places.values()), "twice in a process"


steps = st.one_of(
    client_steps,
    st.tuples(st.just("advance"), st.integers(1, 6)),
    st.tuples(st.sampled_from(["fail", "restart", "grow"])),
    st.tuples(st.just("standbys"), st.integers(0, 2)),
    st.tuples(st.just("topic"), st.sampled_from(["t", "u", "counts"])),
)


@examples(80)
@given(intervals_ms, st.sampled_from([0, 1_500]), st.integers(0, 2), st.lists(steps, min_size=8, max_size=40))
def test_random_members(interval_ms: int, delay_ms: int, standbys: int, script: list[tuple[Any, ...]]) -> None:
    StreamsModel(interval_ms, delay_ms, standbys).run(script)
