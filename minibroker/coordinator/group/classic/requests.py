"""What members ask of a classic group, and what they are told; a request that waits is a callback that takes its answer.

The memory that members' protocols take, of all classic groups together: JoinGroup may bring 100 MB a member.

A charge lives as long as the join request, and then the member, that holds it. It is given back when the last of them is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from minibroker.errors import GroupMaxSizeReached, KafkaError

UNKNOWN_MEMBER_ID = ""  #: of a client that is no member yet
NO_GENERATION = -1


class Protocol(NamedTuple):
    """A way of assigning that a member can; `metadata` is its subscription, in the words of that protocol."""

    name: str
    metadata: bytes


class Join(NamedTuple):
    """JoinGroup."""

    client_id: str
    client_host: str
    protocol_type: str
    protocols: tuple[Protocol, ...]  #: the one that the member likes best comes first
    session_timeout_ms: int
    rebalance_timeout_ms: int
    member_id: str = UNKNOWN_MEMBER_ID
    group_instance_id: str | None = None
    requires_known_member_id: bool = True  #: from version 4 on a new member is given its id before it may join (KIP-394)
    supports_skipping_assignment: bool = True  #: from version 9 on (KIP-814)
    charge: Charge | None = None  #: the memory of `protocols`; None for members that were read from the log


class Sync(NamedTuple):
    """SyncGroup; `assignments` by member id, from the leader alone."""

    member_id: str
    generation_id: int
    group_instance_id: str | None = None
    protocol_type: str | None = None  #: None up to version 4
    protocol_name: str | None = None
    assignments: Sequence[tuple[str, bytes]] = ()


class Leave(NamedTuple):
    """One member of LeaveGroup; an administrator names a static member by its instance alone."""

    member_id: str = UNKNOWN_MEMBER_ID
    group_instance_id: str | None = None


class JoinedMember(NamedTuple):
    """One member as the leader is told of it."""

    member_id: str
    group_instance_id: str | None
    metadata: bytes


class JoinAnswer(NamedTuple):
    """The member is in a generation, or `error` says why it is not."""

    member_id: str
    generation_id: int = NO_GENERATION
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    members: tuple[JoinedMember, ...] = ()  #: told to the leader alone
    skip_assignment: bool = False  #: a static leader that came back: what is assigned stays as it is
    error: type[KafkaError] | None = None


class SyncAnswer(NamedTuple):
    """What the member shall read, or `error`."""

    assignment: bytes = b""
    protocol_type: str | None = None
    protocol_name: str | None = None
    error: type[KafkaError] | None = None


Joined = Callable[[JoinAnswer], None]
Synced = Callable[[SyncAnswer], None]


MAX_BYTES: Final = 64 * 1024 * 1024  #: a usual member has 100 to 1,000 bytes


class MemberMemory:
    """Bytes in use, and their limit."""

    __slots__ = ("used_bytes",)

    def __init__(self) -> None:
        self.used_bytes = 0

    def charge(self, size: int) -> Charge:
        """Take `size` bytes.

        Raises:
            GroupMaxSizeReached: so much is not left.
        """
        if self.used_bytes + size > MAX_BYTES:
            raise GroupMaxSizeReached(f"the protocols of all members would take more than {MAX_BYTES} bytes")
        return Charge(self, size)


class Charge:
    """Bytes of memory that something holds."""

    __slots__ = ("_memory", "_size")

    def __init__(self, memory: MemberMemory, size: int) -> None:
        self._memory = memory
        self._size = size
        memory.used_bytes += size

    def __del__(self) -> None:
        self._memory.used_bytes -= self._size
