"""A random model of a group whose coordinator assigns: clients act at random, and `GroupModel.check` runs after each step.

A step is a name and arguments. Names in `CLIENT_STEPS` are methods of a client, whose index comes first. All others are methods of
the model.
"""

from __future__ import annotations

from typing import Any, ClassVar, Generic, TypeVar

from hypothesis import strategies as st

from minibroker.coordinator.group.modern import ModernImage
from minibroker.errors import FencedMemberEpoch, KafkaError, NotCoordinator, UnknownMemberId
from tests.coordinator.group.modern_world import ModernWorld, facts

SESSION_MS = 10_000
REBALANCE_MS = 4_000
HEARTBEAT_MS = 1_000
CLIENTS = 5

CLIENT_STEPS = frozenset({"start", "stop", "crash", "beat", "slow", "lose", "subscribe"})

World = TypeVar("World", bound=ModernWorld[Any, Any])
Client = TypeVar("Client", bound="ModelClient")

client_indexes = st.integers(0, CLIENTS - 1)
intervals_ms = st.sampled_from([0, 1_000, 5_000])  #: between two assignments
client_steps = st.one_of(
    st.tuples(st.sampled_from(["start", "start", "stop", "crash", "slow", "lose"]), client_indexes),
    st.tuples(st.just("beat"), client_indexes),
)


class ModelClient:
    """A group member. It gives up revoked partitions or tasks at its next heartbeat, or later while it is slow."""

    REJOINS_AFTER: ClassVar[tuple[type[KafkaError], ...]] = (UnknownMemberId, FencedMemberEpoch)
    RETRIES_AFTER: ClassVar[tuple[type[KafkaError], ...]] = (NotCoordinator,)

    def __init__(self, model: Any, index: int) -> None:
        self.model, self.index = model, index
        self.life = 0
        self.is_running = self.is_slow = self.answers_are_lost = False
        self.forget()

    def request(self, epoch: int) -> Any:
        """Return the heartbeat of this kind of group; a negative epoch leaves the group."""
        raise NotImplementedError

    def assignment_in(self, answer: Any) -> set[Any] | None:
        """Return what the answer assigns, or None if it does not change the assignment."""
        raise NotImplementedError

    def check_assignment(self) -> None:
        """Check an assignment that just arrived."""

    @property
    def member_id(self) -> str:
        return f"c{self.index}-{self.life}"

    def forget(self) -> None:
        self.epoch = 0
        self.owned: set[Any] = set()
        self.assigned: set[Any] = set()

    def start(self) -> None:
        if not self.is_running:
            self.is_running, self.is_slow, self.life = True, False, self.life + 1
            self.forget()

    def crash(self) -> None:
        self.is_running = False
        self.forget()

    def stop(self) -> None:
        if self.is_running and self.epoch > 0:
            self._send(-1)
        self.crash()

    def slow(self) -> None:
        self.is_slow = not self.is_slow

    def lose(self) -> None:
        """Lose answers from now on, or no longer."""
        self.answers_are_lost = not self.answers_are_lost

    def on_lost_answer(self) -> None:
        """The client sends the same heartbeat again."""

    def beat(self) -> None:
        if not self.is_running:
            return
        if not self.is_slow:
            self.owned &= self.assigned
        before = self.epoch
        answer = self._send(before)
        if answer is None:
            return
        if self.answers_are_lost and before > 0:
            self.on_lost_answer()
            return
        assert answer.member_epoch >= before
        self.epoch = answer.member_epoch
        assigned = self.assignment_in(answer)
        if assigned is not None:
            self.assigned = assigned
            self.owned |= assigned
        self.check_assignment()

    def _send(self, epoch: int) -> Any:
        try:
            return self.model.world.group.heartbeat(self.request(epoch))
        except self.REJOINS_AFTER:
            self.life += 1
            self.forget()
        except self.RETRIES_AFTER:
            pass
        return None


class GroupModel(Generic[World, Client]):
    """The group, its clients, and the highest epochs that were seen."""

    NOT_IN_THE_LOG: ClassVar[frozenset[str]] = frozenset()  #: fields of the image

    def __init__(self, world: World, client: type[Client]) -> None:
        self.world = world
        self.clients = [client(self, index) for index in range(CLIENTS)]
        self.epoch = self.assignment_epoch = 0

    @property
    def image(self) -> ModernImage[Any, Any]:
        image: ModernImage[Any, Any] = self.world.group.image
        return image

    @property
    def running(self) -> list[Client]:
        return [client for client in self.clients if client.is_running]

    # steps

    def advance(self, heartbeats: int) -> None:
        """Let time pass while running clients send heartbeats. A client that is slow for its rebalance time-out gives up by itself."""
        for _ in range(heartbeats):
            for client in self.clients:
                client.beat()
                self.check()
            before = set(self.image.members)
            self.world.let_pass(HEARTBEAT_MS)
            for client in self.clients:
                if client.member_id in before - self.image.members.keys():
                    client.owned = set()  # its own timer ran as long as the broker's
            self.check()

    def jump(self, delta_ms: int) -> None:
        self.world.clock.jump(delta_ms)

    def fail(self) -> None:
        """The log fails from now on, or no longer."""
        self.world.fails = not self.world.fails

    def restart(self) -> None:
        self.check_log()
        self.world.restart()

    def topic(self, name: str) -> None:
        """Create the topic, or add a partition."""
        topic = self.world.topics.find(name)
        if topic is None:
            self.world.topics.create(name, 2)
        else:
            self.world.topics.grow(name, topic.partition_count + 1)

    def delete(self, name: str) -> None:
        if self.world.topics.find(name) is not None:
            self.world.topics.delete(name)

    # checks

    def check_owners(self) -> None:
        """Check what clients own and what the group stores of that."""

    def check(self) -> None:
        self.check_owners()
        image = self.image
        assert image.epoch >= self.epoch
        assert image.assignment_epoch >= self.assignment_epoch
        assert image.epoch >= image.assignment_epoch
        assert all(member.member_epoch <= image.assignment_epoch for member in image.members.values())
        self.epoch, self.assignment_epoch = image.epoch, image.assignment_epoch

    def check_log(self) -> None:
        replayed, image = facts(self.world.replayed()), facts(self.image)
        for name in self.NOT_IN_THE_LOG:
            del replayed[name], image[name]
        assert replayed == image

    def calm(self) -> None:
        """End all trouble."""
        self.world.fails = False
        for client in self.clients:
            client.is_slow = client.answers_are_lost = False

    def check_settled(self) -> None:
        """Check what the running clients have after all trouble has ended."""
        raise NotImplementedError

    def partitions_of(self, names: set[str]) -> set[Any]:
        topics = [topic for name in names if (topic := self.world.topics.find(name)) is not None]
        return {(topic.topic_id, index) for topic in topics for index in range(topic.partition_count)}

    def settle(self) -> None:
        self.calm()
        self.advance(2 * SESSION_MS // HEARTBEAT_MS + 20)
        count = len(self.world.stored)
        self.advance(3)
        assert len(self.world.stored) == count, "a settled group writes"
        assert self.world.state == ("Stable" if self.running else "Empty")
        self.check_settled()
        self.check_log()

    def run(self, steps: list[tuple[Any, ...]]) -> None:
        """Start two clients, take the steps, and let the group settle."""
        self.clients[0].start()
        self.clients[1].start()
        for kind, *arguments in steps:
            if kind in CLIENT_STEPS:
                getattr(self.clients[arguments[0]], kind)(*arguments[1:])
            else:
                getattr(self, kind)(*arguments)
            self.check()
        self.check_log()
        self.settle()
