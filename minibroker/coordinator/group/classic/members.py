"""Members of a classic group: their waiting requests, leader and common protocol, and the record that has the whole generation.

Invariants
  - a group with members has a leader, which is one of them
  - a group_instance_id belongs to one member: a member that joins with it replaces the one before
  - members have a common protocol, so one can always be selected

Source: ClassicGroup, ClassicGroupMember, GroupCoordinatorRecordHelpers.newGroupMetadataRecord,
GroupMetadataManager.replay of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from typing import Final

from minibroker.clock import Timer
from minibroker.coordinator.group.classic.requests import Join, JoinAnswer, Joined, Protocol, SyncAnswer, Synced
from minibroker.errors import FencedInstanceId, RebalanceInProgress, UnknownMemberId
from minibroker.schemas.internal.offset_records import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from minibroker.storage.record_frame import CoordinatorRecord


class ClassicMember:
    """One member.

    `joined` and `synced` have its waiting request. A second request of the same kind answers the
    first with an error.
    """

    __slots__ = (
        "assignment",
        "charge",
        "client_host",
        "client_id",
        "group_instance_id",
        "is_new",
        "joined",
        "member_id",
        "protocols",
        "rebalance_timeout_ms",
        "session",
        "session_timeout_ms",
        "synced",
    )

    def __init__(self, member_id: str, join: Join) -> None:
        self.member_id = member_id
        self.group_instance_id = join.group_instance_id
        self.client_id = join.client_id
        self.client_host = join.client_host
        self.assignment = b""  #: from the leader, in this generation or in the one before
        self.is_new = True  #: until its first generation; the client does not know its id, so it sends no heartbeats
        self.joined: Joined | None = None
        self.synced: Synced | None = None
        self.session: Timer | None = None  #: of its session time-out; written by Rebalance
        self.update(join)

    def update(self, join: Join) -> None:
        """Take the protocols and time-outs of a new JoinGroup."""
        self.protocols = join.protocols
        self.charge = join.charge
        self.rebalance_timeout_ms = join.rebalance_timeout_ms
        self.session_timeout_ms = join.session_timeout_ms

    @property
    def is_static(self) -> bool:
        """Whether it keeps its place for its session time-out while it is away (KIP-345)."""
        return self.group_instance_id is not None

    def metadata(self, protocol_name: str | None) -> bytes:
        """Return the metadata that it sent for a protocol."""
        return next((protocol.metadata for protocol in self.protocols if protocol.name == protocol_name), b"")

    def vote(self, candidates: Collection[str]) -> str:
        """Return its preferred protocol among `candidates`."""
        return next(protocol.name for protocol in self.protocols if protocol.name in candidates)

    def wait_to_join(self, joined: Joined) -> None:
        """Let a JoinGroup wait for the next generation."""
        self.answer_join(JoinAnswer(self.member_id, error=RebalanceInProgress))
        self.joined = joined

    def wait_to_sync(self, synced: Synced) -> None:
        """Let a SyncGroup wait for the leader's assignment."""
        self.answer_sync(SyncAnswer(error=RebalanceInProgress))
        self.synced = synced

    def answer_join(self, answer: JoinAnswer) -> None:
        """Answer the waiting JoinGroup, if there is one."""
        joined, self.joined = self.joined, None
        if joined is not None:
            joined(answer)

    def answer_sync(self, answer: SyncAnswer) -> bool:
        """Answer the waiting SyncGroup. Return whether there was one."""
        synced, self.synced = self.synced, None
        if synced is not None:
            synced(answer)
        return synced is not None


