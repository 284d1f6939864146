"""A classic group and its members, driven by hand: requests, answers, stored records, time."""

from __future__ import annotations

from typing import Any

from minibroker.clock import ManualClock
from minibroker.coordinator.group.classic.group import ClassicGroup
from minibroker.coordinator.group.classic.rebalance import ClassicGroupLimits, ClassicGroupState
from minibroker.coordinator.group.classic.requests import Join, JoinAnswer, Joined, Leave, Protocol, Sync, SyncAnswer, Synced
from minibroker.coordinator.group.kind import Membership
from minibroker.errors import KafkaError, NotCoordinator
from minibroker.schemas.internal.offset_records import GroupMetadataValue

SESSION_MS = 10_000
REBALANCE_MS = 60_000
EMPTY, PREPARING, COMPLETING, STABLE = ClassicGroupState
PROTOCOLS = (Protocol("range", b"range of %s"), Protocol("roundrobin", b"roundrobin of %s"))


class World:
    """One group. Members draw their ids from their client id: a-1, b-2, ..."""

    def __init__(
        self, *, limits: ClassicGroupLimits | None = None, stored: GroupMetadataValue | None = None, clock: ManualClock | None = None
    ) -> None:
        self.clock = clock or ManualClock()
        self.stored: list[GroupMetadataValue] = []
        self.fails = False
        self._drawn = 0
        self.group = ClassicGroup(
            "readers", clock=self.clock, persist=self._persist, limits=limits, stored=stored, draw_member_id=self._draw
        )

    def _persist(self, value: GroupMetadataValue) -> None:
        if self.fails:
            raise NotCoordinator
        self.stored.append(value)

    def _draw(self, join: Join) -> str:
        self._drawn += 1
        return f"{join.client_id}-{self._drawn}"

    @property
    def state(self) -> ClassicGroupState:
        return self.group.state

    @property
    def generation(self) -> int:
        return self.group.generation_id

    def join(self, client: str, member_id: str = "", *, version: int = 9, **changes: Any) -> list[JoinAnswer]:
        """The answers to a JoinGroup: none yet, or one."""
        answers: list[JoinAnswer] = []
        self.join_with(answers.append, client, member_id, version=version, **changes)
        return answers

    def join_with(self, joined: Joined, client: str, member_id: str = "", *, version: int = 9, **changes: Any) -> None:
        """Send a JoinGroup."""
        join = Join(
            client_id=client,
            client_host="/127.0.0.1",
            protocol_type="consumer",
            protocols=PROTOCOLS,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=member_id,
            requires_known_member_id=version >= 4,
            supports_skipping_assignment=version >= 9,
        )
        self.group.join(join._replace(**changes), joined)

    def enter(self, client: str, **changes: Any) -> tuple[str, list[JoinAnswer]]:
        """Join with two requests, as a new member: the answer to the first has its id. Returns the id and the answers to the second."""
        (refused,) = self.join(client, **changes)
        return refused.member_id, self.join(client, refused.member_id, **changes)

    def sync(self, member_id: str, assignments: dict[str, bytes] | None = None, **changes: Any) -> list[SyncAnswer]:
        """The answers to a SyncGroup of this generation: none yet, or one."""
        answers: list[SyncAnswer] = []
        self.sync_with(answers.append, member_id, assignments, **changes)
        return answers

    def sync_with(self, synced: Synced, member_id: str, assignments: dict[str, bytes] | None = None, **changes: Any) -> None:
        """Send a SyncGroup."""
        sync = Sync(member_id, self.generation, assignments=tuple((assignments or {}).items()))
        self.group.sync(sync._replace(**changes), synced)

    def heartbeat(self, member_id: str, generation_id: int | None = None, group_instance_id: str | None = None) -> str:
        """OK, or the name of the error."""
        try:
            self.group.heartbeat(member_id, group_instance_id, self.generation if generation_id is None else generation_id)
        except KafkaError as error:
            return error.name
        return "OK"

    def commit(self, *membership: Any, is_transactional: bool = False) -> str:
        """Whether offsets may be committed: OK, or the name of the error."""
        try:
            self.group.check_offset_commit(Membership(*membership), is_transactional=is_transactional)
        except KafkaError as error:
            return error.name
        return "OK"

    def leave(self, *leaving: str | Leave) -> list[str]:
        """For each OK, or the name of the error."""
        errors = self.group.leave([each if isinstance(each, Leave) else Leave(each) for each in leaving])
        return ["OK" if error is None else error.name for error in errors]

    def let_pass(self, delta_ms: int) -> None:
        self.clock.advance(delta_ms)


def stable(*clients: str, **options: Any) -> tuple[World, list[str]]:
    """A group with these members, the first of which leads, in a stable generation."""
    world = World(**options)
    ids, waiting = [], []
    for client in clients:
        member_id, answers = world.enter(client)
        ids.append(member_id)
        waiting.append(answers)
    world.let_pass(0)
    while world.generation == 0:
        world.let_pass(100)
    assert all(len(answers) == 1 for answers in waiting)
    settle(world, ids)
    return world, ids


def settle(world: World, ids: list[str]) -> None:
    """All members sync, the leader last; each is assigned its own id."""
    leader = world.group.members.leader_id
    waiting = [world.sync(member_id) for member_id in ids if member_id != leader]
    assert leader is not None
    waiting.append(world.sync(leader, {member_id: member_id.encode() for member_id in ids}))
    assert [answer.error for (answer,) in waiting] == [None] * len(ids)
    assert world.state is STABLE
