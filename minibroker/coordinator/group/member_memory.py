"""The memory that members' protocols take, of all classic groups together: JoinGroup may bring 100 MB a member.

A charge lives as long as the join request, and then the member, that holds it. It is given back when the last of them is dropped.
"""

from __future__ import annotations

from typing import Final

from minibroker.errors import GroupMaxSizeReached

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
