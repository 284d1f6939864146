"""Requests of classic consumer groups as bytes, of versions that are not flexible.

FindCoordinator 1, JoinGroup 4 (a new member receives its id first), SyncGroup 2, Heartbeat 2, LeaveGroup 2, OffsetFetch 5, OffsetCommit 5.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from frames import BODY, frame, string

GROUP = 0  #: the key_type of FindCoordinator
MEMBER_ID_REQUIRED = 79
REBALANCE_IN_PROGRESS = 27
SESSION_TIMEOUT_MS = 45_000
_THROTTLE = 4  #: bytes before the rest of an answer


class Joined(NamedTuple):
    """The answer to JoinGroup."""

    error: int
    generation: int
    leader: bytes
    member_id: bytes
    members: tuple[bytes, ...]  #: of the leader only


def find_coordinator(group: bytes) -> bytes:
    """FindCoordinator v1."""
    return frame(10, 1, string(group) + struct.pack(">b", GROUP))


def find_coordinator_error(answer: bytearray) -> int:
    """The error code in the answer."""
    return _error_at(answer, BODY + _THROTTLE)


def _blob(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def join(group: bytes, member_id: bytes, topic: bytes) -> bytes:
    """JoinGroup v4: a consumer that knows the protocol `range`."""
    subscription = struct.pack(">hi", 0, 1) + string(topic) + struct.pack(">i", -1)
    protocols = struct.pack(">i", 1) + string(b"range") + _blob(subscription)
    times = struct.pack(">ii", SESSION_TIMEOUT_MS, SESSION_TIMEOUT_MS)
    return frame(11, 4, string(group) + times + string(member_id) + string(b"consumer") + protocols)


def joined(answer: bytearray, start: int = 0) -> Joined:
    """Decode the answer to JoinGroup."""
    error, generation = struct.unpack_from(">hi", answer, start + BODY + _THROTTLE)
    _, position = _string_at(answer, start + BODY + _THROTTLE + 6)
    leader, position = _string_at(answer, position)
    member_id, position = _string_at(answer, position)
    (count,) = struct.unpack_from(">i", answer, position)
    position += 4
    members = []
    for _ in range(count):
        member, position = _string_at(answer, position)
        (size,) = struct.unpack_from(">i", answer, position)
        position += 4 + size
        members.append(member)
    return Joined(error, generation, leader, member_id, tuple(members))


def sync(group: bytes, generation: int, member_id: bytes, assignments: Mapping[bytes, bytes]) -> bytes:
    """SyncGroup v2; the leader's contains the assignment of each member."""
    blobs = b"".join(string(member) + _blob(assignment) for member, assignment in assignments.items())
    return frame(14, 2, string(group) + struct.pack(">i", generation) + string(member_id) + struct.pack(">i", len(assignments)) + blobs)


def synced_error(answer: bytearray, start: int = 0) -> int:
    """The error code in the answer."""
    return _error_at(answer, start + BODY + _THROTTLE)


def assignment(topic: bytes, partitions: Iterable[int]) -> bytes:
    """Return a consumer's assignment of partitions of one topic."""
    numbers = list(partitions)
    return struct.pack(">hi", 0, 1) + string(topic) + struct.pack(f">i{len(numbers)}i", len(numbers), *numbers) + struct.pack(">i", -1)


def heartbeat(group: bytes, generation: int, member_id: bytes) -> bytes:
    """Heartbeat v2."""
    return frame(12, 2, string(group) + struct.pack(">i", generation) + string(member_id))


def heartbeat_error(answer: bytearray) -> int:
    """The error code in the answer."""
    return _error_at(answer, BODY + _THROTTLE)


def leave(group: bytes, member_id: bytes) -> bytes:
    """LeaveGroup v2."""
    return frame(13, 2, string(group) + string(member_id))


def leave_error(answer: bytearray) -> int:
    """The error code in the answer."""
    return _error_at(answer, BODY + _THROTTLE)


def fetch_offset(group: bytes, topic: bytes, partition: int) -> bytes:
    """OffsetFetch v5."""
    return frame(9, 5, string(group) + struct.pack(">i", 1) + string(topic) + struct.pack(">ii", 1, partition))


def fetched_offset(answer: bytearray, topic: bytes) -> tuple[int, int]:
    """The error code and the committed offset (-1: none) of the one partition."""
    position = BODY + _THROTTLE + 4 + 2 + len(topic) + 4 + 4
    (offset,) = struct.unpack_from(">q", answer, position)
    _, position = _string_at(answer, position + 8 + 4)
    return _error_at(answer, position), int(offset)


def commit_offset(group: bytes, generation: int, member_id: bytes, topic: bytes, offset: int) -> bytes:
    """OffsetCommit v5: of partition 0."""
    committed = struct.pack(">iiq", 1, 0, offset) + string(b"")
    return frame(8, 5, string(group) + struct.pack(">i", generation) + string(member_id) + struct.pack(">i", 1) + string(topic) + committed)


def commit_error(answer: bytearray, start: int, topic: bytes) -> int:
    """The error code of the one partition."""
    return _error_at(answer, start + BODY + _THROTTLE + 4 + 2 + len(topic) + 4 + 4)


def _error_at(answer: bytearray, position: int) -> int:
    return int(struct.unpack_from(">h", answer, position)[0])


def _string_at(answer: bytearray, position: int) -> tuple[bytes, int]:
    (length,) = struct.unpack_from(">h", answer, position)
    position += 2
    return bytes(answer[position : position + max(length, 0)]), position + max(length, 0)
