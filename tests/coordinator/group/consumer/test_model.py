"""Random members join, leave, crash, come back, change their subscriptions and are slow, while topics are created, grow and are deleted,
the log fails and the clock jumps.

At all times no partition has two members, neither in the clients' assignments nor in what the group stores. A member gets only what it
subscribed to, epochs never go back, and the group is what its log holds. After the trouble the group settles: every subscribed partition
is with a subscriber, and nothing is written any more.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from minibroker.coordinator.group.consumer.requests import ConsumerGroupLimits, ConsumerHeartbeat
from minibroker.coordinator.group.modern import Assignment
from minibroker.errors import FencedInstanceId, UnreleasedInstanceId
from tests.coordinator.group.consumer.world import World
from tests.coordinator.group.modern_model import (
    REBALANCE_MS,
    SESSION_MS,
    GroupModel,
    ModelClient,
    client_indexes,
    client_steps,
    intervals_ms,
)
from tests.coordinator.group.modern_world import KnownTopics
from tests.support.soak import examples

NAMES = ("a1", "a2", "b")
REGEXES = ("", "", "a.*", "b|a1")

Partition = tuple[UUID, int]


class Consumer(ModelClient):
    """A consumer; every second one is a static member."""

    REJOINS_AFTER = (*ModelClient.REJOINS_AFTER, FencedInstanceId)
    RETRIES_AFTER = (*ModelClient.RETRIES_AFTER, UnreleasedInstanceId)

    def __init__(self, model: ConsumerModel, index: int) -> None:
        self.instance = f"i{index}" if index % 2 else None
        self.topics: tuple[str, ...] = ("a1",)
        self.regex = ""
        self.assignor: str | None = None
        super().__init__(model, index)

    def subscribe(self, topics: list[str], regex: str, assignor: str | None) -> None:
        self.topics, self.regex, self.assignor = tuple(topics), regex, assignor or self.assignor

    def request(self, epoch: int) -> ConsumerHeartbeat:
        if epoch < 0:
            leaving = -1 if self.instance is None else -2
            return ConsumerHeartbeat(self.member_id, leaving, "client", "", instance_id=self.instance)
        return ConsumerHeartbeat(
            self.member_id,
            epoch,
            "client",
            "",
            rebalance_timeout_ms=REBALANCE_MS,
            owned=grouped(self.owned),
            topic_names=self.topics,
            topic_regex=self.regex,
            instance_id=self.instance,
            server_assignor=self.assignor,
        )

    def assignment_in(self, answer: Any) -> set[Any] | None:
        if answer.assignment is None:
            return None
        return {(topic, each) for topic, partitions in answer.assignment.items() for each in partitions}

    def check_assignment(self) -> None:
        assert {self.model.world.topics.name_of(topic) for topic, _ in self.assigned} <= self.model.subscribed(self)


def grouped(partitions: set[Partition]) -> Assignment:
    found: dict[UUID, frozenset[int]] = {}
    for topic, each in partitions:
        found[topic] = found.get(topic, frozenset()) | {each}
    return found


class ConsumerModel(GroupModel[World, Consumer]):
    """A consumer group with subscriptions by name and by regular expression."""

    def __init__(self, interval_ms: int) -> None:
        limits = ConsumerGroupLimits(session_timeout_ms=SESSION_MS, assignment_interval_ms=interval_ms)
        super().__init__(World(limits=limits, topics=KnownTopics(a1=3, a2=2)), Consumer)

    def subscribed(self, consumer: Consumer) -> set[str]:
        resolved = self.world.group.image.regexes.get(consumer.regex)
        return {*consumer.topics, *(resolved.topics if resolved is not None else ())}

    def check_owners(self) -> None:
        image = self.world.group.image
        owned = [partition for consumer in self.clients for partition in consumer.owned]
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

    def check_settled(self) -> None:
        subscribed = {name for consumer in self.running for name in self.subscribed(consumer)}
        assert {partition for consumer in self.running for partition in consumer.owned} == self.partitions_of(subscribed)


steps = st.one_of(
    client_steps,
    st.tuples(
        st.just("subscribe"),
        client_indexes,
        st.lists(st.sampled_from(NAMES), max_size=2, unique=True),
        st.sampled_from(REGEXES),
        st.sampled_from([None, "uniform", "range"]),
    ),
    st.tuples(st.just("advance"), st.integers(1, 6)),
    st.tuples(st.just("jump"), st.sampled_from([-86_400_000, 86_400_000])),
    st.tuples(st.sampled_from(["fail", "restart"])),
    st.tuples(st.just("topic"), st.sampled_from(NAMES)),
    st.tuples(st.just("delete"), st.sampled_from(NAMES)),
)


@examples(200)
@given(intervals_ms, st.lists(steps, min_size=8, max_size=40))
def test_random_members(interval_ms: int, script: list[tuple[Any, ...]]) -> None:
    ConsumerModel(interval_ms).run(script)