class MemberTable:
    """Members by id, in the order in which they joined."""

    __slots__ = ("_by_id", "_by_instance", "_shared", "leader_id", "protocol_type")

    def __init__(self, protocol_type: str | None = None) -> None:
        self._by_id: dict[str, ClassicMember] = {}
        self._by_instance: dict[str, str] = {}
        self._shared: set[str] | None = None  #: names of protocols that all members have; None until they are computed again
        self.leader_id: str | None = None  #: written here, and by `elect`
        self.protocol_type = protocol_type  #: of the present members or the last ones; None if the group never had any

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[ClassicMember]:
        return iter(list(self._by_id.values()))

    def __contains__(self, member_id: str) -> bool:
        return member_id in self._by_id

    def __getitem__(self, member_id: str) -> ClassicMember:
        return self._by_id[member_id]

    def have_all_joined(self) -> bool:
        """Return whether a JoinGroup of each member waits. Members often join again in their order, so the last one is checked first."""
        return all(member.joined is not None for member in reversed(self._by_id.values()))

    def of_instance(self, group_instance_id: str | None) -> ClassicMember | None:
        """Return the static member of an instance; None if there is none."""
        member_id = None if group_instance_id is None else self._by_instance.get(group_instance_id)
        return None if member_id is None else self._by_id[member_id]

    def check(self, member_id: str, group_instance_id: str | None) -> ClassicMember:
        """Return the member that sent a request; UnknownMemberId, FencedInstanceId if another member has its instance id."""
        if group_instance_id is not None:
            owner = self.of_instance(group_instance_id)
            if owner is None:
                raise UnknownMemberId
            if owner.member_id != member_id:
                raise FencedInstanceId
        if member_id not in self._by_id:
            raise UnknownMemberId
        return self._by_id[member_id]

    def add(self, member: ClassicMember, protocol_type: str) -> None:
        """Add a member. The first one leads the group and sets its protocol type."""
        if not self._by_id:
            self.protocol_type = protocol_type
            self.leader_id = member.member_id
            self._shared = names(member.protocols)
        elif self._shared is not None:
            self._shared &= names(member.protocols)
        self._by_id[member.member_id] = member
        if member.group_instance_id is not None:
            self._by_instance[member.group_instance_id] = member.member_id

    def update(self, member: ClassicMember, join: Join) -> None:
        """Take the protocols and time-outs of a member's new JoinGroup."""
        if names(join.protocols) != names(member.protocols):
            self._shared = None
        member.update(join)

    def remove(self, member_id: str) -> None:
        """Remove a member, if it is there. The oldest other member leads."""
        member = self._by_id.pop(member_id, None)
        if member is None:
            return
        self._shared = None
        if member.group_instance_id is not None:
            del self._by_instance[member.group_instance_id]
        if self.leader_id == member_id:
            self.leader_id = next(iter(self._by_id), None)

    def replace(self, old: ClassicMember, new: ClassicMember) -> None:
        """Give the place of `old` to `new`, which has the same instance id.

        If `old` was the leader, `new` becomes the leader.
        """
        self._shared = None
        self._by_id = {
            (new.member_id if member is old else member_id): (new if member is old else member) for member_id, member in self._by_id.items()
        }
        if new.group_instance_id is not None:
            self._by_instance[new.group_instance_id] = new.member_id
        if self.leader_id == old.member_id:
            self.leader_id = new.member_id

    def elect(self) -> bool:
        """Choose a leader among the members that wait to join. Return False if no member waits."""
        if self.leader_id is None:
            return False
        if self._by_id[self.leader_id].joined is None:
            waiting = next((member.member_id for member in self if member.joined is not None), None)
            if waiting is None:
                return False
            self.leader_id = waiting
        return True

    # Protocols

    def supports(self, protocol_type: str, names: Collection[str]) -> bool:
        """Whether a member with these protocols would have one in common with all members."""
        if not self._by_id:
            return bool(protocol_type and names)
        return protocol_type == self.protocol_type and not self._common().isdisjoint(names)

    def select(self) -> str:
        """Return the common protocol with the most votes; of equal ones, the choice of the older members."""
        candidates = self._common()
        votes = Counter(member.vote(candidates) for member in self)
        return votes.most_common(1)[0][0]

    def _common(self) -> set[str]:
        if self._shared is None:
            self._shared = set.intersection(*(names(member.protocols) for member in self))
        return self._shared

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance time-out of a member."""
        return max((member.rebalance_timeout_ms for member in self), default=0)


def names(protocols: Collection[Protocol]) -> set[str]:
    """Return the names of protocols."""
    return {protocol.name for protocol in protocols}


GROUP_VERSION: Final = 3
_TOMBSTONE: Final = -1
SIMPLE_TYPE: Final = ""  #: the protocol type of a group that has offsets and never had members


def group_record(group_id: str, value: GroupMetadataValue) -> CoordinatorRecord:
    """Return the record of a generation."""
    return CoordinatorRecord(GroupMetadataKey(group=group_id), value, GROUP_VERSION)


def group_tombstone(group_id: str) -> CoordinatorRecord:
    """Return the tombstone of a group."""
    return CoordinatorRecord(GroupMetadataKey(group=group_id), None, _TOMBSTONE)


def value_of_members(members: MemberTable, generation_id: int, protocol_name: str | None, state_timestamp_ms: int) -> GroupMetadataValue:
    """Return the value of a generation: members with their metadata for its protocol, and their assignments."""
    return GroupMetadataValue(
        protocol_type=members.protocol_type or SIMPLE_TYPE,
        generation=generation_id,
        protocol=protocol_name,
        leader=members.leader_id,
        current_state_timestamp=state_timestamp_ms,
        members=[_stored(member, protocol_name) for member in members],
    )


def _stored(member: ClassicMember, protocol_name: str | None) -> MemberMetadata:
    return MemberMetadata(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout=member.rebalance_timeout_ms,
        session_timeout=member.session_timeout_ms,
        subscription=member.metadata(protocol_name),
        assignment=member.assignment,
    )


def members_of(value: GroupMetadataValue) -> MemberTable:
    """Return the members of a generation.

    A record has only the metadata of its protocol, so they support no other one.
    """
    members = MemberTable(value.protocol_type or None)
    for stored in value.members:
        join = Join(
            client_id=stored.client_id,
            client_host=stored.client_host,
            protocol_type=value.protocol_type,
            protocols=(Protocol(value.protocol or "", bytes(stored.subscription)),),
            session_timeout_ms=stored.session_timeout,
            rebalance_timeout_ms=stored.session_timeout if stored.rebalance_timeout < 0 else stored.rebalance_timeout,
            group_instance_id=stored.group_instance_id,
        )
        member = ClassicMember(stored.member_id, join)
        member.is_new = False
        member.assignment = bytes(stored.assignment)
        members.add(member, value.protocol_type)
    if value.leader is not None and value.leader in members:
        members.leader_id = value.leader
    return members
