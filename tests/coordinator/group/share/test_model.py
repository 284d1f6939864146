"""Random members join, leave, crash and change their subscriptions, while topics are created, grow and are deleted, the log fails, and the
share coordinator loads, refuses partitions or restarts with the broker. Offsets are set and deleted while the group is empty.

At all times members get only what they subscribed to and what has a state, epochs never go back, and the group is what its log holds.
After the trouble every subscribed partition is with a subscriber, every member has one if there are enough, and nothing is written any
more.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minibroker.coordinator.group.share.group import ShareGroupLimits, ShareHeartbeat
from minibroker.coordinator.group.share.offsets import StartOffset
from minibroker.errors import GroupMaxSizeReached, KafkaError
from tests.coordinator.group.modern_model import CLIENTS, SESSION_MS, GroupModel, ModelClient, client_indexes, client_steps, intervals_ms
from tests.coordinator.group.modern_world import KnownTopics
from tests.coordinator.group.share.world import World
from tests.support.soak import examples

NAMES = ("a", "b", "c")


class ShareConsumer(ModelClient):
    """A share consumer. It gives up nothing: its assignment is all that it has."""

    RETRIES_AFTER = (KafkaError,)

    def __init__(self, model: ShareModel, index: int) -> None:
        self.topics: tuple[str, ...] = ("a",)
        super().__init__(model, index)

    def subscribe(self, topics: list[str]) -> None:
        self.topics = tuple(topics)

    def request(self, epoch: int) -> ShareHeartbeat:
        return ShareHeartbeat(self.member_id, epoch, "client", "", topic_names=None if epoch < 0 else self.topics)

    def assignment_in(self, answer: Any) -> set[Any]:
        assert answer.assignment is not None
        return {(topic, each) for topic, partitions in answer.assignment.items() for each in partitions}

    def check_assignment(self) -> None:
        world = self.model.world
        names = {topic: world.topics.name_of(topic) for topic, _ in self.assigned}
        assert set(names.values()) <= {*self.topics, "deleted"}
        assert all(each in world.states.known for each in self.assigned if names[each[0]] != "deleted")


class ShareModel(GroupModel[World, ShareConsumer]):
    """A share group that has room for all clients but one."""

    def __init__(self, interval_ms: int) -> None:
        limits = ShareGroupLimits(max_size=CLIENTS - 1, session_timeout_ms=SESSION_MS, assignment_interval_ms=interval_ms)
        super().__init__(World(limits=limits, topics=KnownTopics(a=3, b=1)), ShareConsumer)

    def load(self) -> None:
        """The share coordinator loads from now on, or no longer."""
        self.world.states.is_loading = not self.world.states.is_loading

    def refuse(self) -> None:
        """The share coordinator refuses the first partition of each topic, or no longer."""
        known = [topic for name in NAMES if (topic := self.world.topics.find(name)) is not None]
        self.world.states.refused = set() if self.world.states.refused else {(topic.topic_id, 0) for topic in known}

    def empty(self) -> None:
        for client in self.clients:
            client.stop()

    def delete(self, name: str) -> None:
        topic = self.world.topics.find(name)
        super().delete(name)
        if topic is not None:
            states = self.world.states
            states.known = {key: state for key, state in states.known.items() if key[0] != topic.topic_id}

    def alter_offsets(self, name: str) -> None:
        with suppress(KafkaError):
            self.world.group.check_empty()
            self.world.group.offsets.alter([StartOffset(name, 0, 5), StartOffset(name, 1, 6)])

    def delete_offsets(self, name: str) -> None:
        with suppress(KafkaError):
            self.world.group.check_empty()
            self.world.group.offsets.delete([name])

    def check_owners(self) -> None:
        assert len(self.image.members) <= CLIENTS - 1

    def calm(self) -> None:
        super().calm()
        self.world.states.is_loading = False
        self.world.states.refused.clear()
        self.world.group.offsets.forget_deleted_topics()  # the coordinator calls it after it deleted topics, even if the log failed then
        self.clients[-1].crash()  # the group has no room for it

    def check_settled(self) -> None:
        running, states = self.running, self.world.states
        subscribed = self.partitions_of({name for client in running for name in client.topics})
        assert {partition for client in running for partition in client.assigned} == subscribed
        if len({client.topics for client in running}) == 1 and subscribed:
            assert all(client.assigned for client in running)
        known = self.world.image.state_partitions
        assert known.initializing == {}
        assert {(topic, each) for topic, partitions in known.assignable.items() for each in partitions} <= states.known.keys()


steps = st.one_of(
    client_steps,
    st.tuples(st.just("subscribe"), client_indexes, st.lists(st.sampled_from(NAMES), min_size=1, max_size=2, unique=True)),
    st.tuples(st.just("advance"), st.integers(1, 12)),
    st.tuples(st.sampled_from(["fail", "restart", "load", "refuse", "empty"])),
    st.tuples(st.sampled_from(["topic", "delete", "alter_offsets", "delete_offsets"]), st.sampled_from(NAMES)),
)


@examples(150)
@given(intervals_ms, st.lists(steps, min_size=8, max_size=40))
def test_random_members(interval_ms: int, script: list[tuple[Any, ...]]) -> None:
    ShareModel(interval_ms).run(script)


def test_a_full_group_rejects_new_members() -> None:
    model = ShareModel(0)
    for client in model.clients:
        client.start()
        client.beat()
    assert len(model.world.image.members) == CLIENTS - 1
    with pytest.raises(GroupMaxSizeReached):
        model.world.group.heartbeat(ShareHeartbeat("new", 0, "client", "", topic_names=("a",)))
