"""Requests of members of classic groups, their answers, and the memory that the requests may take.

A waiting request is a callback that takes its answer. A JoinGroup may have 100 MB, so the protocols
of all members together are limited to MAX_BYTES. A Charge lives as long as the request or member
that holds it. Its bytes are free again when the last of these is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from minibroker.errors import GroupMaxSizeReached, KafkaError

UNKNOWN_MEMBER_ID = ""  #: the member id of a client that is not a member yet
NO_GENERATION = -1


class Protocol(NamedTuple):
    """An assignment protocol that a member supports.

    `metadata` is its subscription, in the format of that protocol.
    """

    name: str
    metadata: bytes


class Join(NamedTuple):
    """A JoinGroup request."""

    client_id: str
    client_host: str
    protocol_type: str
    protocols: tuple[Protocol, ...]  #: in the order of preference
    session_timeout_ms: int
    rebalance_timeout_ms: int
    member_id: str = UNKNOWN_MEMBER_ID
    group_instance_id: str | None = None
    requires_known_member_id: bool = True  #: from version 4 on a new member gets its id before it may join (KIP-394)
    supports_skipping_assignment: bool = True  #: from version 9 on (KIP-814)
    charge: Charge | None = None  #: the memory of `protocols`; None for members read from the log


class Sync(NamedTuple):
    """A SyncGroup request. Only the leader sends `assignments`, by member id."""

    member_id: str
    generation_id: int
    group_instance_id: str | None = None
    protocol_type: str | None = None  #: None up to version 4
    protocol_name: str | None = None
    assignments: Sequence[tuple[str, bytes]] = ()


class Leave(NamedTuple):
    """One member of a LeaveGroup request.

    An administrator may name a static member by its instance id only.
    """

    member_id: str = UNKNOWN_MEMBER_ID
    group_instance_id: str | None = None


class JoinedMember(NamedTuple):
    """One member in the leader's answer."""

    member_id: str
    group_instance_id: str | None
    metadata: bytes


class JoinAnswer(NamedTuple):
    """The answer to JoinGroup: the generation, or `error`."""

    member_id: str
    generation_id: int = NO_GENERATION
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    members: tuple[JoinedMember, ...] = ()  #: empty for members that do not lead
    skip_assignment: bool = False  #: for a static leader that joined again: the assignment does not change
    error: type[KafkaError] | None = None


class SyncAnswer(NamedTuple):
    """The answer to SyncGroup: the assignment, or `error`."""

    assignment: bytes = b""
    protocol_type: str | None = None
    protocol_name: str | None = None
    error: type[KafkaError] | None = None


Joined = Callable[[JoinAnswer], None]
Synced = Callable[[SyncAnswer], None]


MAX_BYTES: Final = 64 * 1024 * 1024  #: of all members; most members take 100 to 1,000 bytes


class MemberMemory:
    """Counts the bytes of the protocols of all members."""

    __slots__ = ("used_bytes",)

    def __init__(self) -> None:
        self.used_bytes = 0

    def charge(self, size: int) -> Charge:
        """Reserve `size` bytes.

        Raises:
            GroupMaxSizeReached: Fewer bytes are left.
        """
        if self.used_bytes + size > MAX_BYTES:
            raise GroupMaxSizeReached(f"the protocols of all members would take more than {MAX_BYTES} bytes")
        return Charge(self, size)


class Charge:
    """Reserved bytes, given back when this object is dropped."""

    __slots__ = ("_memory", "_size")

    def __init__(self, memory: MemberMemory, size: int) -> None:
        self._memory = memory
        self._size = size
        memory.used_bytes += size

    def __del__(self) -> None:
        self._memory.used_bytes -= self._size
