"""Requests that only attackers send, as bytes."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import frames
from transaction_frames import compact, flexible, unsigned

NULL = b"\0"
NO_TAGS = b"\0"
NONE_OF = b"\x01"  #: an empty compact array, or string


def list_transactions(pattern: bytes) -> bytes:
    """ListTransactions v2 with a pattern."""
    return flexible(66, 2, NONE_OF + NONE_OF + struct.pack(">q", -1) + compact(pattern) + NO_TAGS)


def consumer_heartbeat(group: bytes, member: bytes, epoch: int, topics: Sequence[bytes] | None, pattern: bytes | None = None) -> bytes:
    """ConsumerGroupHeartbeat v1: join with topics or a pattern."""
    names = NULL if topics is None else unsigned(len(topics) + 1) + b"".join(map(compact, topics))
    expression = NULL if pattern is None else compact(pattern)
    head = compact(group) + compact(member) + struct.pack(">i", epoch) + NULL + NULL + struct.pack(">i", 60_000)
    return flexible(68, 1, head + names + expression + NULL + NONE_OF + NO_TAGS)


def create_topics(names: Sequence[bytes], partitions: int = 1) -> bytes:
    """CreateTopics v2: many topics."""
    body = b"".join(frames.string(name) + struct.pack(">ihii", partitions, 1, 0, 0) for name in names)
    return frames.frame(19, 2, struct.pack(">i", len(names)) + body + struct.pack(">ib", 60_000, 0))


def metadata(names: Sequence[bytes] | None) -> bytes:
    """Metadata v4: these topics, created if they do not exist; None for all."""
    if names is None:
        return frames.frame(3, 4, struct.pack(">ib", -1, 0))
    return frames.frame(3, 4, struct.pack(">i", len(names)) + b"".join(map(frames.string, names)) + b"\1")


def describe_topic_partitions(names: Sequence[bytes], limit: int) -> bytes:
    """DescribeTopicPartitions v0: the first `limit` partitions of these topics."""
    topics = b"".join(compact(name) + NO_TAGS for name in names)
    return flexible(75, 0, unsigned(len(names) + 1) + topics + struct.pack(">ib", limit, -1) + NO_TAGS)


def offset_commit(group: bytes, topic: bytes, partitions: Sequence[int], note: bytes) -> bytes:
    """OffsetCommit v2 of a client that is no member of the group."""
    each = b"".join(struct.pack(">iq", partition, 1) + frames.string(note) for partition in partitions)
    body = frames.string(group) + struct.pack(">i", -1) + frames.string(b"") + struct.pack(">qi", -1, 1)
    return frames.frame(8, 2, body + frames.string(topic) + struct.pack(">i", len(partitions)) + each)


def commit_error(answer: bytearray) -> int:
    """The error code of the last partition in an answer to OffsetCommit 2."""
    return int(struct.unpack_from(">h", answer, len(answer) - 2)[0])


def find_coordinator(key: bytes, kind: int) -> bytes:
    """FindCoordinator v1: of a group (0) or a transactional id (1)."""
    return frames.frame(10, 1, frames.string(key) + struct.pack(">b", kind))


def idempotent_producer() -> bytes:
    """InitProducerId v1 without a transactional id."""
    return frames.frame(22, 1, struct.pack(">hi", -1, 60_000))


def join_group(group: bytes, version: int, *, session_ms: int = 300_000) -> bytes:
    """JoinGroup of a new member, which receives only an id in version 4 and joins at once in version 3."""
    protocols = struct.pack(">i", 1) + frames.string(b"range") + struct.pack(">i", 0)
    times = struct.pack(">ii", session_ms, session_ms)
    return frames.frame(11, version, frames.string(group) + times + frames.string(b"") + frames.string(b"consumer") + protocols)


def join_error(answer: bytearray) -> int:
    """The error code in an answer to JoinGroup 4."""
    return int(struct.unpack_from(">h", answer, frames.BODY + 4)[0])


def fetch_session(topic: bytes, partitions: int) -> bytes:
    """Fetch v11 that opens a session."""
    head = struct.pack(">iiiibii", -1, 0, 0, 1000, 0, 0, 0)
    places = b"".join(struct.pack(">iiqqi", partition, -1, 0, -1, 100) for partition in range(partitions))
    return frames.frame(
        1,
        11,
        head
        + struct.pack(">i", 1)
        + frames.string(topic)
        + struct.pack(">i", partitions)
        + places
        + struct.pack(">i", 0)
        + frames.string(b""),
    )


def old_fetch(topic: bytes, version: int, max_bytes: int) -> bytes:
    """Fetch 0 to 3, whose answers have older record formats."""
    head = struct.pack(">iii", -1, 0, 0) + (struct.pack(">i", max_bytes) if version >= 3 else b"")
    return frames.frame(1, version, head + struct.pack(">i", 1) + frames.string(topic) + struct.pack(">iiqi", 1, 0, 0, max_bytes))


def share_heartbeat(group: bytes, member: bytes, topic: bytes) -> bytes:
    """ShareGroupHeartbeat v1: join."""
    return flexible(76, 1, compact(group) + compact(member) + struct.pack(">i", 0) + NULL + unsigned(2) + compact(topic) + NO_TAGS)


def share_fetch(group: bytes, member: bytes, topic_id: bytes, partitions: int) -> bytes:
    """ShareFetch v1 that opens a session."""
    head = compact(group) + compact(member) + struct.pack(">iiiiii", 0, 0, 0, 1000, 10, 10)
    places = b"".join(struct.pack(">i", partition) + NONE_OF + NO_TAGS for partition in range(partitions))
    return flexible(78, 1, head + unsigned(2) + topic_id + unsigned(partitions + 1) + places + NO_TAGS + NONE_OF + NO_TAGS)


def topic_id_of(answer: bytes, name: bytes) -> bytes:
    """The id in an answer to Metadata 12, where it follows the name."""
    at = answer.index(compact(name)) + len(compact(name))
    return answer[at : at + 16]


def metadata_with_ids(name: bytes) -> bytes:
    """Metadata v12: one topic."""
    return flexible(3, 12, unsigned(2) + bytes(16) + compact(name) + NO_TAGS + b"\0\0" + NO_TAGS)


def alter_client_quota(client_id: bytes) -> bytes:
    """AlterClientQuotas v0: a quota of one client id."""
    entity = struct.pack(">i", 1) + frames.string(b"client-id") + frames.string(client_id)
    op = struct.pack(">i", 1) + frames.string(b"producer_byte_rate") + struct.pack(">db", 1e12, 0)
    return frames.frame(49, 0, struct.pack(">i", 1) + entity + op + b"\0")


def scram_credential(user: bytes) -> bytes:
    """AlterUserScramCredentials v0: one credential."""
    upsertion = compact(user) + struct.pack(">bi", 1, 4096) + compact(b"salt") + compact(b"p" * 32) + NO_TAGS
    return flexible(51, 0, NONE_OF + unsigned(2) + upsertion + NO_TAGS)


def produce_old(topics: bytes, count: int) -> bytes:
    """Produce v3 with `count` topics that are encoded in `topics`."""
    return frames.frame(0, 3, struct.pack(">hhii", -1, -1, 1000, count) + topics)
